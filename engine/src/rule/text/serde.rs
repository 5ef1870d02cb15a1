//! Rules in serialisations: their texts, in formats for people and in binary ones.

use crate::base::text::as_text;
use crate::rule::any::AnyRule;
use crate::rule::quota::Quota;
use crate::rule::window::{CalendarWindow, FixedWindow, SlidingWindow};

as_text!(AnyRule, "a rule such as \"100/s\"");
as_text!(Quota, "a quota such as \"100/s\"");
as_text!(SlidingWindow, "a sliding window such as \"100/m sliding\"");
as_text!(FixedWindow, "a fixed window such as \"100/m fixed\"");
as_text!(CalendarWindow, "a calendar window such as \"100/d calendar\"");
