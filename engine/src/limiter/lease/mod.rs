//! Leases: blocks of units of a hot key that a thread charges at once and then uses one by one,
//! without a write to the key's word.
//!
//! # Why the guarantee stays exact
//! Every charge has an interval of time of its own. Charging `n` units at time `a` moves the TAT
//! from `X = max(TAT, a)` to `X + n * T`, so the intervals of all units ever charged to a key are
//! disjoint, and each ends by `a + tau`. A leased unit is used at a time `u` only if its interval
//! has not begun by then and ends by `u + tau`; the same holds for a unit that is admitted by the
//! word. So what is admitted in `[s, t]` has disjoint intervals of length T inside `[s, t + tau]`:
//! there are at most `burst + rate * (t - s)` of them, exactly as without leases. Charges by other
//! threads, and of remote debt, only move later intervals further.
//!
//! A leased unit is *void*, and is never used, if
//! * it has *expired*: its interval has begun;
//! * the key's word does not *cover* it: the lease ends later than the TAT, because the word was
//!   evicted, or is just being lowered;
//! * it was *revoked*: the key's word was lowered, by a refund or a reset, to before its end. What
//!   a refund revokes of leases it *recalls*: it gives the units back to the word.
//!
//! A unit is *lost* if it is charged and will never be used: it is void, or cached by a thread
//! that has ended.
//!
//! # Where more than that can be admitted
//! * A thread that lowers a word ends the key's leases that end beyond the new value, so that the
//!   intervals stay disjoint. From the step that lowers the word until that is done, both can be
//!   charged: at most what was leased then.
//! * A return or a recall of a lease that stalls right before its step on the word takes back other
//!   charges if meanwhile the word is lowered and grows to the very same value: at most the lease's
//!   units.
//! * After an eviction a new word has new intervals, which overlap those of the key's leases. Once
//!   it has grown past a lease's end it covers the lease again: what is used or recalled of the
//!   lease then comes on top, at most what the key may have leased.
//!
//! # What may be leased
//! * Each thread has a *stripe* of entries; a key has one entry in each, which holds at most one
//!   lease. All leases of a key together are at most 1/[`SHARE`] of the burst, besides what threads
//!   have cached.
//! * A lease is taken only while [`SHARE`] times as many units fit besides it, so leases end before
//!   the burst does.
//! * A lease takes as many admitted checks of the key, by the same stripe, as `heat.rs` asks for,
//!   so that units that expire unused stay a small share of what is admitted.
//! * A thread takes some units of a lease into a thread-local cache (a *magazine*): at most
//!   1/[`CACHED_SHARE`] of the largest lease. It uses those first, without an atomic step.
//! * A check that the word denies searches the key's leases in all stripes, and uses a unit it
//!   finds there. It does not find what other threads have cached.
//!
//! The states of an entry and the orderings are in `entry.rs`, the magazine is in `magazine.rs`,
//! and what ends leases early is in `give_back.rs`.

mod block;
mod check;
mod entry;
mod give_back;
mod heat;
mod magazine;
#[cfg(all(test, not(any(loom, interleave))))]
mod magazine_tests;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(any(loom, interleave))))]
mod progress;
#[cfg(all(test, not(any(loom, interleave))))]
mod refund_tests;
mod returned;
#[cfg(all(test, not(any(loom, interleave))))]
mod tests;

use crate::base::decision::Decision;
use crate::base::key::KeyHash;
use crate::base::stripe::Seat;
use crate::base::word::{State, Update};
use crate::rule::gcra::{self, Gcra};
use crate::table::Table;
use crate::table::answer::answer;

use block::Block;
use check::Used;
pub(crate) use check::{LeasedCheck, tat_of};
use entry::{Entry, EntryView};
pub(crate) use give_back::{Lowered, Refund};
use magazine::{BACKING, CACHED_SHARE, CachedUnits, LimiterId, MAX_CACHED};
use returned::{give_back, with_cached};

/// The largest lease that can be asked for, in units.
pub const MAX_LEASE_UNITS: u64 = heat::MOST;

const _: () = assert!(MAX_LEASE_UNITS <= Decision::MOST_LEASED);

/// The share of a burst that all leases of a key may hold together, as a divisor.
const SHARE: u64 = 16;

/// A smaller lease costs more than it saves.
const LEAST: u64 = 4;

/// Entries a stripe: 4 KiB, so that hot keys seldom meet and the stripe stays in the L1 cache.
const ENTRIES: usize = if cfg!(loom) { 1 } else { 64 };

/// A denial searches every stripe.
const MAX_STRIPES: usize = 64;

const _: () = assert!(MAX_CACHED <= u32::MAX as u64 && MAX_STRIPES <= u16::MAX as usize);

