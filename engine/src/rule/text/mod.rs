//! Rules as text. [`AnyRule`] states the grammar; `parse` reads it, `print` writes it.
//!
//! A text says which kind of rule it is, so each type reads a rule of any kind and refuses the
//! others: no text means two rules.

mod error;
mod parse;
mod print;
#[cfg(feature = "serde")]
mod serde;
mod span;
mod tokens;

use core::str::FromStr;

use crate::rule::any::AnyRule;
use crate::rule::quota::Quota;
use crate::rule::window::{CalendarWindow, FixedWindow, SlidingWindow};

pub use error::ParseRuleError;
use error::{Problem, RuleKind};

impl FromStr for AnyRule {
    type Err = ParseRuleError;

    /// Reads a rule of any kind.
    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        parse::rule(text)
    }
}

/// `FromStr` of one kind of rule, by that of [`AnyRule`].
macro_rules! from_str_of {
    ($($rule:ident: $kind:ident),*) => {$(
        impl FromStr for $rule {
            type Err = ParseRuleError;

            /// Reads a rule of this kind; [`AnyRule`](crate::rule::AnyRule) has the grammar.
            fn from_str(text: &str) -> Result<Self, ParseRuleError> {
                match parse::rule(text)? {
                    AnyRule::$kind(rule) => Ok(rule),
                    other => Err(wrong_kind(text, &other, RuleKind::$kind)),
                }
            }
        }
    )*};
}

from_str_of!(
    Quota: Quota,
    SlidingWindow: Sliding,
    FixedWindow: Fixed,
    CalendarWindow: Calendar
);

#[cold]
fn wrong_kind(text: &str, found: &AnyRule, expected: RuleKind) -> ParseRuleError {
    let found = match found {
        AnyRule::Quota(_) => RuleKind::Quota,
        AnyRule::Sliding(_) => RuleKind::Sliding,
        AnyRule::Fixed(_) => RuleKind::Fixed,
        AnyRule::Calendar(_) => RuleKind::Calendar,
    };
    ParseRuleError::of_all(text, Problem::WrongKind { found, expected })
}
