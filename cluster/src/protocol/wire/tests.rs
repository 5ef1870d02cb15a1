use proptest::prelude::*;

use super::super::membership::Membership;
use super::super::options::Options;
use super::*;

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        if let Ok(message) = decode::<Message>(&bytes) {
            prop_assert_eq!(decode::<Message>(&encode(&message).unwrap()).unwrap(), message);
        }
        let _ = decode::<Vec<Level>>(&bytes);
        let me = NodeId::new("127.0.0.1:1".parse().unwrap(), 7);
        let mut membership = Membership::new(me, &Options::default());
        membership.packet(0, &bytes);
    }
}

#[test]
fn a_trailing_byte_is_refused() {
    let mut bytes = encode(&Message::Ack { number: 300 }).unwrap();
    assert!(decode::<Message>(&bytes).is_ok());
    bytes.push(0);
    assert!(decode::<Message>(&bytes).is_err());
}

#[test]
fn a_claimed_length_is_checked_before_memory_is_allocated() {
    // A vector that claims 2^60 levels.
    let bytes = [253, 0, 0, 0, 0, 0, 0, 0, 16];
    assert!(decode::<Vec<Level>>(&bytes).is_err());
}

#[test]
fn the_largest_batch_is_a_message() {
    use super::super::bounds::{MAX_BATCH_DELTAS, MAX_LEVELS, MAX_ORIGINS, MAX_SHIFTS};
    let addr = "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap();
    let origin = Origin { addr, generation: u64::MAX };
    let level = Level { limit: u64::MAX, key: u64::MAX, debt: u64::MAX };
    let change = Change { debt: i64::MIN, date: i64::MIN };
    // Each delta of a limit of its own, which takes the most room.
    let delta = |limit| Delta { limit: u64::MAX - limit, key: u64::MAX, change };
    let deltas: Vec<Delta> = (0..MAX_BATCH_DELTAS as u64).map(delta).collect();
    let shift = Shift { to: origin, limit: u64::MAX, key: u64::MAX, by: i64::MIN };
    let levels = Agreement {
        cut: vec![(origin, u64::MAX); MAX_ORIGINS],
        levels: vec![level; MAX_LEVELS],
        scarce: u64::MAX,
        shifts: vec![shift; MAX_SHIFTS],
    };
    let message =
        Message::Batch { number: u64::MAX, at: u64::MAX, groups: group(&deltas, u64::MAX), levels };
    let bytes = encode(&message).unwrap();
    assert!(bytes.len() <= MAX_MESSAGE_BYTES, "{}", bytes.len());
    assert_eq!(decode::<Message>(&bytes).unwrap(), message);
}

/// The bytes in docs/internals/wire.md.
#[test]
fn the_format_is_the_documented_one() {
    let id = NodeId { addr: "10.0.0.1:7381".parse().unwrap(), generation: 5, rank: 300 };
    let key = HashKey::candidate(9, *b"0123456789abcdef").in_use();
    let hex = |message: &Message| {
        encode(message)
            .unwrap()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/internals/wire.md");
    let documented = std::fs::read_to_string(path).unwrap();
    let documented = documented.split_whitespace().collect::<Vec<_>>().join(" ");
    for message in [
        Message::Hello { version: 4, oldest: 3, id, key },
        Message::Beat { now: 70_000, delay: Some(-3), lag: 250, run_delay: 60 },
        Message::Batch {
            number: 1,
            at: 70_000,
            groups: vec![Group { limit: 1, changes: vec![(0x0102_0304_0506_0708, -2, 9)] }],
            levels: Agreement {
                cut: vec![(id.origin(), 7)],
                levels: vec![Level { limit: 1, key: 2, debt: 3 }],
                scarce: 1,
                shifts: vec![Shift { to: id.origin(), limit: 1, key: 2, by: -4 }],
            },
        },
        Message::Missed { to: 4, at: 1, upto: Some((1, 2)), groups: Vec::new() },
        Message::Ack { number: 300 },
    ] {
        let hex = hex(&message);
        assert!(documented.contains(&hex), "{message:?} is {hex}");
    }
}
