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
        let _ = decode::<Vec<Delta>>(&bytes);
        let me = NodeId::new("127.0.0.1:1".parse().unwrap(), 7);
        let mut membership = Membership::new(me, &Options::default());
        membership.packet(0, &bytes);
    }
}

#[test]
fn a_trailing_byte_is_refused() {
    let mut bytes = encode(&Message::Ack { seq: 300 }).unwrap();
    assert!(decode::<Message>(&bytes).is_ok());
    bytes.push(0);
    assert!(decode::<Message>(&bytes).is_err());
}

#[test]
fn a_claimed_length_is_checked_before_memory_is_allocated() {
    // A vector that claims 2^60 deltas.
    let bytes = [253, 0, 0, 0, 0, 0, 0, 0, 16];
    assert!(decode::<Vec<Delta>>(&bytes).is_err());
}
