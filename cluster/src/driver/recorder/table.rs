//! One thread's records: a table in which that thread, its *owner*, adds debt by plain stores, and
//! which one *consumer* reads. Neither waits for the other or repeats a step, and neither writes to
//! a word that the other writes.
//!
//! # Slots
//! A slot is of one key of one limit, and its `sum` only ever accumulates (modulo 2^64). The
//! consumer keeps the last sum it has read of each slot: what is new is the difference. So the
//! owner needs no read-modify-write, and no debt is lost or reported twice, whenever the consumer
//! reads, also where debts and refunds cancel.
//!
//! # Dates
//! A delta is `TAT = max(TAT, date) + debt` ([`Change`]). The owner keeps `base = P - sum` where
//! `P` is the TAT that the key would have by this table alone. A record of `d` at `t` makes it
//! `P = max(P, t) + d`: `base` grows to `t - sum` when the key has drained, and stays as it is
//! otherwise. The debt since a sum `last` is dated `P - debt = base + last`, whatever was added
//! meanwhile.
//!
//! The owner writes `base` before `sum`, so the consumer finds it at least as new as the sum. If it
//! is newer, by the record of a later `t`, the key had drained before `t`: the delta then ends at
//! `t` where it should end earlier, which is not a debt either at any time from `t` on, and
//! together with the next delta it is exact. (After a refund it may be too much by that, up to the
//! next delta.) The other order would lose up to the debt itself on a key that is idle elsewhere.
//!
//! Until the slot is free, `P` is not forgotten when the consumer reads. So the second of two
//! deltas of a key in debt may be dated up to the end of the first, and by the caller's clamp at
//! most at its present. That changes nothing where the first was applied.
//!
//! # Keys that are used once
//! The first record of a key in an epoch goes to the ring of [`Singles`], as far as that has room.
//! Only a key that is used again has a slot. [`Change::then`] composes both in the order of dates.
//!
//! # Epochs
//! The consumer advances `epoch` when it begins to drain. The owner reads it once a record, and
//! stores each epoch in `seen` at the first record in it. The first time that it touches a slot in
//! an epoch it appends the slot to the `journal`, with that epoch. So a drain costs what has
//! changed.
//!
//! The consumer reads `seen`, then every slot in the journal, some at a time. A record that began
//! before `seen` was written is visible then, and a later one appends its slot anew: so entries of
//! epochs before `seen` are final, and are *done*. The others are read again by the next drain. A
//! slot that the owner touched last in an epoch before `released` (the `seen` of the last drain) is
//! *free*: whatever was added is taken, and another key may have it.
//!
//! # When a record is seen
//! The next drain sees it, unless it was made while a drain ran. Then the owner finds the epoch
//! advanced when it reads it again at the end, and reports that a drain is due. The one thing that
//! no ordering excludes without a barrier in each record, which would cost more than all the rest,
//! is that this last load overtakes the stores before it in the processor's store buffer. Stores
//! leave that in finite time, so the consumer drains once more a while after the last report.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | R1 epoch, load | acquire | R2 | after it the owner may miss that the recorder waits for a wake | - |
//! | R2 epoch, store | release | R1 | as R1 | - |
//! | R3 seen, store | release | R4 | entries count as done whose last record is not visible: lost debt | `record-seen-relaxed` |
//! | R4 seen, load | acquire | R3 | as R3 | `record-seen-read-relaxed` |
//! | R5 sum, store | release | R6 | a sum with the `base` before it: a delta dated too early | `record-sum-relaxed` |
//! | R6 sum, load | acquire | R5 | as R5 | `record-sum-read-relaxed` |
//! | R7 journal's head, store | release | R8 | an entry, or the label of a slot, from before | `record-head-relaxed` |
//! | R8 journal's head, load | acquire | R7 | as R7 | `record-head-read-relaxed` |
//! | R9 released and done, store | release | R10 | the consumer reads the label of the next key, or an entry that is overwritten; loom sees no load that moves behind a later store, so this pair rests on the argument | - |
//! | R10 released and done, load | acquire | R9 | as R9 | - |
//! | R11 count, store | release | R12 | the consumer reads sums of before this record, and takes the table for unchanged from then on | `record-count-relaxed` |
//! | R12 count, load | acquire | R11 | as R11 | `record-count-read-relaxed` |
//! | R13 owned, exchange | acquire | R14 | the next owner continues from older sums | `record-claim-relaxed` |
//! | R14 owned, store | release | R13 | as R13 | `record-give-back-relaxed` |
//! | R15 a slot's limit, key and base, and the journal's entries | relaxed | none: R5 and R7 publish them, R9 gives them back | - | - |
//! | R16 words of the owner, loaded or stored by the owner for itself | relaxed | none: R13 and R14 hand them on | - | - |
//! | R17 epoch, loaded again | relaxed | none: see "When a record is seen" | - | - |
//! | R18 a prefetch; epoch, loaded by the consumer | relaxed | none: it decides nothing; only the consumer writes it | - | - |
//! | R19 compiler fence | sequentially consistent | none: it keeps R17 behind R11, as far as the compiler goes | a turn of the epoch is noticed late; the drain after the last report finds the record | - |

