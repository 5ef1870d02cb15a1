//! Collects what was consumed until the next flush.
//!
//! Each thread adds to a [`Table`] of its own, in a bounded number of steps, without a lock, a
//! read-modify-write or an allocation. The driver's task reads them all. A record without a place
//! in its thread's table, or of a thread without a table, goes to maps behind locks that are only
//! tried ([`Shards`]).
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | F1 filled, loaded and swapped | relaxed | F2: a record that is the first in its epoch read the epoch that was stored after F2 (R1, R2 in `table.rs`; S1, S2 in `shards.rs`) | a record in a table that no drain follows | `record-wakes-no-thread` |
//! | F2 filled, swapped for false | relaxed | F1 | as F1 | - |
//! | F3 tables made, counted | relaxed | none: places are published by their `OnceLock` | - | - |
//! | F4 a recorder's number | relaxed | none: it is unique, and orders nothing | - | - |
//! | F5 closed, all accesses | relaxed | none: what is recorded around the end of a node is taken by no drain | - | - |
//!
//! A drain that follows a wake, or finds something, is followed by one more, a while later: it
//! finds what `table.rs` says may be seen late.

mod seat;
mod shards;
mod singles;
mod table;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use tidegate_engine::KeyHash;
use tokio::sync::Notify;

use self::seat::{MAX_THREADS, NO_RECORDER, Tables};
use self::shards::{ShardReader, Shards};
use self::table::{Outcome, Reader, Record, Table};
use crate::limits::LimitId;
use crate::protocol::{Delta, Nanos, nanos};

/// The number of a table's slots as a power of two. A table takes 7.4 MB at most, and less
/// memory while few of them were used.
const TABLE_BITS: u32 = 16;
/// The number of keys that are used once between two drains and need no slot, likewise.
const SINGLES_BITS: u32 = 16;

/// Sums debt by key until the next flush takes it.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Distinguishes the recorders of a process.
    number: u64,
    /// The origin of the driver's clock.
    started: Instant,
    /// Of the size of a table.
    bits: u32,
    singles: Option<u32>,
    /// Threads hold weak references: the tables are freed with the recorder.
    tables: Arc<Tables>,
    /// Tables that were made, or attempts to.
    made: AtomicU64,
    shards: Shards,
    /// A wake is due that no drain has followed yet.
    filled: CachePadded<AtomicBool>,
    wake: Notify,
    /// No drain follows any more.
    closed: AtomicBool,
    /// The lock keeps a second consumer out.
    consumer: Mutex<Consumer>,
}

/// A drain that goes over everything in parts.
#[derive(Debug)]
struct Consumer {
    /// By table.
    readers: Box<[Option<Reader>]>,
    shards: ShardReader,
    /// A drain has begun that is not over.
    is_draining: bool,
    /// It followed a wake, or has found something.
    is_news: bool,
}

impl Consumer {
    fn new() -> Self {
        Self {
            readers: (0..MAX_THREADS).map(|_| None).collect(),
            shards: ShardReader::default(),
            is_draining: false,
            is_news: false,
        }
    }
}

impl Recorder {
    pub(super) fn new(started: Instant) -> Self {
        Self::with_tables(started, TABLE_BITS, Some(SINGLES_BITS))
    }

    /// With tables of 2^`bits` slots, and room for 2^`singles` keys that are used once.
    fn with_tables(started: Instant, bits: u32, singles: Option<u32>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(NO_RECORDER + 1);
        // Collected, because it is too much for some threads' stacks.
        let tables: Arc<[OnceLock<Table>]> = (0..MAX_THREADS).map(|_| OnceLock::new()).collect();
        Self {
            // F4
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            started,
            bits,
            singles,
            tables: tables.try_into().expect("as many as were collected"),
            made: AtomicU64::new(0),
            shards: Shards::new(),
            filled: CachePadded::new(AtomicBool::new(false)),
            wake: Notify::new(),
            closed: AtomicBool::new(false),
            consumer: Mutex::new(Consumer::new()),
        }
    }

