use std::net::IpAddr;

use proptest::prelude::*;

use super::{MAX_LINE_BYTES, Request, parse, read};

#[test]
fn a_line_may_end_behind_its_time() {
    let time = 1_431_857_103;
    for line in [
        &b"1.2.3.4 - - [17/May/2015:10:05:03 +0000]"[..],
        b"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET",
        b"1.2.3.4 ident me [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 5\r\n",
        b"1.2.3.4 - - [17/May/2015:02:35:03 -0730]\xff\0",
    ] {
        assert_eq!(parse(line), Some((ip("1.2.3.4"), time)), "{}", line.escape_ascii());
    }
    assert_eq!(
        parse(b"2001:db8::1 - - [17/May/2015:10:05:03 +0000]"),
        Some((ip("2001:db8::1"), time))
    );
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_address_is_one_key_however_it_is_written() {
    let mut text = String::new();
    for address in ["::1", "0:0:0:0:0:0:0:1", "2001:DB8::1", "2001:0db8:0::0:1", "1.2.3.4"] {
        text.push_str(address);
        text.push_str(" - - [17/May/2015:10:05:03 +0000]\n");
    }
    let log = read(text.as_bytes()).unwrap();
    assert_eq!(log.keys, ["::1", "2001:db8::1", "1.2.3.4"]);
    assert_eq!(log.requests.iter().map(|request| request.key).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
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
        b"1.2.3.4  - [17/May/2015:10:05:03 +0000]",
        b"1.2.3.4 - - [17/May/2015:10:05:03 +0000",
        b"1.2.3.4 - - [17/May/2015:10:05:03]",
        b"1.2.3.4 - - [32/May/2015:10:05:03 +0000]",
        b"1.2.3.4 - - [17/Mai/2015:10:05:03 +0000]",
        b"1.2.3.4 - - [17/May/2015 10:05:03 +0000]",
        b"1.2.3.4 - - []",
        b"1.2.3 - - [17/May/2015:10:05:03 +0000]",
        b"1.2.3.256 - - [17/May/2015:10:05:03 +0000]",
        b"\xff - - [17/May/2015:10:05:03 +0000]",
        b"host - - [17/May/2015:10:05:03 +0000]",
    ] {
        assert_eq!(parse(line), None, "{}", line.escape_ascii());
    }
}

#[test]
fn lines_keys_and_their_order_are_counted() {
    let log = "1.1.1.1 - - [17/May/2015:10:05:03 +0000]\njunk\n\
        2.2.2.2 - - [17/May/2015:10:05:01 +0000]\n1.1.1.1 - - [17/May/2015:10:05:02 +0000]\n\
        2.2.2.2 - - [17/May/2015:10:05:03 +0000]";
    let log = read(log.as_bytes()).unwrap();
    assert_eq!((log.lines, log.reordered), (5, 2));
    assert_eq!(log.keys, ["1.1.1.1", "2.2.2.2"]);
    let seen: Vec<_> = log.requests.iter().map(|Request { time, key }| (time % 10, *key)).collect();
    assert_eq!(seen, [(3, 0), (1, 1), (2, 0), (3, 1)]);
    assert_eq!(read(&b""[..]).unwrap().lines, 0);
    assert_eq!(read(&b"\n\n"[..]).unwrap().lines, 2);
}

#[test]
fn a_long_line_is_one_line() {
    let head = b"1.1.1.1 - - [17/May/2015:10:05:03 +0000] ";
    for rest in [MAX_LINE_BYTES as usize - head.len(), MAX_LINE_BYTES as usize * 3] {
        let mut log = head.to_vec();
        log.resize(log.len() + rest, b'x');
        log.extend_from_slice(b"\n");
        log.extend_from_slice(head);
        let log = read(log.as_slice()).unwrap();
        assert_eq!((log.lines, log.requests.len()), (2, 2));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let log = read(bytes.as_slice()).unwrap();
        let ends = memchr::memchr_iter(b'\n', &bytes).count() as u64;
        prop_assert!(log.lines == ends || log.lines == ends + 1);
    }

    #[test]
    fn what_looks_like_a_time_is_read(
        day in "[0-9]{1,2}/[A-Z][a-z]{2}/[0-9]{1,5}",
        time in "[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{2,6}",
    ) {
        let _ = parse(format!("1.1.1.1 - - [{day}:{time}]").as_bytes());
    }
}