use crossbeam_utils::CachePadded;

use super::singles::{self, Singles, zeroed};
use crate::protocol::Change;
use crate::sync::{AtomicU64, Ordering, compiler_fence};

/// Slots in which a key may be, from its home on.
const PROBES: usize = 16;
/// A debt beyond this, in nanoseconds, does not go into a table: 36 years.
const MAX_DEBT: i64 = 1 << 60;
/// Undrained debt in a slot, in nanoseconds, at most: sums stay far from half their range.
const MAX_AHEAD: i64 = 1 << 61;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) limit: u64,
    pub(crate) key: u64,
    /// In nanoseconds; negative when something is given back.
    pub(crate) debt: i64,
    /// When, in nanoseconds on the driver's clock; `None` is the present, as it was at the first
    /// record since the last drain.
    pub(crate) at: Option<i64>,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Outcome {
    /// It is in the table, and so is an earlier one since the last drain.
    Added,
    /// It is in the table, and a drain is due.
    Due,
    /// The key's slots are taken, the journal is full, or the debt is out of range.
    NoRoom,
}

/// One thread's records.
#[derive(Debug)]
pub(crate) struct Table {
    /// 1 while a thread has this table.
    owned: CachePadded<AtomicU64>,
    /// Written by the consumer.
    progress: CachePadded<DrainProgress>,
    /// Written by the owner.
    own: CachePadded<Own>,
    singles: Singles,
    slots: Box<[Slot]>,
    /// Entries of epoch and slot, twice as many as slots.
    journal: Box<[AtomicU64]>,
    /// Of an index into the slots.
    bits: u32,
}

#[derive(Debug)]
struct DrainProgress {
    epoch: AtomicU64,
    /// Slots last touched in an epoch before this one are free.
    released: AtomicU64,
    /// Entries of the journal before this one are done.
    done: AtomicU64,
}

#[derive(Debug)]
struct Own {
    /// The last epoch in which a record began.
    seen: AtomicU64,
    /// Entries that were appended to the journal.
    head: AtomicU64,
    /// Records that were made or found no room.
    count: AtomicU64,
    /// The present, at the first record in `seen`.
    date: AtomicU64,
}

#[derive(Debug, Default)]
#[cfg_attr(not(test), derive(bytemuck::Zeroable))]
#[cfg_attr(not(test), repr(C))]
struct Slot {
    limit: AtomicU64,
    key: AtomicU64,
    sum: AtomicU64,
    base: AtomicU64,
    /// The last epoch in which the slot was touched, 0 before the first; the owner's alone.
    mark: AtomicU64,
    /// Written to have the rest in the cache.
    hint: AtomicU64,
    /// So that what is used of a slot is in one cache line, wherever a large allocation begins.
    _rest: [AtomicU64; 2],
}

/// What the consumer knows of a table.
#[derive(Debug)]
pub(crate) struct Reader {
    singles: singles::DrainRange,
    /// The sum of each slot that was read last.
    last: Box<[u64]>,
    done: u64,
    count: u64,
    /// `seen` and the journal's head, as they were when this drain began.
    seen: u64,
    head: u64,
    /// The entry that this drain reads next, up to `head`.
    next: u64,
}

