use std::io::{BufReader, ErrorKind, Read};

use proptest::prelude::*;

use super::{Example, LoggedRequest, MAX_LINE_BYTES, MAX_SHOWN_CHARS, read};

#[test]
fn a_client_is_one_key_however_its_address_is_written() {
    let mut text = String::new();
    for address in [
        "2001:db8::1",
        "2001:DB8:0:0:ffff::1",
        "[2001:db8::2]:443",
        "2001:db8:0:1::1",
        "1.2.3.4",
        "::ffff:1.2.3.4",
        "1.2.3.4:5678",
    ] {
        text.push_str(address);
        text.push_str(" - - [17/May/2015:10:05:03 +0000]\n");
    }
    let log = read(text.as_bytes()).unwrap();
    let keys: Vec<_> = log.keys.iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["2001:db8::/64", "2001:db8:0:1::/64", "1.2.3.4/32"]);
    let order = log.requests.iter().map(|request| request.key);
    assert_eq!(order.collect::<Vec<_>>(), [0, 0, 0, 1, 2, 2, 2]);
}

#[test]
fn lines_keys_and_their_order_are_counted() {
    let log = "1.1.1.1 - - [17/May/2015:10:05:03 +0000]\njunk\n\
        2.2.2.2 - - [17/May/2015:10:05:01 +0000]\n1.1.1.1 - - [17/May/2015:10:05:02 +0000]\n\
        2.2.2.2 - - [17/May/2015:10:05:03 +0000]";
    let log = read(log.as_bytes()).unwrap();
    assert_eq!((log.lines, log.reordered), (5, 2));
    let keys: Vec<_> = log.keys.iter().map(|key| key.network().to_string()).collect();
    assert_eq!(keys, ["1.1.1.1", "2.2.2.2"]);
    let seen: Vec<_> =
        log.requests.iter().map(|LoggedRequest { time, key }| (time % 10, *key)).collect();
    assert_eq!(seen, [(3, 0), (1, 1), (2, 0), (3, 1)]);
    assert_eq!(read(&b""[..]).unwrap().lines, 0);
    assert_eq!(read(&b"\n\n"[..]).unwrap().lines, 2);
}

#[test]
fn the_first_line_that_is_no_request_is_kept() {
    let log = "\n \r\n1.1.1.1 - - [17/May/2015:10:05:03 +0000]\n a\x1b[2J\tb\u{e9} \r\nmore\n";
    let log = read(log.as_bytes()).unwrap();
    assert_eq!((log.lines, log.foreign), (5, 2));
    assert_eq!(log.example, Some(Example { line: 4, text: "a?[2J?b\u{e9}".to_owned() }));
    let cut = read("\u{e9}".repeat(1_000).as_bytes()).unwrap().example.unwrap();
    assert_eq!(cut.text, "\u{e9}".repeat(MAX_SHOWN_CHARS));
    assert_eq!(read(&b"\n\n"[..]).unwrap().example, None);
}

/// Compressed bytes that are damaged behind what they hold.
struct Damaged<'a>(&'a [u8], ErrorKind);

impl Read for Damaged<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.0.is_empty() { Err(self.1.into()) } else { self.0.read(into) }
    }
}

#[test]
fn what_comes_before_the_damage_counts() {
    let lines = b"junk\n1.1.1.1 - - [17/May/2015:10:05:03 +0000]\n2.2.2.2 - - [17/";
    let read = |upto: usize, kind| read(BufReader::new(Damaged(&lines[..upto], kind)));
    let log = read(lines.len(), ErrorKind::UnexpectedEof).unwrap();
    assert_eq!((log.lines, log.requests.len()), (2, 1));
    assert!(log.damage.is_some());
    assert!(read(10, ErrorKind::InvalidData).is_err(), "nothing is understood");
    assert!(read(lines.len(), ErrorKind::PermissionDenied).is_err(), "the file cannot be read");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    let line = "1.1.1.1 - - [17/May/2015:10:05:03 +0000]\n";
    let log = read(format!("\u{feff}{line}\u{feff}{line}").as_bytes()).unwrap();
    assert_eq!((log.requests.len(), log.foreign), (1, 1));
    assert_eq!(log.example.unwrap().line, 2);
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
        prop_assert_eq!(log.example.is_some(), log.foreign > 0);
    }
}
