//! The answer to a check, which also notifies the table of what its overflow policy needs.

use crate::base::decision::Decision;
use crate::base::key::KeyHash;
use crate::base::word::{State, Update};
use crate::rule::algorithm::Algorithm;
use crate::table::Table;
use crate::table::overflow::{Event, OverflowPolicy};

/// The answer to a check of `key` whose effect on its word was `update`; notifies the table of what
/// its policy needs.
#[expect(clippy::inline_always, reason = "a call hands the decision over in memory, and stalls")]
#[inline(always)]
pub(crate) fn answer<S: State, A: Algorithm>(
    table: &Table<S>,
    algorithm: &A,
    key: KeyHash,
    update: Update,
    cost: u64,
) -> Decision {
    match update {
        // Only a table that is short of room needs to know which keys are denied.
        Update::Unchanged { found, now } if table.is_pressed() => {
            return answer_pressed(table, algorithm, key, found, now, cost).in_registers();
        }
        Update::Full { admitted, .. } => count_full(table, admitted),
        Update::Unchanged { .. } | Update::Written { .. } => {}
    }
    algorithm.answer(update, cost)
}

/// The answer where the key's value, `found`, was not changed; notifies the table of a denial.
#[cold]
#[inline(never)]
fn answer_pressed<S: State, A: Algorithm>(
    table: &Table<S>,
    algorithm: &A,
    key: KeyHash,
    found: u64,
    now: u64,
    cost: u64,
) -> Decision {
    // A peek is not a denial, and a cost that never fits says nothing about its key.
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
