//! The values of the header fields in which a server says where a client stands, as strings: for
//! any HTTP library, or none.
//!
//! `RateLimit-Policy` and `RateLimit` are lists of structured fields (RFC 9651), with an item for
//! each limit: its name, a string, with parameters that are integers. `Retry-After` is a number of
//! seconds.
//!
//! ```
//! use core::time::Duration;
//! use tidegate_engine::headers::{LimitName, RateLimitFields, seconds_up};
//! # use tidegate_engine::{Limiter, ManualClock, Quota};
//!
//! # let limiter = Limiter::builder(Quota::per_minute(5)).clock(ManualClock::new());
//! # let limiter = limiter.capacity(1).build()?;
//! let decision = limiter.check_n("user:42", 5);
//! let mut fields = RateLimitFields::default();
//! fields.push(&LimitName::new("login"), Some(Duration::from_secs(60)), &decision);
//! assert_eq!(fields.policy(), r#""login";q=5;w=60"#);
//! assert_eq!(fields.state(), r#""login";r=0;t=60"#);
//!
//! let denied = limiter.check("user:42");
//! assert_eq!(denied.retry_after().map(seconds_up), Some(12));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{self, Write};
use core::time::Duration;

use crate::base::decision::Decision;

/// The name of the field that [`RateLimitFields::policy`] is the value of, in lower case.
pub const POLICY: &str = "ratelimit-policy";
/// The name of the field that [`RateLimitFields::state`] is the value of, in lower case.
pub const STATE: &str = "ratelimit";

/// The largest integer a structured field can hold.
const MAX_FIELD_INTEGER: u64 = 999_999_999_999_999;
/// Its digits.
const MAX_DIGITS: usize = 15;
/// Bytes that an item takes with a name of usual length and figures of six digits.
const ITEM_BYTES: usize = 48;

/// A limit's name as a string of a structured field: quoted, and made once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitName(Box<str>);

impl LimitName {
    /// Quotes a name. What is not printable ASCII cannot stand in a field and becomes a `?`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut quoted = String::with_capacity(name.len().saturating_add(2));
        // Writing to a string cannot fail.
        let _ = quote(&mut quoted, name);
        Self(quoted.into())
    }

    /// The name in quotes: printable ASCII.
    #[cfg(all(feature = "tower", not(loom)))]
    pub(crate) const fn quoted(&self) -> &str {
        &self.0
    }
}

/// The two lists of one answer, as of when the request was decided on. Both are printable ASCII,
/// and empty before the first item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimitFields {
    policy: String,
    state: String,
}

impl RateLimitFields {
    /// Lists with room for items of `limits` limits with names of usual length.
    #[must_use]
    pub fn with_capacity(limits: usize) -> Self {
        let list = || String::with_capacity(limits.saturating_mul(ITEM_BYTES));
        Self { policy: list(), state: list() }
    }

    /// Adds a limit's item to both lists. `window` is the time in which all of the limit is granted
    /// anew, left out for one that has none, as a number of concurrent requests. Seconds are
    /// rounded up, and numbers beyond what a structured field holds (15 digits) are that largest
    /// number.
    pub fn push(&mut self, name: &LimitName, window: Option<Duration>, decision: &Decision) {
        for list in [&mut self.policy, &mut self.state] {
            list.push_str(if list.is_empty() { "" } else { ", " });
        }
        self.policy.push_str(&name.0);
        self.state.push_str(&name.0);
        // Writing to a string cannot fail.
        let _ = policy(&mut self.policy, window, decision);
        let _ = state(&mut self.state, decision);
    }

    /// The value of `RateLimit-Policy`: each limit's units (`q`) and seconds (`w`).
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The value of `RateLimit`: the units that remain of each limit (`r`), and the seconds until
    /// all of them do (`t`), which is left out where no time brings back what is lacking: of a
    /// blocked limit, and of one of concurrent requests.
    #[must_use]
    pub fn state(&self) -> &str {
        &self.state
    }
}

/// Writes the value of `RateLimit-Policy` for one limit, as [`RateLimitFields::push`] would: for
/// servers that have a buffer for it. The name is not quoted yet.
///
/// # Errors
/// Those of `to`.
pub fn write_policy(
    to: &mut impl Write,
    name: &str,
    window: Option<Duration>,
    decision: &Decision,
) -> fmt::Result {
    quote(to, name)?;
    policy(to, window, decision)
}

/// Writes the value of `RateLimit` for one limit, as [`write_policy`] writes the other one.
///
/// # Errors
/// Those of `to`.
pub fn write_state(to: &mut impl Write, name: &str, decision: &Decision) -> fmt::Result {
    quote(to, name)?;
    state(to, decision)
}

/// Whole seconds, rounded up: a client that waits as long has waited long enough.
#[must_use]
pub const fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add((duration.subsec_nanos() > 0) as u64)
}

/// The limit, what remains of it, and the seconds until all of it does: as integers of a
/// structured field.
pub(crate) fn figures(decision: &Decision) -> [u64; 3] {
    let reset = seconds_up(decision.reset_after());
    [decision.limit(), decision.remaining(), reset].map(integer)
}

/// The parameters behind a name.
fn policy(to: &mut impl Write, window: Option<Duration>, decision: &Decision) -> fmt::Result {
    let [limit, ..] = figures(decision);
    parameter(to, ";q=", limit)?;
    window.map_or(Ok(()), |window| parameter(to, ";w=", integer(seconds_up(window))))
}

/// As of [`policy`].
fn state(to: &mut impl Write, decision: &Decision) -> fmt::Result {
    let [limit, remaining, reset] = figures(decision);
    parameter(to, ";r=", remaining)?;
    // Zero would have clients ask again at once.
    let is_lacking = limit == 0 || remaining < limit;
    if is_lacking && reset == 0 { Ok(()) } else { parameter(to, ";t=", reset) }
}

/// Not by `write!`, which takes longer for the figures of an answer than a check does.
fn parameter(to: &mut impl Write, name: &str, mut value: u64) -> fmt::Result {
    to.write_str(name)?;
    let mut digits = [0; MAX_DIGITS];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 || start == 0 {
            break;
        }
    }
    to.write_str(core::str::from_utf8(&digits[start..]).unwrap_or_default())
}

/// Writes a name as a string of a structured field.
fn quote(to: &mut impl Write, name: &str) -> fmt::Result {
    to.write_char('"')?;
    let is_plain = |byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if name.bytes().all(is_plain) {
        to.write_str(name)?;
    } else {
        name.chars().try_for_each(|character| match character {
            '"' | '\\' => write!(to, "\\{character}"),
            ' '..='~' => to.write_char(character),
            _ => to.write_char('?'),
        })?;
    }
    to.write_char('"')
}

fn integer(value: u64) -> u64 {
    value.min(MAX_FIELD_INTEGER)
}

#[cfg(all(test, feature = "std", not(any(loom, interleave))))]
#[path = "headers_tests.rs"]
mod tests;
