//! Bytes from another node, by every decoder of the cluster's wire forms.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_cluster::core::MAX_MESSAGE_BYTES;
use tidegate_cluster::core::fuzzing::{Decoded, Form};
use tidegate_fuzz::memory;

fuzz_target!(|bytes: &[u8]| {
    for form in [Form::Message, Form::Deltas, Form::Packet] {
        let (decoded, asked) = memory::asked(|| Decoded::from_bytes(form, bytes));
        assert!(asked <= bound(form, bytes), "{form:?}: {asked} bytes of memory");
        let Ok(decoded) = decoded else { continue };
        let mut encoded = decoded.to_bytes().expect("what was decoded fits");
        assert_eq!(
            Decoded::from_bytes(form, &encoded).expect("what was encoded is whole"),
            decoded
        );
        encoded.push(0);
        assert!(Decoded::from_bytes(form, &encoded).is_err(), "a byte is left over");
    }
});

/// What a decoder may ask for in all, in bytes of memory.
fn bound(form: Form, bytes: &[u8]) -> usize {
    /// A member in memory over its shortest form on the wire, and twice that for vectors that grow.
    const MEMBER_GROWTH: usize = 2 * 64 / 10;
    match form {
        Form::Message | Form::Deltas => MAX_MESSAGE_BYTES,
        Form::Packet => bytes.len() * MEMBER_GROWTH + 512,
    }
}
