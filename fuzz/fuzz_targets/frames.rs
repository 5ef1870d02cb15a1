//! Bytes from another node, through every decoder of the cluster's wire formats.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_cluster::protocol::MAX_MESSAGE_BYTES;
use tidegate_cluster::protocol::fuzzing::{Decoded, Form};
use tidegate_fuzz::memory;

fuzz_target!(|bytes: &[u8]| {
    for form in [Form::Message, Form::Oldest, Form::Groups, Form::Packet] {
        let (decoded, asked) = memory::asked(|| Decoded::from_bytes(form, bytes));
        assert!(asked <= bound(form, bytes), "{form:?}: {asked} bytes of memory");
        let Ok(decoded) = decoded else { continue };
        let mut encoded = decoded.to_bytes().expect("what was decoded fits");
        assert_eq!(
            Decoded::from_bytes(form, &encoded).expect("what was encoded can be decoded"),
            decoded
        );
        encoded.push(0);
        assert!(Decoded::from_bytes(form, &encoded).is_err(), "a byte is left over");
    }
});

/// The most memory that a decoder may allocate in total, in bytes.
fn bound(form: Form, bytes: &[u8]) -> usize {
    /// The ratio of a group's size in memory to its shortest encoding: the largest of a message.
    const MESSAGE_GROWTH: usize = 32 / 2;
    /// The ratio of a member's size in memory to its shortest encoding, and twice that for vectors
    /// that grow.
    const MEMBER_GROWTH: usize = 2 * 64 / 10;
    match form {
        // What is whole grows; vectors that claim more than follows are bounded together.
        Form::Message | Form::Oldest | Form::Groups => {
            bytes.len() * MESSAGE_GROWTH + MAX_MESSAGE_BYTES
        }
        Form::Packet => bytes.len() * MEMBER_GROWTH + 512,
    }
}
