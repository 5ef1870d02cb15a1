//! What becomes of a key for which there is no place.

use crate::decision::Decision;
use crate::key::KeyHash;
use crate::rule::Algorithm;
use crate::shards::Shards;
use crate::table::{State, Table, Update};

/// What a limiter does when a key needs a place and every place it may have belongs to a key that
/// still has debt, or is being taken by other threads, each of which was faster there.
///
/// That does not happen while the table is filled to its
/// [capacity](crate::Limiter::capacity) or less, except to fewer than one insertion in 10 000.
/// [`Limiter::overflow`](crate::Limiter::overflow) counts each time it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OverflowPolicy {
    /// Forgets the key that loses least: among the keys that were denied least often, the one with
    /// the least debt; under a rule that counts in windows, of those whose window is over first the one
    /// with the lowest count. The key that was forgotten is as good as new.
    ///
    /// Keys that are being limited are not washed out by a spray of keys that are checked once:
    /// once a table begins to run out of room, denials are counted with the key, roughly by their
    /// logarithm, for as long as it has its place. A key can then be forgotten in favour of another
    /// only if every key that competes with it was denied about as often. What remains is a
    /// sprayer that has each of its keys denied many times, and keys that are checked less
    /// often than the sprayer fills the table.
    ///
    /// A call whose key loses each slot it claims to others that claim them at the same moment is admitted, and its own
    /// key is the one that is forgotten.
    #[default]
    EvictLeastDebt,
    /// Denies the check. No key is ever forgotten; keys without debt are locked out until a place
    /// becomes free, so a spray of keys keeps others from being served.
    ///
    /// `remaining` is then 0, and `retry_after` and `reset_after` are the time until the first of
    /// the key's places becomes free; or the shortest there is where others claimed each of them at the same moment. A
    /// peek needs no place: it reports a key that is fresh.
    Deny,
    /// Admits the check and does not charge it. No key is ever forgotten and none is locked out;
    /// keys that find no place are not limited, so a spray of keys lifts the limit for others.
    ///
    /// The decision shows a fresh key: all of the burst remains.
    Allow,
}

/// How often a limiter has met keys for which there was no place, since it was built.
///
/// Counters of different threads are added up one after another, so figures that are read while
/// others check need not belong to one instant; none ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverflowCounts {
    /// Keys that had debt and were forgotten, also right after the charge that made it
    /// ([`OverflowPolicy::EvictLeastDebt`]).
    pub evicted: u64,
    /// Checks that were denied for want of a place ([`OverflowPolicy::Deny`]).
    pub denied: u64,
    /// Checks that were admitted without a charge ([`OverflowPolicy::Allow`]).
    pub allowed: u64,
    /// Charges that are not asked for but made ([`charge`](crate::Limiter::charge), a commit beyond what was reserved,
    /// [`charge_debt`](crate::Limiter::charge_debt), [`raise_debt`](crate::Limiter::raise_debt),
    /// [`restore`](crate::Limiter::restore)) that found no place, under
    /// [`OverflowPolicy::Deny`] and [`OverflowPolicy::Allow`]. They have no effect.
    pub charges_dropped: u64,
}

/// What there was no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Evicted,
    Denied,
    Allowed,
    ChargeDropped,
}

/// Counters in shards: a limiter out of room counts each check of a key without a place, and such
/// checks go on on all cores.
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
    pub(crate) fn atomics(&self) -> impl Iterator<Item = &crate::sync::AtomicU64> {
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

/// The answer to a check that did this to the key, of which the table hears what its policy needs.
#[expect(clippy::inline_always, reason = "a call hands the decision over in memory, and stalls")]
#[inline(always)]
pub(crate) fn answer<A: Algorithm>(
    table: &Table<A::State>,
    algorithm: &A,
    key: KeyHash,
    update: Update,
    cost: u64,
) -> Decision {
    match update {
        // Only to a table that is short of room does it matter who is denied.
        Update::Unchanged { found, now } if table.is_pressed() => {
            return answer_pressed(table, algorithm, key, found, now, cost).in_registers();
        }
        Update::Full { admitted, .. } => count_full(table, admitted),
        Update::Unchanged { .. } | Update::Written { .. } => {}
    }
    algorithm.answer(update, cost)
}

/// The answer where the key's value, `found`, was left so, of which the table hears if it was a denial.
#[cold]
#[inline(never)]
fn answer_pressed<A: Algorithm>(
    table: &Table<A::State>,
    algorithm: &A,
    key: KeyHash,
    found: u64,
    now: u64,
    cost: u64,
) -> Decision {
    // A look is no denial, and a cost that never fits says nothing about its key.
    let denied = cost > 0 && algorithm.can_fit(cost);
    if denied && table.policy() == OverflowPolicy::EvictLeastDebt {
        table.home(key).strike(now);
    }
    algorithm.answer(Update::Unchanged { found, now }, cost)
}

/// Counts a check for which there was no room.
#[cold]
#[inline(never)]
fn count_full<S: State>(table: &Table<S>, admitted: bool) {
    table.count(if admitted { Event::Allowed } else { Event::Denied });
}