    /// Records debt, in nanoseconds, at the present. A call, with all that it needs in registers.
    #[inline(never)]
    pub(crate) fn record(&self, limit: LimitId, key: KeyHash, debt: i64) {
        self.add(Record { limit: limit.to_bits(), key: key.to_bits(), debt, at: None });
    }

    /// The same at a time of the past.
    pub(crate) fn record_at(&self, limit: LimitId, key: KeyHash, debt: i64, at: Instant) {
        let at = Some(signed(at.saturating_duration_since(self.started)));
        self.add(Record { limit: limit.to_bits(), key: key.to_bits(), debt, at });
    }

    /// A hint that this thread is about to record something of this key.
    #[inline]
    pub(crate) fn prefetch(&self, limit: LimitId, key: KeyHash) {
        if let Some(table) = self.first_table() {
            table.prefetch(limit.to_bits(), key.to_bits());
        }
    }

    /// This thread's table, where this recorder has its first seat.
    #[expect(clippy::inline_always, reason = "it is a few loads")]
    #[inline(always)]
    fn first_table(&self) -> Option<&Table> {
        self.table(seat::first_of(self.number)?)
    }

    #[expect(clippy::inline_always, reason = "it is a few loads")]
    #[inline(always)]
    fn table(&self, place: u8) -> Option<&Table> {
        self.tables[usize::from(place)].get()
    }

    #[expect(clippy::inline_always, reason = "the record would be handed over in memory")]
    #[inline(always)]
    fn add(&self, record: Record) {
        let again = self.first_table().and_then(|table| table.record_again(record));
        if again != Some(Outcome::Added) {
            let Record { limit, key, debt, at } = record;
            self.add_any(limit, key, debt, at, again);
        }
    }

    /// Adds a record unless that is done already, and does what the outcome calls for. Out of line,
    /// so that the usual record carries none of its registers; by its fields, which are handed over
    /// in registers.
    #[inline(never)]
    fn add_any(&self, limit: u64, key: u64, debt: i64, at: Option<i64>, done: Option<Outcome>) {
        if debt == 0 {
            return;
        }
        let record = Record { limit, key, debt, at };
        let clock = || self.now();
        let any = || self.first_table().map(|table| table.record_any(record, clock));
        match done.or_else(any).or_else(|| self.add_seated(record)) {
            Some(Outcome::Added) => {}
            Some(Outcome::Due) => self.wake(),
            Some(Outcome::NoRoom) | None => self.add_shared(record),
        }
    }

    /// For a thread whose first seat is not of this recorder, or that has none yet.
    #[cold]
    fn add_seated(&self, record: Record) -> Option<Outcome> {
        let table = self.table(seat::sit(self.number, &self.tables, || self.claim())?)?;
        Some(table.record(record, || self.now()))
    }

    #[cold]
    fn add_shared(&self, record: Record) {
        if self.is_closed() {
            return;
        }
        self.shards.record(record, record.at.unwrap_or_else(|| self.now()));
        self.wake();
    }