impl Reader {
    pub(crate) fn new(table: &Table) -> Self {
        let last = vec![0; table.slots.len()].into();
        let singles = singles::DrainRange::default();
        Self { singles, last, done: 0, count: 0, seen: 0, head: 0, next: 0 }
    }
}

/// For a record.
struct Probe<'a> {
    index: usize,
    slot: &'a Slot,
    /// No key's, or this key's with nothing to take.
    is_free: bool,
    /// In the journal of this epoch.
    is_entered: bool,
}

impl Table {
    /// A table of 2^`bits` slots, with room for 2^`singles` keys that are used once, owned by the
    /// caller.
    pub(crate) fn new(bits: u32, singles: Option<u32>) -> Self {
        let progress = DrainProgress {
            epoch: AtomicU64::new(1),
            released: AtomicU64::new(1),
            done: AtomicU64::new(0),
        };
        let own = Own {
            seen: AtomicU64::new(0),
            head: AtomicU64::new(0),
            count: AtomicU64::new(0),
            date: AtomicU64::new(0),
        };
        Self {
            owned: CachePadded::new(AtomicU64::new(1)),
            progress: CachePadded::new(progress),
            own: CachePadded::new(own),
            singles: Singles::new(singles),
            slots: zeroed(1 << bits),
            journal: zeroed(2 << bits),
            bits,
        }
    }

