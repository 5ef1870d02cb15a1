use alloc::rc::Rc;
use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::base::address::IpKey;

fn plain(key: &dyn Key) -> String {
    key.shown().to_string()
}

fn quoted(key: &dyn Key) -> String {
    format!("{:?}", key.shown())
}

/// A key of a user's own type.
struct Customer {
    name: &'static str,
}

impl Key for Customer {
    fn hash_with(&self, hasher: &crate::KeyHasher) -> KeyHash {
        self.name.hash_with(hasher)
    }

    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Other(&self.name)
    }
}

#[test]
fn keys_are_shown_as_they_were_given() {
    let networks: [IpKey; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let shown: [(&dyn Key, &str, &str); 13] = [
        (&"user:42", "user:42", "\"user:42\""),
        (&String::from("it's"), "it's", "\"it's\""),
        (&Rc::<[u8]>::from(*b"caf\xc3\xa9 \xc3"), "café \\xc3", "\"café \\xc3\""),
        (&b"a\0b", "a\\0b", "\"a\\0b\""),
        (&u64::MAX, "18446744073709551615", "18446744073709551615"),
        (&-7_i8, "-7", "-7"),
        (&i128::MIN, &i128::MIN.to_string(), &i128::MIN.to_string()),
        (&networks[0], "127.0.0.1/32", "127.0.0.1/32"),
        (&networks[1], "::/64", "::/64"),
        (&("a", (1, "b")), "(\"a\", (1, \"b\"))", "(\"a\", (1, \"b\"))"),
        (&("a", 1, "b"), "(\"a\", 1, \"b\")", "(\"a\", 1, \"b\")"),
        (&Customer { name: "x\ny" }, "x\\ny", "\"x\\ny\""),
        (&KeyHash::from_bits(5), "KeyHash(0x000000000000005)", "KeyHash(0x000000000000005)"),
    ];
    for (key, as_plain, as_quoted) in shown {
        assert_eq!((&*plain(key), &*quoted(key)), (as_plain, as_quoted));
    }
}

#[test]
fn what_cannot_be_seen_is_escaped_unless_it_is_a_letter_or_a_symbol() {
    for hidden in "\0\u{7f}\u{85}\u{a0}\u{ad}\u{34f}\u{180e}\u{200b}\u{2003}\u{2028}\u{202e}\
        \u{2066}\u{3000}\u{e000}\u{fe0f}\u{feff}\u{e0020}\u{10ffff}"
        .chars()
    {
        assert_eq!(plain(&hidden.to_string()), hidden.escape_debug().to_string());
        assert!(plain(&hidden.to_string()).starts_with('\\'), "{hidden:?}");
    }
    let blank = "\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}";
    assert_eq!(plain(&blank), blank);
}

#[test]
fn text_and_bytes_can_be_had_in_full() {
    let long = "\n".repeat(1_000);
    assert_eq!(long.shown().as_str(), Some(&*long));
    assert_eq!(long.shown().as_bytes(), Some(long.as_bytes()));
    assert_eq!(b"a".shown().as_bytes(), Some(&b"a"[..]));
    assert_eq!((b"a".shown().as_str(), 1.shown().as_bytes()), (None, None));
}

#[test]
fn a_long_key_ends_in_an_ellipsis() {
    let exact = "x".repeat(MAX_SHOWN_BYTES);
    assert_eq!(plain(&exact), exact);
    assert_eq!(plain(&(exact.clone() + "y")), exact.clone() + ELLIPSIS);
    assert_eq!(quoted(&exact.repeat(100).as_bytes()), format!("\"{exact}{ELLIPSIS}\""));
    // An escape is never cut in two.
    let escapes = format!("{}\u{7}abc", "x".repeat(MAX_SHOWN_BYTES - 2));
    assert_eq!(plain(&escapes), "x".repeat(MAX_SHOWN_BYTES - 2) + ELLIPSIS);
    // A character is not cut in two either, though bytes are.
    let wide = "é".repeat(MAX_SHOWN_BYTES);
    assert_eq!(plain(&wide.as_bytes()), "é".repeat(MAX_SHOWN_BYTES / 2) + ELLIPSIS);
}

/// What one part leaves is for the others, and none hides another.
#[test]
fn parts_share_the_room() {
    let long = "x".repeat(1_000);
    let half = "x".repeat(63);
    assert_eq!(plain(&(&long, "user:42")), format!("(\"{half}{ELLIPSIS}\", \"user:42\")"));
    let rest = "x".repeat(126);
    assert_eq!(plain(&("a", &long)), format!("(\"a\", \"{rest}{ELLIPSIS}\")"));
    let third = "x".repeat(42);
    let parts = format!("(\"{third}{ELLIPSIS}\", 7, \"b\")");
    assert_eq!(plain(&(&long, 7, "b")), parts);
}

/// There is an end even to a key that is a pair of itself.
#[test]
fn a_key_of_itself_ends() {
    struct Endless;
    impl Key for Endless {
        fn hash_with(&self, hasher: &crate::KeyHasher) -> KeyHash {
            0_u8.hash_with(hasher)
        }

        fn shown(&self) -> ShownKey<'_> {
            ShownKey::Pair(self, self)
        }
    }
    let shown = plain(&Endless);
    assert!(shown.len() < 10 * MAX_SHOWN_BYTES, "{shown}");
}

proptest! {
    /// One line, without characters that move a cursor or cannot be seen, and short.
    #[test]
    fn no_key_forges_a_line(text in any::<Vec<char>>(), bytes in any::<Vec<u8>>()) {
        let text: String = text.into_iter().chain("\r\n\u{202e}\u{2028}\u{7f}".chars()).collect();
        let wild: [&dyn Key; 4] = [&text, &bytes, &(&text, &bytes), &(&bytes, 1, &text)];
        for key in wild {
            for shown in [plain(key), quoted(key)] {
                let harmless = |it: char| it == ' ' || it.escape_debug().count() == 1
                    || matches!(it, '"' | '\\' | '\'');
                prop_assert!(shown.chars().all(harmless), "{shown:?}");
                prop_assert!(shown.len() <= MAX_SHOWN_BYTES + 32, "{shown:?}");
            }
        }
        // Quotes in the text do not end the text: unescaped ones are the first and the last.
        let inside = quoted(&text);
        let inside = inside.trim_start_matches('"').replace("\\\\", "").replace("\\\"", "");
        prop_assert_eq!(inside.matches('"').count(), 1);
    }
}
