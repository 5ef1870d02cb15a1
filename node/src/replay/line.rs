//! One line of an access log.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use jiff::fmt::strtime;
use tidegate_engine::IpKey;

/// The fields before the time: the address, the identity that identd reports, and the user.
const FIELDS: usize = 3;

/// The client and the time, in seconds since 1970-01-01T00:00:00Z, of a line that begins
///
/// ```text
/// [VHOST] ADDRESS IDENT USER [DAY/MONTH/YEAR:HOUR:MINUTE:SECOND ZONE]
/// ```
///
/// or has a time of ISO 8601 with a zone there, in brackets or without. In place of the address may
/// stand what proxies forwarded, as `CLIENT, PROXY, PROXY`.
pub fn parse(line: &[u8]) -> Option<(IpKey, i64)> {
    let (forwarded, line) = forwarded_for(line).map_or((None, line), |(by, rest)| (Some(by), rest));
    let mut head = [&line[..0]; FIELDS + 1];
    let mut rest = line;
    for count in 0..=head.len() {
        if count >= FIELDS
            && let Some(time) = time(rest)
        {
            let client = forwarded.map(IpKey::from).or_else(|| client(&head[..count]));
            return Some((client?, time));
        }
        let end = rest.iter().position(|byte| *byte == b' ').filter(|end| *end > 0)?;
        *head.get_mut(count)? = &rest[..end];
        rest = &rest[end + 1..];
    }
    None
}

/// The client of a line that has a list of addresses in place of one, and the line from the last
/// of them. A server's name may stand in front.
fn forwarded_for(line: &[u8]) -> Option<(IpAddr, &[u8])> {
    let name = line.iter().position(|byte| *byte == b' ')?;
    let behind_name = || (!line[..name].contains(&b',')).then(|| &line[name + 1..]);
    first_listed(line).or_else(|| first_listed(behind_name()?))
}

/// The first address of the list at the front, and the rest from the last part of it.
fn first_listed(list: &[u8]) -> Option<(IpAddr, &[u8])> {
    let comma = list.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let first = &list[..comma];
    let first = first.strip_prefix(b"\"").unwrap_or(first);
    let client = address(first).filter(|_| list[comma] == b',')?;
    let mut rest = list;
    loop {
        let end = rest.iter().position(|byte| *byte == b' ')?;
        if !rest[..end].ends_with(b",") {
            return Some((client, rest));
        }
        rest = &rest[end + 1..];
    }
}

/// The client among the fields before the time. With one field more than usual the server's name
/// stands in front, or the user's name has a space; or the one address for which a proxy forwards,
/// which has no port: a server's mostly has.
fn client(head: &[&[u8]]) -> Option<IpKey> {
    let address = match head {
        [_, b"-", _, _] => address(head[0]),
        // Of a list that begins with no address the client is not known.
        [first, ..] if first.ends_with(b",") => None,
        [first, second, _, _] => address(second).map(|peer| forwarded(first).unwrap_or(peer)),
        _ => address(head.first()?),
    };
    address.map(IpKey::from)
}

/// An address without a port, in quotes or without.
fn forwarded(field: &[u8]) -> Option<IpAddr> {
    let unquoted = field.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    std::str::from_utf8(unquoted.unwrap_or(field)).ok()?.parse().ok()
}

/// `ADDRESS`, `ADDRESS:PORT`, `[IPV6]` or `[IPV6]:PORT`, in quotes or without.
fn address(field: &[u8]) -> Option<IpAddr> {
    let quoted = field.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let text = std::str::from_utf8(quoted.unwrap_or(field)).ok()?;
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(inner) = bracketed {
        return inner.parse().ok().map(IpAddr::V6);
    }
    text.parse().ok().or_else(|| text.parse().ok().map(|with_port: SocketAddr| with_port.ip()))
}

/// The time at the front of `rest`.
fn time(rest: &[u8]) -> Option<i64> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let end_of = |end: u8| move |byte: &u8| *byte == end;
    if let Some(inner) = rest.strip_prefix(b"[") {
        let inner = &inner[..inner.iter().position(end_of(b']'))?];
        return common_time(inner).or_else(|| iso_time(text(inner)?));
    }
    if !rest.first()?.is_ascii_digit() {
        return None;
    }
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    iso_time(text(&rest[..end])?)
}

fn common_time(text: &[u8]) -> Option<i64> {
    let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", text).ok()?;
    Some(time.to_timestamp().ok()?.as_second())
}

fn iso_time(text: &str) -> Option<i64> {
    // Rounded down, also before 1970.
    let time: Timestamp = text.parse().ok()?;
    Some(time.as_nanosecond().div_euclid(1_000_000_000) as i64)
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
