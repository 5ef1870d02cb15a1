//! Which table of which recorder the running thread owns.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use super::table::Table;

/// Records of a thread without a table until it tries again to get one.
const RETRY_AFTER: u32 = 1_024;

thread_local! {
    static SEATS: Seats = const { Seats::new() };
}

#[derive(Debug)]
struct Seats {
    /// Of the recorder that this thread has used first: the common case, with the fewest loads that
    /// wait for each other.
    first: OnceCell<First>,
    /// Of each other one, and of those without a table.
    others: RefCell<Vec<Binding>>,
}

/// Two words, so that a look at it compares twice.
#[derive(Debug)]
struct First {
    /// The recorder's number.
    recorder: u64,
    table: Owned,
}

#[derive(Debug)]
struct Binding {
    recorder: u64,
    /// `None` when the recorder had no table left.
    table: Option<Owned>,
    retry: u32,
}

impl Binding {
    /// Whether the recorder still holds the table.
    fn is_in_use(&self) -> bool {
        self.table.as_ref().is_some_and(|Owned(table)| Arc::strong_count(table) > 1)
    }
}

/// A table that this thread owns.
#[derive(Debug)]
struct Owned(Arc<Table>);

impl Drop for Owned {
    /// Also when the thread ends.
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// Calls `act` with this thread's table of the recorder, if that is the first one it has used.
#[expect(clippy::inline_always, reason = "what `act` holds would be handed over in memory")]
#[inline(always)]
pub(super) fn peek<R>(recorder: u64, act: impl FnOnce(&Table) -> R) -> Option<R> {
    SEATS.try_with(|seats| seats.first_of(recorder).map(act)).ok().flatten()
}

/// Calls `act` with this thread's table of the recorder that [`peek`] has not found; on first use
/// with one that `claim` finds. `None` without a table, or while the thread's local storage is
/// being destroyed.
pub(super) fn with<R>(
    recorder: u64,
    claim: impl FnOnce() -> Option<Arc<Table>>,
    act: impl FnOnce(&Table) -> R,
) -> Option<R> {
    let table = SEATS.try_with(|seats| seats.sit(recorder, claim)).ok().flatten();
    table.map(|table| act(&table))
}

impl Seats {
    const fn new() -> Self {
        Self { first: OnceCell::new(), others: RefCell::new(Vec::new()) }
    }

    #[inline]
    fn first_of(&self, recorder: u64) -> Option<&Table> {
        let seat = self.first.get().filter(|seat| seat.recorder == recorder)?;
        Some(&seat.table.0)
    }

    #[cold]
    fn sit(&self, recorder: u64, claim: impl FnOnce() -> Option<Arc<Table>>) -> Option<Arc<Table>> {
        let mut others = self.others.try_borrow_mut().ok()?;
        if let Some(seat) = others.iter_mut().find(|seat| seat.recorder == recorder) {
            seat.retry = seat.retry.saturating_sub(1);
            if seat.table.is_some() || seat.retry > 0 {
                return seat.table.as_ref().map(|Owned(table)| Arc::clone(table));
            }
        }
        // Those of recorders that are gone too.
        others.retain(|seat| seat.recorder != recorder && seat.is_in_use());
        let table = claim();
        let owned = table.clone().map(Owned);
        match owned {
            // It is empty, so it takes the seat.
            Some(table) if self.first.get().is_none() => {
                let _ = self.first.set(First { recorder, table });
            }
            table => others.push(Binding { recorder, table, retry: RETRY_AFTER }),
        }
        table
    }
}
