use std::net::IpAddr;

use proptest::prelude::*;
use tidegate_engine::IpKey;

use super::parse;

/// Seconds since 1970 of the time in the lines below.
const TIME: i64 = 1_431_857_103;

fn key(text: &str) -> IpKey {
    text.parse::<IpAddr>().unwrap().into()
}

#[test]
fn a_line_may_end_behind_its_time() {
    for line in [
        &b"1.2.3.4 - - [17/May/2015:10:05:03 +0000]"[..],
        b"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET",
        b"1.2.3.4 ident me [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 5\r\n",
        b"1.2.3.4 - - [17/May/2015:02:35:03 -0730]\xff\0",
    ] {
        assert_eq!(parse(line), Some((key("1.2.3.4"), TIME)), "{}", line.escape_ascii());
    }
}

#[test]
fn an_address_is_written_in_many_ways() {
    for (written, address) in [
        ("1.2.3.4", "1.2.3.4"),
        ("\"1.2.3.4\"", "1.2.3.4"),
        ("1.2.3.4:56789", "1.2.3.4"),
        ("\"1.2.3.4:56789\"", "1.2.3.4"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
        ("64:ff9b::1.2.3.4", "1.2.3.4"),
        ("2001:db8:1:2::1", "2001:db8:1:2::"),
        ("[2001:DB8:1:2::1]", "2001:db8:1:2:ffff::"),
        ("[2001:db8:1:2::1]:56789", "2001:db8:1:2:0:1::"),
        ("\"[2001:db8:1:2::1]\"", "2001:db8:1:2::"),
    ] {
        for front in ["", "example.org ", "example.org:443 ", "192.0.2.1:80 "] {
            let line = format!("{front}{written} - - [17/May/2015:10:05:03 +0000] \"GET");
            assert_eq!(parse(line.as_bytes()), Some((key(address), TIME)), "{line}");
        }
    }
    // A user whose name has a space.
    let line = b"1.2.3.4 - John Smith [17/May/2015:10:05:03 +0000]";
    assert_eq!(parse(line), Some((key("1.2.3.4"), TIME)));
}

#[test]
fn of_addresses_that_proxies_forwarded_the_first_is_the_clients() {
    let of = |list: &str| parse(format!("{list} - - [17/May/2015:10:05:03 +0000] x").as_bytes());
    for list in [
        "192.0.2.7, 10.0.0.1",
        "192.0.2.7, 10.0.0.1, 10.0.0.2, 10.0.0.3",
        "\"192.0.2.7, 10.0.0.1\"",
        "192.0.2.7, unknown",
        "192.0.2.7:80, 10.0.0.1",
        "192.0.2.7,10.0.0.1",
        "192.0.2.7,10.0.0.1, 10.0.0.2",
        "example.org 192.0.2.7, 10.0.0.1",
        "example.org:80 192.0.2.7,10.0.0.1",
    ] {
        assert_eq!(of(list), Some((key("192.0.2.7"), TIME)), "{list}");
    }
    // One without a comma is a server's name only with a port.
    for (front, client) in [
        ("192.0.2.7 10.0.0.1", "192.0.2.7"),
        ("\"2001:db8::1\" 10.0.0.1", "2001:db8::"),
        ("192.0.2.7 10.0.0.1:80", "192.0.2.7"),
        ("192.0.2.7:80 10.0.0.1", "10.0.0.1"),
        ("- 10.0.0.1", "10.0.0.1"),
    ] {
        assert_eq!(of(front), Some((key(client), TIME)), "{front}");
    }
    for list in ["unknown, 10.0.0.1", "unknown, 192.0.2.7, 10.0.0.1", ", 10.0.0.1"] {
        assert_eq!(of(list), None, "{list}");
    }
}

#[test]
fn a_time_may_be_of_iso_8601() {
    for time in [
        "[2015-05-17T10:05:03Z]",
        "[2015-05-17T12:05:03+02:00]",
        "[2015-05-17T10:05:03.999+00:00]",
        "[2015-05-17 10:05:03Z]",
        "2015-05-17T12:05:03+02:00",
    ] {
        for line in [format!("1.2.3.4 - - {time}"), format!("example.org 1.2.3.4 - - {time} \"GET")]
        {
            assert_eq!(parse(line.as_bytes()), Some((key("1.2.3.4"), TIME)), "{line}");
        }
    }
    let before_1970 = b"1.2.3.4 - - [1969-12-31T23:59:59.5Z]";
    assert_eq!(parse(before_1970), Some((key("1.2.3.4"), -1)));
}

#[test]
fn any_other_line_is_skipped() {
    for line in [
        &b""[..],
        b"\n",
        b"1.2.3.4",
        b"1.2.3.4 - -",
        b" 1.2.3.4 - - [17/May/2015:10:05:03 +0000]",
        b"1.2.3.4 - [17/May/2015:10:05:03 +0000]",
        b"1.2.3.4 - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5",
        b"1.2.3.4  - [17/May/2015:10:05:03 +0000]",
        b"1.2.3.4 - - [17/May/2015:10:05:03 +0000",
        b"1.2.3.4 - - [17/May/2015:10:05:03]",
        b"1.2.3.4 - - [2015-05-17T10:05:03]",
        b"1.2.3.4 - - [32/May/2015:10:05:03 +0000]",
        b"1.2.3.4 - - [17/Mai/2015:10:05:03 +0000]",
        b"1.2.3.4 - - [17/May/2015 10:05:03 +0000]",
        b"1.2.3.4 - - []",
        b"1.2.3 - - [17/May/2015:10:05:03 +0000]",
        b"1.2.3.256 - - [17/May/2015:10:05:03 +0000]",
        b"1.2.3.4:99999 - - [17/May/2015:10:05:03 +0000]",
        b"[1.2.3.4] - - [17/May/2015:10:05:03 +0000]",
        b"\"1.2.3.4 - - [17/May/2015:10:05:03 +0000]",
        b"\xff - - [17/May/2015:10:05:03 +0000]",
        b"host - - [17/May/2015:10:05:03 +0000]",
        // The server's address, before a client's name.
        b"192.0.2.1 host - - [17/May/2015:10:05:03 +0000]",
        b"a b 1.2.3.4 - - [17/May/2015:10:05:03 +0000]",
        b"{\"ip\":\"1.2.3.4\",\"time\":\"2015-05-17T10:05:03Z\",\"status\":200}",
        b"2015-05-17 10:05:03 192.0.2.1 GET / - 80 - 1.2.3.4 Mozilla/5.0 200 0 0 15",
    ] {
        assert_eq!(parse(line), None, "{}", line.escape_ascii());
    }
}

proptest! {
    #[test]
    fn what_looks_like_a_line_is_read(
        head in "[0-9a-f:.\"\\[\\] -]{0,40}",
        day in "[0-9]{1,2}/[A-Z][a-z]{2}/[0-9]{1,5}",
        time in "[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{2,6}",
        iso in "[0-9]{1,4}-[0-9]{1,2}-[0-9]{1,2}[T ][0-9:.]{5,12}[Z+-]?[0-9:]{0,6}",
    ) {
        for time in [format!("{day}:{time}"), iso] {
            let _ = parse(format!("1.1.1.1 - - [{time}]").as_bytes());
            let _ = parse(format!("{head} - - [{time}]").as_bytes());
            let _ = parse(format!("{head} - - {time}").as_bytes());
        }
    }
}
