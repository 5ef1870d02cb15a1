//! Access logs in the common and combined formats.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::net::IpAddr;

use jiff::fmt::strtime;

/// How much of a line is parsed, in bytes. A line may be longer.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// The requests of a log: 16 bytes each, and the text of each address once.
#[derive(Debug, Default)]
pub struct Log {
    pub lines: u64,
    /// In the order of the log.
    pub requests: Vec<Request>,
    /// Requests whose time is earlier than that of one before them.
    pub reordered: u64,
    /// The addresses, in canonical form.
    pub keys: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub time: i64,
    /// Index into the keys of the log.
    pub key: usize,
}

/// Reads a log to its end.
///
/// # Errors
/// When reading fails; no line is an error.
pub fn read(mut input: impl BufRead) -> io::Result<Log> {
    let mut log = Log::default();
    let mut places = HashMap::new();
    let mut latest = i64::MIN;
    let mut line = Vec::new();
    while read_line(&mut input, &mut line)? {
        log.lines += 1;
        let Some((key, time)) = parse(&line) else { continue };
        let key = *places.entry(key).or_insert_with(|| {
            log.keys.push(key.to_string());
            log.keys.len() - 1
        });
        log.requests.push(Request { time, key });
        log.reordered += u64::from(time < latest);
        latest = latest.max(time);
    }
    Ok(log)
}

/// Reads up to and with the next line feed, and keeps the beginning; false at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line)?;
    if read as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
        input.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

/// The address and time of `ADDRESS FIELD FIELD [DAY/MONTH/YEAR:HOUR:MINUTE:SECOND ZONE]...`.
fn parse(line: &[u8]) -> Option<(IpAddr, i64)> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let address: IpAddr = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    for _ in 0..2 {
        if fields.next()?.is_empty() {
            return None;
        }
    }
    let time = fields.next()?.strip_prefix(b"[")?;
    let end = time.iter().position(|byte| *byte == b']')?;
    let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", &time[..end]).ok()?;
    Some((address, time.to_timestamp().ok()?.as_second()))
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
