//! Deciding on a request: all of its limits admit it, or none is charged.

use core::slice;

use crate::contract::set::{Ask, LimitSet};

use super::denial::LimitRefusal;
use super::fields::Fields;
use super::limit::RequestAsk;
use super::{Head, RequestLimit};

/// The verdict on a request.
pub(super) struct RequestVerdict<'a> {
    /// `None` for one that is let through.
    pub(super) denial: Option<LimitRefusal<'a>>,
    /// `None` where no limit was asked that the response describes.
    pub(super) fields: Option<Fields>,
}

impl<'a> RequestVerdict<'a> {
    const UNLIMITED: Self = Self { denial: None, fields: None };

    /// Finds all keys and quotas first, so that a request that is refused is charged nothing.
    pub(super) fn of(limits: &'a [RequestLimit], head: &Head<'_>, legacy: bool) -> Self {
        // One limit, the common case, needs no memory for the asks.
        if let [limit] = limits {
            match limit.asked(head) {
                Ok(Some(asked)) => Self::check(slice::from_ref(&asked), [asked.ask()], legacy),
                Ok(None) => Self::UNLIMITED,
                Err(_) if limit.is_shadow() => Self::UNLIMITED.refused_by(&[limit]),
                Err(denial) => Self::refused(denial),
            }
        } else {
            Self::of_several(limits, head, legacy)
        }
    }

    fn of_several(limits: &'a [RequestLimit], head: &Head<'_>, legacy: bool) -> Self {
        let (mut asked, mut refusing) = (Vec::new(), Vec::new());
        for limit in limits {
            match limit.asked(head) {
                Ok(one) => asked.extend(one),
                Err(_) if limit.is_shadow() => refusing.push(limit),
                Err(denial) => return Self::refused(denial),
            }
        }
        let asks: Vec<_> = asked.iter().map(RequestAsk::ask).collect();
        Self::check(&asked, asks, legacy).refused_by(&refusing)
    }

    fn refused(denial: LimitRefusal<'a>) -> Self {
        Self { denial: Some(denial), fields: None }
    }

    /// The same where shadows would have refused the request, which they count if it is let
    /// through.
    fn refused_by(self, shadows: &[&RequestLimit]) -> Self {
        if self.denial.is_none() {
            for shadow in shadows {
                shadow.count_refusal();
            }
        }
        self
    }

    /// Asks all limits at once.
    fn check<'r, A>(asked: &'r [RequestAsk<'a>], asks: A, legacy: bool) -> Self
    where
        A: AsRef<[Ask<'r>]> + AsMut<[Ask<'r>]>,
    {
        let set = LimitSet::new(asks).check();
        let described = asked.iter().filter(|asked| asked.is_described()).count();
        if described == 0 {
            return Self::UNLIMITED;
        }
        let mut fields = Fields::new(described);
        for (asked, decision) in asked.iter().zip(set.decisions()) {
            if asked.is_described() {
                asked.describe(&mut fields, &decision);
            }
        }
        if legacy {
            fields.legacy(set.tightest());
        }
        let denial = set.blocked().map(|blocked| {
            fields.retry_after(blocked.decision().retry_after());
            asked[blocked.index()].denied(blocked.decision())
        });
        Self { denial, fields: Some(fields) }
    }
}