    #[cold]
    fn wake(&self) {
        // F1. Loading first keeps threads from writing to one line.
        if !self.filled.load(Ordering::Relaxed) && !self.filled.swap(true, Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// The present, in nanoseconds on the driver's clock.
    fn now(&self) -> i64 {
        signed(self.started.elapsed())
    }

    /// The place of a table for the calling thread: of one that another thread has given back, or
    /// of a new one.
    #[cold]
    fn claim(&self) -> Option<u8> {
        if self.is_closed() {
            return None;
        }
        let mut given_back = self.tables().filter(|(_, table)| table.claim());
        if let Some((index, _)) = given_back.next() {
            return u8::try_from(index).ok();
        }
        // F3
        if self.made.load(Ordering::Relaxed) >= MAX_THREADS as u64 {
            return None;
        }
        let place = u8::try_from(self.made.fetch_add(1, Ordering::Relaxed)).ok()?; // F3
        // Each place is given out once, so no thread waits for another one's `set`.
        let table = Table::new(self.bits, self.singles);
        self.tables[usize::from(place)].set(table).ok().map(|()| place)
    }

    /// The tables that there are, by number. A place that is still empty has a thread that is about
    /// to fill it, and no records.
    fn tables(&self) -> impl Iterator<Item = (usize, &Table)> {
        // F3
        let made = self.made.load(Ordering::Relaxed) as usize;
        let places = self.tables.iter().enumerate().take(made);
        places.filter_map(|(index, place)| Some((index, place.get()?)))
    }

    /// Waits until a drain is due. Whether something was recorded for it: else it only follows
    /// another one.
    pub(super) async fn filled(&self) -> bool {
        self.wake.notified().await;
        // F1. What sets it later wakes again.
        self.filled.load(Ordering::Relaxed)
    }

    /// Takes what was recorded, `most` records at most, by limit and key, each key at most once a
    /// call, as of `now`, when the caller's step began: what was consumed since is dated then. A
    /// drain takes as many calls as it needs; true is returned by the last one, and then all that
    /// was recorded before the first one is taken.
    pub(super) fn take(&self, now: Nanos, most: usize, into: &mut Vec<Delta>) -> bool {
        let mut consumer = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        let consumer = &mut *consumer;
        if !std::mem::replace(&mut consumer.is_draining, true) {
            self.begin_drain(consumer);
        }
        let mut push = |limit, key, change| into.push(Delta { limit, key, change });
        let mut left = most - self.shards.drain(&mut consumer.shards, most, &mut push);
        for (index, table) in self.tables() {
            if let Some(reader) = &mut consumer.readers[index] {
                left -= table.drain(reader, left, &mut push);
            }
        }
        let is_over = left > 0;
        consumer.is_draining = !is_over;
        consumer.is_news |= !into.is_empty();
        // F1. A wake may have come between two parts of a drain that found nothing.
        let is_filled = || self.filled.load(Ordering::Relaxed);
        if is_over && (consumer.is_news || self.shards.is_used() || is_filled()) {
            self.wake.notify_one();
        }
        merge(into, i64::try_from(now).unwrap_or(i64::MAX));
        is_over
    }

    fn begin_drain(&self, consumer: &mut Consumer) {
        // F2
        consumer.is_news = self.filled.swap(false, Ordering::Relaxed);
        for (_, table) in self.tables() {
            table.advance();
        }
        self.shards.begin_drain(&mut consumer.shards);
        for (index, table) in self.tables() {
            let reader = consumer.readers[index].get_or_insert_with(|| Reader::new(table));
            table.begin_drain(reader);
        }
    }

    /// No drain follows: what finds no place in the table that its thread has is dropped, so that
    /// checks of a limiter whose node has ended take no lock, and no memory beyond those tables.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed); // F5
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) // F5
    }

    /// Records that went to the shards.
    pub(super) fn shared(&self) -> u64 {
        self.shards.count()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.shards.dropped()
    }
}

/// Sorts, and composes what several threads consumed on one key in the order of its dates, none of
/// which is then later than `now`. Of equal dates the one that was taken first is first: a thread's
/// first record of a key comes before its others.
fn merge(taken: &mut Vec<Delta>, now: i64) {
    taken.sort_by_key(|one| (one.limit, one.key, one.change.date));
    for one in &mut *taken {
        one.change.date = one.change.date.min(now);
    }
    taken.dedup_by(|later, first| {
        let is_same = (later.limit, later.key) == (first.limit, first.key);
        if is_same {
            first.change = first.change.then(later.change);
        }
        is_same
    });
    // What cancels changes no TAT from its dates on.
    taken.retain(|one| one.change.debt != 0);
}

/// In nanoseconds, saturating at 292 years.
pub(crate) fn signed(duration: Duration) -> i64 {
    i64::try_from(nanos(duration)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod parked;
#[cfg(test)]
mod tests;
