//! The answer of several limits.

use core::cmp::Reverse;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use crate::base::decision::Decision;

use super::Ask;

/// The answer of a [`LimitSet`](crate::LimitSet): one decision for all, and that of each limit.
///
/// If all was admitted, each limit's decision is that of its charge. If not, that of a limit
/// without room is its denial, and that of the others is a peek: what remains there, uncharged.
/// Each decision describes one instant of its limit; those of different limits are read one after
/// another.
#[must_use = "a decision that is ignored limits nothing"]
pub struct SetDecision<'l, A> {
    asks: A,
    limits: PhantomData<Ask<'l>>,
}

/// The limit that blocked a set: of those without room, the one with the longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked<'l> {
    index: usize,
    name: &'l str,
    decision: Decision,
}

impl<'l, A: AsRef<[Ask<'l>]>> SetDecision<'l, A> {
    pub(super) fn new(asks: A) -> Self {
        Self { asks, limits: PhantomData }
    }

    /// Whether all limits had room. O(asks).
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.asks().iter().all(Ask::fits)
    }

    /// The limit that blocked: of those without room, the one with the longest wait, where a cost
    /// that can never fit ranks above all waits; the first of equals. `None` when allowed. O(asks).
    #[must_use]
    pub fn blocked(&self) -> Option<Blocked<'l>> {
        blocked(self.asks())
    }

    /// How long to wait until all fits, provided no other caller is admitted meanwhile: the longest
    /// wait of the limits without room, zero when allowed, `None` when a cost exceeds its limit and
    /// can never fit. O(asks).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.blocked().map_or(Some(Duration::ZERO), |blocked| blocked.decision.retry_after())
    }

    /// The one decision to report where only one can be: that of the limit that blocked, else that
    /// of the limit with the least remaining, and of equals the one with the longest reset; of a
    /// [`Shadow`](crate::Shadow) only where nothing else is asked. `None` for a set of no asks.
    /// O(asks).
    #[must_use]
    pub fn tightest(&self) -> Option<Decision> {
        tightest(self.asks())
    }

    /// Each limit's decision, in the order of the asks.
    pub fn decisions(&self) -> impl ExactSizeIterator<Item = Decision> + '_ {
        self.asks().iter().map(Ask::decision)
    }

    /// What was asked for.
    pub fn asks(&self) -> &[Ask<'l>] {
        self.asks.as_ref()
    }
}

fn blocked<'l>(asks: &[Ask<'l>]) -> Option<Blocked<'l>> {
    let denied = asks.iter().enumerate().filter(|(_, ask)| !ask.fits());
    let longest = denied.max_by_key(|(index, ask)| (wait(ask.decision()), Reverse(*index)));
    longest.map(|(index, ask)| Blocked { index, name: ask.name(), decision: ask.decision() })
}

/// [`SetDecision::tightest`].
pub(super) fn tightest(asks: &[Ask<'_>]) -> Option<Decision> {
    let least = |decision: Decision| (decision.remaining(), Reverse(decision.reset_after()));
    let blocked = blocked(asks).map(|blocked| blocked.decision);
    let tightest = || asks.iter().min_by_key(|ask| (ask.is_shadow(), least(ask.decision())));
    blocked.or_else(|| tightest().map(Ask::decision))
}

/// How long to wait for a limit; a cost that can never fit ranks above all waits.
fn wait(decision: Decision) -> Duration {
    decision.retry_after().unwrap_or(Duration::MAX)
}

impl<'l> Blocked<'l> {
    /// Its place among the asks.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// What it was [named](Ask::named), empty unless it was.
    #[must_use]
    pub const fn name(&self) -> &'l str {
        self.name
    }

    /// Its denial.
    #[must_use]
    pub const fn decision(&self) -> Decision {
        self.decision
    }
}

impl<'l, A: AsRef<[Ask<'l>]>> fmt::Debug for SetDecision<'l, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decisions = self.asks().iter().map(|ask| (ask.name(), ask.decision()));
        f.debug_list().entries(decisions).finish()
    }
}