/// The leases of one limiter.
#[derive(Debug)]
pub struct Leases {
    /// A power of two of them.
    stripes: Box<[Stripe]>,
    /// The largest lease, in units.
    most: u64,
    /// The most units of a lease that a thread has cached.
    max_cached: u64,
    /// The units that a thread must have used for each one that it caches.
    backing: u32,
}

/// Aligned to the pairs of cache lines that processors prefetch together; a multiple of such pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    entries: [Entry; ENTRIES],
}

impl Leases {
    /// Leases of up to `units`, for as many threads as run at once; `None` if they would be too
    /// small to pay.
    pub(crate) fn new(units: u64, gcra: &Gcra) -> Option<Self> {
        // Asking for the number of processors reads files, ten times what else is built.
        if units < LEAST {
            return None;
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::striped(units, gcra, threads.next_power_of_two().min(MAX_STRIPES))
    }

    /// As [`Leases::new`], with `count` stripes: a power of two.
    fn striped(units: u64, gcra: &Gcra, count: usize) -> Option<Self> {
        let most = units.min(gcra.burst() / SHARE / count as u64).min(MAX_LEASE_UNITS);
        if most < LEAST {
            return None;
        }
        let entries = || core::array::from_fn(|_| Entry::new());
        let stripes = (0..count).map(|_| Stripe { entries: entries() }).collect();
        let max_cached = (most / CACHED_SHARE).min(MAX_CACHED);
        Some(Self { stripes, most, max_cached, backing: BACKING })
    }

    /// The largest lease, in units.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Decides by what the thread has cached of the key, else by its stripe's lease of the key,
    /// else by the key's word.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    pub(crate) fn decide(
        &self,
        seat: impl FnOnce() -> Seat,
        check: LeasedCheck<'_, impl State, impl Fn() -> u64>,
    ) -> Decision {
        if let Some((entry, view, block)) = self.cached(check.key) {
            if let Some(left) = block.take_whole(check.gcra, check.cost, check.now) {
                if let Some(tat) = check.word_of(block) {
                    CachedUnits::leave(check.key, left);
                    return check.gcra.leased(tat, check.now, left + entry.units_seen(view, tat));
                }
            }
        }
        self.decide_by_entry(seat(), &LeasedCheck { ..check }).in_registers()
    }

    /// What the calling thread has cached of a key and has not been revoked, and the entry that it
    /// is of.
    #[inline]
    fn cached(&self, key: KeyHash) -> Option<(&Entry, EntryView, Block)> {
        let cached = CachedUnits::of(key)?;
        // Units of another limiter may be of a stripe that this one does not have.
        let entry = self.stripes.get(cached.stripe)?.entry(key);
        let view = entry.see();
        (view.epoch == cached.epoch).then_some((entry, view, cached.block))
    }

    /// Reads a key without charging it: its word, and what the thread has leased of it.
    #[inline(never)]
    pub(crate) fn peek(
        &self,
        seat: Seat,
        check: &LeasedCheck<'_, impl State, impl Fn() -> u64>,
    ) -> Decision {
        let LeasedCheck { gcra, table, key, now, .. } = *check;
        let tat = tat_of(table, key, now);
        let decision = gcra.answer(Update::Unchanged { found: tat, now }, 0);
        if !decision.is_allowed() {
            return decision;
        }
        match self.own_units(seat, check, tat, now) {
            0 => decision,
            left => gcra.leased(tat, now, left),
        }
    }

    /// The units of the check's key that the thread, in this seat, has leased and may use.
    fn own_units<S, R>(
        &self,
        seat: Seat,
        check: &LeasedCheck<'_, S, R>,
        tat: u64,
        now: u64,
    ) -> u64 {
        let entry = self.entry(seat, check.key);
        let lease = entry.lease_of(check.key).filter(|lease| entry.holds(*lease));
        let cached = self.cached(check.key).map(|(_, _, block)| block);
        let blocks = lease.map(|lease| lease.block).into_iter().chain(cached);
        blocks.map(|block| usable(block, check.gcra, tat, now)).sum()
    }

    /// The units of a key, whose word is `tat`, that are in leases or cached by the calling thread,
    /// and may be used at `now`.
    pub(crate) fn units(&self, gcra: &Gcra, key: KeyHash, tat: u64, now: u64) -> u64 {
        let leases = self.stripes.iter().filter_map(|stripe| stripe.entry(key).lease_of(key));
        let cached = self.cached(key).map(|(_, _, block)| block);
        let blocks = leases.map(|lease| lease.block).chain(cached);
        blocks.map(|block| usable(block, gcra, tat, now)).sum()
    }

