//! The text of a rule: a rule that prints as a short text, which reads back as the same rule, or
//! one line that names what is wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_engine::Quota;
use tidegate_engine::rule::AnyRule;

/// Above what a calendar takes whose every number is as long as can be.
const MAX_PRINTED_BYTES: usize = 100;
/// Above what an error may take: its words, and what it shows of a text with each character
/// escaped.
const MAX_ERROR_BYTES: usize = 1_024;

fuzz_target!(|text: &str| {
    let quota = text.parse::<Quota>();
    match text.parse::<AnyRule>() {
        Ok(rule) => {
            let printed = rule.to_string();
            assert_eq!(printed.parse(), Ok(rule), "{printed}");
            assert!(printed.len() <= MAX_PRINTED_BYTES, "{printed}");
            match rule {
                AnyRule::Quota(read) => assert_eq!(quota, Ok(read)),
                _ => assert!(quota.is_err()),
            }
            let _ = rule.direct();
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.offset()));
            let shown = error.to_string();
            assert!(shown.len() <= MAX_ERROR_BYTES && !shown.contains(char::is_control));
            assert_eq!(quota, Err(error));
        }
    }
});
