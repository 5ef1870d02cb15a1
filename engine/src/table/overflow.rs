//! Overflow: keys for which the table has no slot.

use core::fmt;
use core::str::FromStr;

use crate::base::shards::Shards;

/// What a limiter does when a key needs a slot and every slot it may have holds a key that still
/// has debt, or is claimed by other threads at the same moment, each of which was faster.
///
/// While the table is filled to its [capacity](crate::Limiter::capacity) or less, that happens to
/// fewer than one insertion in 10 000. [`Limiter::overflow`](crate::Limiter::overflow) counts each
/// time it does.
///
/// As text, and with the feature `serde`: `evict-least-debt`, `deny` and `allow`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OverflowPolicy {
    /// Evicts the key that loses least: among the keys that were denied least often, the one with
    /// the least debt; under a rule that counts in windows, among those whose window ends first the
    /// one with the lowest count. The evicted key is as good as new.
    ///
    /// A spray of keys that are checked once does not wash out keys that are being limited: once a
    /// table begins to run out of room, it counts denials with the key, roughly by their logarithm,
    /// for as long as the key has its slot. A key can then be evicted in favour of another only if
    /// every key that competes with it was denied about as often. This does not protect against a
    /// sprayer that has each of its keys denied many times, nor protect keys that are checked less
    /// often than the sprayer fills the table.
    ///
    /// A call whose key loses each slot it claims to concurrent claims is admitted, and its own key
    /// is the one that is evicted.
    #[default]
    EvictLeastDebt,
    /// Denies the check. No key is ever evicted; keys without debt are locked out until a slot
    /// becomes free, so a spray of keys keeps others from being served.
    ///
    /// `remaining` is then 0, and `retry_after` and `reset_after` are the time until the first of
    /// the key's slots becomes free, or the shortest possible time if concurrent claims took all of
    /// them. A peek needs no slot: it reports a fresh key.
    Deny,
    /// Admits the check and does not charge it. No key is ever evicted and none is locked out; keys
    /// that find no slot are not limited, so a spray of keys lifts the limit for others.
    ///
    /// The decision shows a fresh key: all of the burst remains.
    Allow,
}

impl OverflowPolicy {
    fn name(self) -> &'static str {
        match self {
            Self::EvictLeastDebt => "evict-least-debt",
            Self::Deny => "deny",
            Self::Allow => "allow",
        }
    }
}

impl FromStr for OverflowPolicy {
    type Err = ParseOverflowPolicyError;

    fn from_str(text: &str) -> Result<Self, ParseOverflowPolicyError> {
        let policies = [Self::EvictLeastDebt, Self::Deny, Self::Allow];
        let policy = policies.into_iter().find(|policy| policy.name() == text);
        policy.ok_or(ParseOverflowPolicyError(()))
    }
}

impl fmt::Display for OverflowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(feature = "serde")]
crate::base::text::as_text!(OverflowPolicy, "an overflow policy such as \"deny\"");

/// A text is not the name of an [`OverflowPolicy`]. It displays as the names there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOverflowPolicyError(());

impl fmt::Display for ParseOverflowPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected `evict-least-debt`, `deny` or `allow`")
    }
}

impl core::error::Error for ParseOverflowPolicyError {}

/// How often a limiter had no slot for a key, since it was built.
///
/// Counters of different threads are summed one after another, so figures read during checks need
/// not belong to one instant; none ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverflowCounts {
    /// Keys that had debt and were evicted, including those evicted right after the charge that
    /// made it ([`OverflowPolicy::EvictLeastDebt`]).
    pub evicted: u64,
    /// Checks that were denied because there was no free slot ([`OverflowPolicy::Deny`]).
    pub denied: u64,
    /// Checks that were admitted without a charge ([`OverflowPolicy::Allow`]).
    pub allowed: u64,
    /// Unconditional charges ([`charge`](crate::Limiter::charge), a commit beyond what was
    /// reserved, [`charge_debt`](crate::Limiter::charge_debt),
    /// [`raise_debt`](crate::Limiter::raise_debt), [`restore`](crate::Limiter::restore)) that found
    /// no slot, under [`OverflowPolicy::Deny`] and [`OverflowPolicy::Allow`]. They have no effect.
    pub charges_dropped: u64,
}

/// What happened to a key without a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Evicted,
    Denied,
    Allowed,
    ChargeDropped,
}

/// Counters in shards: a limiter out of room counts each check of a key without a slot, on all
/// cores at once.
#[derive(Debug)]
pub(crate) struct Counters(Shards<EVENTS>);

const EVENTS: usize = 4;

impl Counters {
    pub(crate) fn new() -> Self {
        Self(Shards::new())
    }

    pub(crate) fn count(&self, event: Event) {
        self.0.count(event as usize);
    }

    pub(crate) fn sum(&self, event: Event) -> u64 {
        self.0.sum(event as usize)
    }

    /// Every atomic of these counters.
    #[cfg(all(test, interleave))]
    pub(crate) fn atomics(&self) -> impl Iterator<Item = &crate::base::sync::AtomicU64> {
        self.0.atomics()
    }

    pub(crate) fn counts(&self) -> OverflowCounts {
        OverflowCounts {
            evicted: self.sum(Event::Evicted),
            denied: self.sum(Event::Denied),
            allowed: self.sum(Event::Allowed),
            charges_dropped: self.sum(Event::ChargeDropped),
        }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use super::*;

    #[test]
    fn threads_count_apart_and_add_up() {
        const THREADS: u64 = 8;
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counters.count(Event::Denied);
                        counters.count(Event::Evicted);
                    }
                });
            }
        });
        let expected = 1_000 * THREADS;
        let counts = OverflowCounts { denied: expected, evicted: expected, ..Default::default() };
        assert_eq!(counters.counts(), counts);
    }
}
