//! An access log: lines are counted, requests are decided, and nothing in it is an error.
#![no_main]

use std::io::BufReader;

use libfuzzer_sys::fuzz_target;
use tidegate::fuzzing::{decide, log};
use tidegate_engine::{IpKey, Quota};

fuzz_target!(|bytes: &[u8]| {
    let read = log::read(bytes).expect("memory is always read");
    let ends = bytes.split(|byte| *byte == b'\n').count() as u64 - 1;
    let open = u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
    assert_eq!(read.lines, ends + open);
    assert!(read.requests.len() as u64 <= read.lines && read.reordered <= read.lines);
    assert!(read.foreign + read.requests.len() as u64 <= read.lines);
    for (place, key) in read.keys.iter().enumerate() {
        assert_eq!(IpKey::from(key.network()), *key, "as the engine limits them");
        assert!(!read.keys[..place].contains(key), "each once");
    }
    let in_pieces = log::read(BufReader::with_capacity(7, bytes)).expect("as above");
    assert_eq!((in_pieces.requests, in_pieces.keys), (read.requests.clone(), read.keys.clone()));

    if read.requests.is_empty() {
        return;
    }
    if let Ok(counts) = decide::decide(&read, &Quota::per_minute(1).burst(2)) {
        let decided: u64 = counts.iter().map(|counts| counts.allowed + counts.denied).sum();
        assert_eq!((counts.len(), decided), (read.keys.len(), read.requests.len() as u64));
    }
});