    /// Makes the calling thread the owner, unless another thread is.
    pub(crate) fn claim(&self) -> bool {
        // R13
        self.owned.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The owner stops being it. What it has recorded stays until it is drained.
    pub(crate) fn give_back(&self) {
        // R14
        self.owned.store(0, Ordering::Release);
    }

    /// Adds a record; only the owner may. `clock` reads the present.
    #[inline]
    pub(crate) fn record(&self, record: Record, clock: impl FnOnce() -> i64) -> Outcome {
        self.record_again(record).unwrap_or_else(|| self.record_any(record, clock))
    }

    /// Adds a charge of a key that is in its first slot, and in the journal of this epoch: the
    /// usual case. `None` for any other record: nothing is done.
    #[expect(clippy::inline_always, reason = "the record would be handed over in memory")]
    #[inline(always)]
    pub(crate) fn record_again(&self, record: Record) -> Option<Outcome> {
        let Record { limit, key, debt, at } = record;
        // R1
        let epoch = self.progress.epoch.load(Ordering::Acquire);
        // First, so that no slot is fetched that is not needed.
        if !self.singles.is_recent(limit, key, epoch) {
            return None;
        }
        let slot = &self.slots[self.home(limit, key)];
        // R15, R16. The mark says that a record of this epoch came before.
        let is_entered = slot.key.load(Ordering::Relaxed) == key
            && slot.limit.load(Ordering::Relaxed) == limit
            && slot.mark.load(Ordering::Relaxed) == epoch;
        if !is_entered || !(1..=MAX_DEBT).contains(&debt) {
            return None;
        }
        let has_room = put(slot, record, at.unwrap_or_else(|| self.date()), false);
        Some(self.end(has_room, false, epoch))
    }

    /// Adds any record.
    #[inline]
    pub(crate) fn record_any(&self, record: Record, clock: impl FnOnce() -> i64) -> Outcome {
        let epoch = self.progress.epoch.load(Ordering::Acquire); // R1
        let is_first = self.own.seen.load(Ordering::Relaxed) != epoch; // R16
        // What is given back comes after what this node had received.
        if is_first || record.debt < 0 && record.at.is_none() {
            self.begin(epoch, clock());
        }
        let has_room = self.add_single(record, epoch) || self.add(record, epoch);
        // Also without room: the consumer looks at what is done.
        self.end(has_room, is_first, epoch)
    }

    /// Counts a record of which all else is stored.
    #[inline]
    fn end(&self, has_room: bool, is_first: bool, epoch: u64) -> Outcome {
        let count = self.own.count.load(Ordering::Relaxed).wrapping_add(1); // R16
        self.own.count.store(count, Ordering::Release); // R11
        compiler_fence(Ordering::SeqCst); // R19
        let has_turned = self.progress.epoch.load(Ordering::Relaxed) != epoch; // R17
        match (has_room, is_first || has_turned) {
            (true, false) => Outcome::Added,
            (true, true) => Outcome::Due,
            (false, _) => Outcome::NoRoom,
        }
    }

    /// Whether the record is the first of its key, and there is room for it as such.
    #[inline]
    fn add_single(&self, Record { limit, key, debt, at }: Record, epoch: u64) -> bool {
        let is_first = !self.singles.is_recent(limit, key, epoch);
        let fits = is_first && debt.unsigned_abs() <= MAX_DEBT as u64;
        let date = at.unwrap_or_else(|| self.date());
        fits && self.singles.push(epoch, (limit, key), Change::new(debt, date))
    }

    /// Whether there is room for the record in a slot.
    #[inline]
    fn add(&self, record: Record, epoch: u64) -> bool {
        let Record { limit, key, debt, at } = record;
        let Some(Probe { index, slot, is_free, is_entered }) = self.find(limit, key, epoch) else {
            return false;
        };
        let has_journal_room = is_entered || self.has_journal_room();
        if !has_journal_room || debt.unsigned_abs() > MAX_DEBT as u64 {
            return false;
        }
        if !put(slot, record, at.unwrap_or_else(|| self.date()), is_free) {
            return false;
        }
        if !is_entered {
            self.enter(index, slot, epoch);
        }
        true
    }

    /// The present, as it was when [`Table::begin`] was called last: in this epoch.
    #[inline]
    fn date(&self) -> i64 {
        // R16
        self.own.date.load(Ordering::Relaxed) as i64
    }

    /// Fetches what a record of this key will need, most likely, while something else is done: a
    /// store, as the reading of a time-stamp counter waits for loads.
    #[inline]
    pub(crate) fn prefetch(&self, limit: u64, key: u64) {
        // R18
        let epoch = self.progress.epoch.load(Ordering::Relaxed);
        if self.singles.is_recent(limit, key, epoch) {
            self.slots[self.home(limit, key)].hint.store(0, Ordering::Relaxed);
        }
    }

    /// The first record in an epoch, or one that is dated now.
    #[cold]
    fn begin(&self, epoch: u64, now: i64) {
        self.own.date.store(now as u64, Ordering::Relaxed); // R16
        self.own.seen.store(epoch, Ordering::Release); // R3
    }

    /// The key's slot, or a free one that comes before it.
    #[inline]
    fn find(&self, limit: u64, key: u64, epoch: u64) -> Option<Probe<'_>> {
        let home = self.home(limit, key);
        for step in 0..PROBES.min(self.slots.len()) {
            let index = (home + step) & (self.slots.len() - 1);
            let slot = &self.slots[index];
            // R15, R16
            let mark = slot.mark.load(Ordering::Relaxed);
            let is_same = slot.key.load(Ordering::Relaxed) == key
                && slot.limit.load(Ordering::Relaxed) == limit;
            if is_same && mark == epoch {
                return Some(Probe { index, slot, is_free: false, is_entered: true });
            }
            // R10
            let is_free = mark < self.progress.released.load(Ordering::Acquire);
            if is_free || is_same {
                return Some(Probe { index, slot, is_free, is_entered: false });
            }
        }
        None
    }