    /// Decides where the thread has cached nothing, or too little, or what is void or has expired
    /// in part.
    #[cold]
    #[inline(never)]
    fn decide_by_entry(
        &self,
        seat: Seat,
        check: &LeasedCheck<'_, impl State, impl Fn() -> u64>,
    ) -> Decision {
        if let Some(decision) = self.use_rest(check) {
            return decision;
        }
        let entry = self.entry(seat, check.key);
        match self.use_lease(seat, entry, check) {
            Some(decision) => decision,
            None => self.decide_by_word(seat, check),
        }
    }

    /// Uses what the thread has cached, of which some has expired.
    #[inline]
    fn use_rest(&self, check: &LeasedCheck<'_, impl State, impl Fn() -> u64>) -> Option<Decision> {
        let (entry, view, block) = self.cached(check.key)?;
        let left = block.take_rest(check.gcra, check.cost, check.now)?;
        let tat = check.word_of(block)?;
        CachedUnits::leave(check.key, left);
        check.settle(entry, Used { block, left });
        Some(check.gcra.leased(tat, check.now, left + entry.units_seen(view, tat)))
    }

    /// Uses the lease of the seat's entry together with the cached units that precede it, and
    /// caches some of what is left. `None`, and nothing is used, if there is no lease that
    /// suffices or another thread was first.
    #[inline]
    fn use_lease(
        &self,
        seat: Seat,
        entry: &Entry,
        check: &LeasedCheck<'_, impl State, impl Fn() -> u64>,
    ) -> Option<Decision> {
        let LeasedCheck { gcra, key, cost, now, .. } = *check;
        let view = entry.see();
        let lease = entry.lease_seen(view, key)?;
        let cached = CachedUnits::of(key)
            .filter(|cached| cached.epoch == view.epoch)
            .map(|cached| cached.block);
        let (joined, apart) = match cached {
            // They end where the lease begins: both are one block.
            Some(cached) if cached.end == lease.block.start(gcra) => (cached.units, None),
            // Other threads have used the units in between.
            cached => (0, cached.filter(|cached| cached.unexpired(gcra, now) > 0)),
        };

        let block = Block { units: joined + lease.block.units, ..lease.block };
        let left = block.take(gcra, cost, now)?;
        let tat = check.word_of(block)?;
        let has_expired = left + cost < block.units;
        if has_expired {
            // Before the allowance is computed: expired units take their backing with them.
            CachedUnits::lost(key);
        }

        // A magazine has one block, so units that are apart must be used before others are taken.
        let allowance = match apart {
            None => self.allowance(key, joined, view),
            Some(_) => None,
        };
        // Cached units do not go back into the entry: within a generation a lease only shrinks.
        let kept = left.saturating_sub(lease.block.units);
        let taken = left.min(allowance.unwrap_or(0).min(self.max_cached).max(kept));
        if !entry.leave(lease, left - taken) {
            // Another thread uses the same stripe.
            seat.move_on();
            return None;
        }
        if allowance.is_some() {
            let stripe = seat.among(self.stripes.len());
            let block = block.first(gcra, left, taken);
            CachedUnits { stripe, epoch: view.epoch, block }.take(key, cost);
        }
        check.settle(entry, Used { block, left });
        let apart = apart.map_or(0, |block| usable(block, check.gcra, tat, check.now));
        Some(gcra.leased(tat, now, left + apart))
    }

    /// See [`CachedUnits::allowance`].
    fn allowance(&self, key: KeyHash, joined: u64, view: EntryView) -> Option<u64> {
        CachedUnits::allowance(key, LimiterId::at(&self.stripes), view.epoch, joined, self.backing)
    }

    /// Decides where the stripe's lease is too small or there is none.
    #[inline(never)]
    fn decide_by_word(
        &self,
        seat: Seat,
        check: &LeasedCheck<'_, impl State, impl Fn() -> u64>,
    ) -> Decision {
        if let Some(decision) = self.refill(seat, check) {
            return decision;
        }
        let update = check.update(|tat, now| check.gcra.admit(tat, now, check.cost));
        if let Update::Unchanged { found, now } = update {
            if let Some(decision) = self.use_others(found, now, check) {
                return decision;
            }
        }
        if let Update::Written { before, now } = update {
            let entry = self.entry(seat, check.key);
            entry.heat.admitted(check.key);
            let left = self.own_units(seat, check, before, now);
            if left > 0 {
                let tat = gcra::charge(before, now, check.cost * check.gcra.interval());
                return check.gcra.leased(tat, now, left);
            }
        }
        answer(check.table, check.gcra, check.key, update, check.cost)
    }

