//! Which table of which recorder the running thread owns.
//!
//! A thread holds the places of tables, not the tables: these are the recorder's alone. So all of
//! them are freed with it, also those of threads that never record again; such a thread keeps the
//! array that the tables were in, 256 KiB, until it ends or looks for a seat again.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock, Weak};

use super::table::Table;

/// Threads that have a table of a recorder at a time, at most: as many as a `u8` tells apart, so
/// that a place needs no check of its bounds.
pub(super) const MAX_THREADS: usize = u8::MAX as usize + 1;
/// Records of a thread without a table until it tries again to get one.
const RETRY_AFTER: u32 = 1_024;
/// The number of no recorder.
pub(super) const NO_RECORDER: u64 = 0;

/// A recorder's, by place, each made when a thread needs it. In one array, so that no load has to
/// wait for the place's own pointer.
pub(super) type Tables = [OnceLock<Table>; MAX_THREADS];

thread_local! {
    static FIRST: First = const { First::new() };
    static SEATS: RefCell<Vec<Seat>> = const { RefCell::new(Vec::new()) };
}

/// One of the thread's seats, for a quick look: the common case. Nothing is dropped with it, so
/// that a look does not ask whether that has happened.
///
/// It is of the first recorder on which the thread has recorded, with a table there, since the seat
/// was free; one that is gone keeps it until the thread looks for a seat again. Another one that is
/// in use at the same time keeps to [`SEATS`], so that two do not displace each other.
#[derive(Debug)]
struct First {
    recorder: Cell<u64>,
    /// Of its table; only while `recorder` has one in [`SEATS`].
    place: Cell<u8>,
}

impl First {
    const fn new() -> Self {
        Self { recorder: Cell::new(NO_RECORDER), place: Cell::new(0) }
    }

    #[cold]
    fn offer(&self, recorder: u64, place: u8) {
        if self.recorder.get() == NO_RECORDER {
            self.place.set(place);
            self.recorder.set(recorder);
        }
    }

    #[cold]
    fn leave(&self, recorder: u64) {
        if self.recorder.get() == recorder {
            self.recorder.set(NO_RECORDER);
        }
    }
}

/// Of each recorder that this thread has used: as many as were not gone when it last looked for
/// one.
#[derive(Debug)]
struct Seat {
    recorder: u64,
    tables: Weak<Tables>,
    /// Of the table that this thread owns; `None` when the recorder had none left.
    place: Option<u8>,
    retry: u32,
}

impl Seat {
    fn is_in_use(&self) -> bool {
        self.tables.strong_count() > 0
    }
}

impl Drop for Seat {
    /// Also when the thread ends.
    fn drop(&mut self) {
        // What this thread still records must not go to a table that it no longer owns.
        let _ = FIRST.try_with(|first| first.leave(self.recorder));
        let tables = self.tables.upgrade();
        let places = tables.as_deref().zip(self.place);
        if let Some(table) = places.and_then(|(tables, place)| tables[usize::from(place)].get()) {
            table.give_back();
        }
    }
}

/// The place of this thread's table of the recorder, if that has the first seat.
#[expect(clippy::inline_always, reason = "it is two loads")]
#[inline(always)]
pub(super) fn first_of(recorder: u64) -> Option<u8> {
    let of = |first: &First| (first.recorder.get() == recorder).then(|| first.place.get());
    FIRST.try_with(of).ok().flatten()
}

/// The place of this thread's table of the recorder that [`first_of`] has not found; on first use
/// one that `claim` finds. `None` without a table, or while the thread's local storage is being
/// destroyed.
#[cold]
pub(super) fn sit(
    recorder: u64,
    tables: &Arc<Tables>,
    claim: impl FnOnce() -> Option<u8>,
) -> Option<u8> {
    let sit = |seats: &RefCell<Vec<Seat>>| {
        let mut seats = seats.try_borrow_mut().ok()?;
        // Also where this recorder has a seat: the first one may become free.
        seats.retain(Seat::is_in_use);
        let known = seats.iter().position(|seat| seat.recorder == recorder);
        let index = known.unwrap_or_else(|| {
            let tables = Arc::downgrade(tables);
            seats.push(Seat { recorder, tables, place: None, retry: 0 });
            seats.len() - 1
        });
        seats[index].place(claim)
    };
    let place = SEATS.try_with(sit).ok().flatten()?;
    let _ = FIRST.try_with(|first| first.offer(recorder, place));
    Some(place)
}

impl Seat {
    fn place(&mut self, claim: impl FnOnce() -> Option<u8>) -> Option<u8> {
        if self.place.is_none() {
            self.retry = self.retry.saturating_sub(1);
            if self.retry == 0 {
                self.place = claim();
                self.retry = RETRY_AFTER;
            }
        }
        self.place
    }
}