    #[inline]
    fn home(&self, limit: u64, key: u64) -> usize {
        /// From the golden ratio.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (limit ^ key).wrapping_mul(SPREAD) >> 32;
        mixed as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn has_journal_room(&self) -> bool {
        let head = self.own.head.load(Ordering::Relaxed); // R16
        let done = self.progress.done.load(Ordering::Acquire); // R10
        head.wrapping_sub(done) < self.journal.len() as u64
    }

    #[inline]
    fn enter(&self, index: usize, slot: &Slot, epoch: u64) {
        slot.mark.store(epoch, Ordering::Relaxed); // R16
        let head = self.own.head.load(Ordering::Relaxed); // R16
        // R15
        self.entry(head).store(epoch << self.bits | index as u64, Ordering::Relaxed);
        self.own.head.store(head.wrapping_add(1), Ordering::Release); // R7
    }

    fn entry(&self, number: u64) -> &AtomicU64 {
        &self.journal[number as usize & (self.journal.len() - 1)]
    }

    /// Begins an epoch; only the consumer may. Of several tables all begin before the first is
    /// drained: what their owners record meanwhile then does not delay what is done.
    pub(crate) fn advance(&self) {
        let epoch = self.progress.epoch.load(Ordering::Relaxed); // R18
        self.progress.epoch.store(epoch + 1, Ordering::Release); // R2
    }

    /// Begins to drain what there is; only the consumer may, with always the same reader, when the
    /// drain before is over.
    pub(crate) fn begin_drain(&self, reader: &mut Reader) {
        // R12
        let count = self.own.count.load(Ordering::Acquire);
        if count == reader.count {
            return;
        }
        reader.count = count;
        self.singles.begin_drain(&mut reader.singles);
        // R4
        reader.seen = self.own.seen.load(Ordering::Acquire);
        // R8
        reader.head = self.own.head.load(Ordering::Acquire);
        reader.next = reader.done;
    }

    /// Reads `most` records and slots, at most, and takes what is new in them; returns how many it
    /// has read. The drain is over when that is fewer.
    pub(crate) fn drain(
        &self,
        reader: &mut Reader,
        most: usize,
        mut take: impl FnMut(u64, u64, Change),
    ) -> usize {
        let singles = self.singles.drain(&mut reader.singles, most, &mut take);
        let (left, most) = ((reader.head - reader.next) as usize, most - singles);
        if left == 0 || most == 0 {
            return singles;
        }
        let count = left.min(most);
        for _ in 0..count {
            // R15
            let entry = self.entry(reader.next).load(Ordering::Relaxed);
            let index = entry as usize & (self.slots.len() - 1);
            self.read(index, &mut reader.last[index], &mut take);
            reader.next += 1;
            // Epochs ascend along the journal.
            if entry >> self.bits < reader.seen {
                reader.done = reader.next;
            }
        }
        if reader.next == reader.head {
            // R9
            self.progress.done.store(reader.done, Ordering::Release);
            self.progress.released.store(reader.seen, Ordering::Release);
        }
        singles + count
    }

    fn read(&self, index: usize, last: &mut u64, take: &mut impl FnMut(u64, u64, Change)) {
        let slot = &self.slots[index];
        let sum = slot.sum.load(Ordering::Acquire); // R6
        if sum == *last {
            return;
        }
        let debt = sum.wrapping_sub(*last) as i64;
        // R15
        let date = slot.base.load(Ordering::Relaxed).wrapping_add(*last) as i64;
        *last = sum;
        let label = (slot.limit.load(Ordering::Relaxed), slot.key.load(Ordering::Relaxed));
        take(label.0, label.1, Change::new(debt, date));
    }
}

/// Adds a record of at most [`MAX_DEBT`] to a slot that is the key's or free. Whether there is room
/// for it: nothing has changed otherwise.
#[inline]
fn put(slot: &Slot, record: Record, at: i64, is_free: bool) -> bool {
    let Record { limit, key, debt, .. } = record;
    let sum = slot.sum.load(Ordering::Relaxed); // R16
    let base = slot.base.load(Ordering::Relaxed); // R16
    // What the key owes by this table.
    let ahead = base.wrapping_add(sum).wrapping_sub(at as u64) as i64;
    let ahead = if is_free { 0 } else { ahead };
    if ahead > MAX_AHEAD - debt {
        return false;
    }
    if is_free {
        slot.limit.store(limit, Ordering::Relaxed); // R15
        slot.key.store(key, Ordering::Relaxed); // R15
    }
    if is_free || ahead < 0 {
        slot.base.store((at as u64).wrapping_sub(sum), Ordering::Relaxed); // R15
    }
    slot.sum.store(sum.wrapping_add(debt as u64), Ordering::Release); // R5
    true
}
