use super::*;

#[test]
fn a_newline_at_the_end_does_not_count() {
    let plain = Secret::from_bytes(b"0123456789abcdef").unwrap();
    let line = Secret::from_bytes(b"0123456789abcdef\n").unwrap();
    assert_eq!(plain.authority_seed(), line.authority_seed());
    assert!(matches!(Secret::from_bytes(b"0123456789abcde\n"), Err(SecretError::TooShort)));
}

#[test]
fn what_was_hardly_chosen_at_random_is_none() {
    for text in ["aaaaaaaaaaaaaaaa", "0101010101010101", "abcdabcdabcdabcd\n"] {
        let read = Secret::from_bytes(text.as_bytes());
        assert!(matches!(read, Err(SecretError::TooUniform)), "{text}");
    }
    assert!(Secret::from_bytes(b"abcdeabcdeabcdea").is_ok());
}

#[test]
fn debug_shows_nothing() {
    let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
    assert_eq!(format!("{secret:?}"), "Secret(..)");
}
