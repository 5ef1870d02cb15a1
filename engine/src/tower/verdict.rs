//! Deciding on a request: all of its limits admit it, or none is charged.

use crate::contract::set::{Ask, LimitSet};

use super::answer::Denial;
use super::fields::Fields;
use super::{Head, RequestLimit};

/// The verdict on a request.
pub(super) struct Verdict<'a> {
    /// `None` for one that is let through.
    pub(super) denial: Option<Denial<'a>>,
    /// `None` where no limit was asked.
    pub(super) fields: Option<Fields>,
}

impl<'a> Verdict<'a> {
    const UNLIMITED: Self = Self { denial: None, fields: None };

    /// Finds all keys first, so that a request whose key is missing is charged nothing.
    pub(super) fn of(limits: &'a [RequestLimit], head: &Head<'_>, legacy: bool) -> Self {
        Self::find(limits, head, legacy)
            .unwrap_or_else(|denial| Self { denial: Some(denial), fields: None })
    }

    fn find(limits: &'a [RequestLimit], head: &Head<'_>, legacy: bool) -> Result<Self, Denial<'a>> {
        // One limit, the common case, needs no memory for the asks.
        if let [limit] = limits {
            let ask = limit.ask(head)?;
            return Ok(ask.map_or(Self::UNLIMITED, |ask| Self::check(&[limit], [ask], legacy)));
        }
        let (mut asked, mut asks) = (Vec::new(), Vec::new());
        for limit in limits {
            if let Some(ask) = limit.ask(head)? {
                asked.push(limit);
                asks.push(ask);
            }
        }
        Ok(if asks.is_empty() { Self::UNLIMITED } else { Self::check(&asked, asks, legacy) })
    }

    /// Asks all limits at once.
    fn check<A>(asked: &[&RequestLimit], asks: A, legacy: bool) -> Self
    where
        A: AsRef<[Ask<'a>]> + AsMut<[Ask<'a>]>,
    {
        let set = LimitSet::new(asks).check();
        let mut fields = Fields::new(asked.len());
        for (limit, decision) in asked.iter().zip(set.decisions()) {
            limit.tell(&mut fields, &decision);
        }
        if legacy {
            fields.legacy(set.tightest());
        }
        let denial = set.blocked().map(|blocked| {
            fields.retry_after(blocked.decision().retry_after());
            Denial::of_decision(blocked.name(), blocked.decision())
        });
        Self { denial, fields: Some(fields) }
    }
}
