//! The text of a configuration file: limits that can be enforced, or the line and key of the
//! mistake.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use tidegate::fuzzing::{parse_rules, rules_text};
use tidegate_engine::{Limiter, ManualClock};

/// The most limits that a file may have.
const MAX_LIMITS: usize = 256;

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    match rules_text(bytes).and_then(parse_rules) {
        Ok(limits) => {
            let names: BTreeSet<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
            assert!(names.len() == limits.len() && (1..=MAX_LIMITS).contains(&limits.len()));
            for limit in &limits {
                assert!(limit.name.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
                let limiter = Limiter::builder(limit.quota).capacity(1).clock(ManualClock::new());
                assert!(limiter.build().is_ok(), "{limit:?}");
            }
        }
        Err(error) => {
            assert!((1..=lines).contains(&error.line), "{error}");
            assert!(!error.problem.is_empty() && !error.problem.contains('\n'), "{error}");
        }
    }
});