    /// Charges the check and a new lease in one step on the word, which replaces the entry's old
    /// lease. `None`, and nothing is charged, if there is to be no new lease.
    fn refill(
        &self,
        seat: Seat,
        check: &LeasedCheck<'_, impl State, impl Fn() -> u64>,
    ) -> Option<Decision> {
        let entry = self.entry(seat, check.key);
        let wanted = entry.heat.backed(check.key).min(self.most);
        if wanted < LEAST {
            return None;
        }
        let old = entry.lease()?;
        let tat = tat_of(check.table, check.key, check.now);
        let units_fitting = |tat, now| fitting(wanted, check.gcra, tat, now, check.cost);
        if units_fitting(tat, check.now) == 0 {
            return None;
        }
        if old.block.units > 0 && old.is_of(check.key) {
            // What is left serves a smaller cost, unless it is void.
            if old.block.is_covered(tat) && old.block.unexpired(check.gcra, check.now) > 0 {
                return None;
            }
            entry.heat.lost(check.key, old.block.units);
        }
        let filling = entry.begin(old)?;
        let is_own = old.is_of(check.key);
        let whole = if is_own { old } else { with_cached(old, &filling, check.gcra) };
        if whole.block.units > 0 && !give_back(whole, &filling, check.gcra, check.table) {
            CachedUnits::lost(whole.key());
        }
        let charged = |tat, now| {
            check.gcra.admit(tat, now, check.cost.saturating_add(units_fitting(tat, now)))
        };
        let Update::Written { before, now } = check.update(charged) else {
            filling.empty();
            return None;
        };
        let units = units_fitting(before, now);
        let end = gcra::charge(before, now, (check.cost + units) * check.gcra.interval());
        entry.heat.admitted(check.key);
        entry.heat.leased(check.key, units);
        if !filling.publish(check.key, Block { end, units }) {
            entry.heat.lost(check.key, units);
            return Some(check.gcra.leased(end, now, 0));
        }
        let cached = self.cached(check.key);
        let cached = cached.map_or(0, |(_, _, block)| usable(block, check.gcra, before, now));
        Some(check.gcra.leased(end, now, units + cached))
    }

    /// Uses units of any stripe's lease of the key, for a check that its word, found as `tat`,
    /// denies.
    fn use_others(
        &self,
        tat: u64,
        now: u64,
        check: &LeasedCheck<'_, impl State, impl Fn() -> u64>,
    ) -> Option<Decision> {
        for stripe in &self.stripes {
            let entry = stripe.entry(check.key);
            // Lock-free: it repeats only after another thread has changed the entry.
            while let Some(lease) = entry.lease_of(check.key) {
                let Some(left) = check.left_of(lease, tat, now) else { break };
                if entry.leave(lease, left) {
                    return Some(check.gcra.leased(tat, now, 0));
                }
            }
        }
        None
    }

    #[inline]
    fn entry(&self, seat: Seat, key: KeyHash) -> &Entry {
        self.stripe(seat).entry(key)
    }

    #[inline]
    fn stripe(&self, seat: Seat) -> &Stripe {
        &self.stripes[seat.among(self.stripes.len())]
    }
}

impl Leases {
    /// Decides a check of the calling thread.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    pub(crate) fn decide_leased(
        &self,
        table: &Table<impl State>,
        gcra: &Gcra,
        key: KeyHash,
        cost: u64,
        now: u64,
        reread: impl Fn() -> u64,
    ) -> Decision {
        let check = LeasedCheck { gcra, table, key, cost, now, reread };
        if cost == 0 {
            self.peek(Seat::here(), &check).in_registers()
        } else {
            self.decide(Seat::here, check)
        }
    }
}

impl Stripe {
    #[inline]
    fn entry(&self, key: KeyHash) -> &Entry {
        &self.entries[key.tag() as usize % ENTRIES]
    }
}

/// The units to lease besides an admission of `cost`, up to `wanted`; 0 for none.
fn fitting(wanted: u64, gcra: &Gcra, tat: u64, now: u64, cost: u64) -> u64 {
    let fits = |units| gcra.admit(tat, now, cost.saturating_add((SHARE + 1) * units)).is_some();
    // Fails early where there is no room even for the least lease, as where the key is denied.
    if !fits(LEAST) {
        return 0;
    }
    let mut units = wanted;
    while !fits(units) {
        units /= 2;
    }
    if units < LEAST { 0 } else { units }
}

/// The units of a block that a check may use at `now`, where the key's word is `tat`.
#[inline]
fn usable(block: Block, gcra: &Gcra, tat: u64, now: u64) -> u64 {
    if block.is_covered(tat) { block.unexpired(gcra, now) } else { 0 }
}
