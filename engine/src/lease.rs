//! Leases: blocks of units of a hot key that a thread charges at once and then uses one by one,
//! without a write to the key's word.
//!
//! # Why the guarantee stays exact
//! Every charge gets an interval of time of its own. Charging `n` units at time `a` moves the TAT from
//! `X = max(TAT, a)` to `X + n * T`, so the intervals of all units ever charged to a key are disjoint,
//! and each ends by `a + tau`. A leased unit is used at a time `u` only if its interval has not begun
//! by then and ends by `u + tau`; the same holds for a unit that is admitted by the word. So what is
//! admitted in `[s, t]` has disjoint intervals of length T inside `[s, t + tau]`: there are at most
//! `burst + rate * (t - s)` of them, exactly as without leases. A unit whose interval has begun to
//! drain is void. Debt that others charge only moves later intervals further.
//!
//! Who lowers a word, by a refund or a reset, takes what lies beyond the new value from the key's leases
//! too, so that the intervals stay disjoint: what is refunded comes out of leases first. From the moment at
//! which the word is lower until that has been done, both can be charged: at most what was leased then.
//! A return that is stopped right before its step on the word does the same if meanwhile the word
//! is lowered and grows to the very same value.
//!
//! An evicted word takes its key's intervals with it, and new ones overlap those of its leases. A
//! lease that ends later than its key's word says is void, so this takes a new word that has
//! grown past it: then what is used of the lease comes on top, at most what the key may have leased.
//!
//! # What may be leased
//! * Each thread has a *stripe* of entries; a key has one entry in each, which holds at most one
//!   lease. All leases of a key together are at most 1/[`SHARE`] of the burst.
//! * A lease is taken only while [`SHARE`] times as many units fit beside it, so leases end before the
//!   burst does.
//! * A lease takes as many admitted checks of the key, by the same stripe, as `heat.rs` asks for, so
//!   that units that drain unused stay a small share of what is admitted.
//! * Who is denied by the word looks through the leases of the key in all stripes, and uses a
//!   unit it finds there.
//!
//! The rules of an entry and the orderings stand in `entry.rs`.

mod block;
mod entry;
mod heat;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(any(loom, interleave))))]
mod progress;
mod seat;
#[cfg(all(test, not(any(loom, interleave))))]
mod tests;

use crossbeam_utils::CachePadded;

use crate::decision::Decision;
use crate::gcra::{self, Gcra, Tat};
use crate::key::KeyHash;
use crate::overflow::answer;
use crate::table::{Table, Update};

use block::Block;
use entry::{Entry, Filling, Lease};
pub(crate) use seat::Seat;

/// The largest lease that can be asked for, in units.
pub const MAX_LEASE_UNITS: u64 = heat::MOST;

const _: () = assert!(MAX_LEASE_UNITS <= Decision::MOST_BESIDE);

/// The share of a burst that all leases of a key may hold together, as a divisor.
const SHARE: u64 = 16;

/// A smaller lease costs more than it saves.
const LEAST: u64 = 4;

/// Entries a stripe: 2 KiB, so that hot keys seldom meet and the stripe stays in the nearest cache.
const ENTRIES: usize = if cfg!(loom) { 1 } else { 64 };

/// Each stripe is looked through by a denial.
const MAX_STRIPES: usize = 64;

/// The leases of one limiter.
#[derive(Debug)]
pub struct Leases {
    /// A power of two of them.
    stripes: Box<[CachePadded<Stripe>]>,
    /// The largest lease, in units.
    most: u64,
}

#[derive(Debug)]
struct Stripe {
    entries: [Entry; ENTRIES],
}

/// A check that may use or take leases. `now` and `reread` are as in
/// [`Home::update`](crate::table::Home::update).
pub(crate) struct Check<'l, R> {
    pub(crate) gcra: &'l Gcra,
    pub(crate) table: &'l Table<Tat>,
    pub(crate) key: KeyHash,
    pub(crate) cost: u64,
    pub(crate) now: u64,
    pub(crate) reread: R,
}

impl Leases {
    /// Leases of up to `units` for a quota with this `burst`, for as many threads as run at once;
    /// `None` if they would be too small to pay.
    pub(crate) fn new(units: u64, burst: u64) -> Option<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::striped(units, burst, threads.next_power_of_two().min(MAX_STRIPES))
    }

    /// As [`Leases::new`], with so many stripes: a power of two.
    fn striped(units: u64, burst: u64, count: usize) -> Option<Self> {
        let most = units.min(burst / SHARE / count as u64).min(MAX_LEASE_UNITS);
        if most < LEAST {
            return None;
        }
        let entries = || core::array::from_fn(|_| Entry::new());
        let stripes = (0..count).map(|_| CachePadded::new(Stripe { entries: entries() })).collect();
        Some(Self { stripes, most })
    }

    /// The largest lease, in units.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Decides by the lease that the seat has for the key, else by the key's word.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    pub(crate) fn decide(&self, seat: Seat, check: Check<'_, impl Fn() -> u64>) -> Decision {
        let Check { gcra, table, key, cost, now, .. } = check;
        match self.use_own(seat, gcra, table, key, cost, now) {
            Some((tat, left)) => gcra.leased(tat, now, left),
            None => self.decide_by_word(seat, &Check { ..check }).in_registers(),
        }
    }

    /// Looks at a key without charging it: its word, and the lease that the seat has for it.
    #[inline(never)]
    pub(crate) fn peek(&self, seat: Seat, check: &Check<'_, impl Fn() -> u64>) -> Decision {
        let entry = self.entry(seat, check.key);
        let lease = entry.lease_of(check.key);
        let tat = look(check.table, check.key, check.now);
        let decision = check.gcra.answer(Update::Unchanged { found: tat, now: check.now }, 0);
        match lease {
            Some(lease)
                if decision.is_allowed() && lease.block.is_covered(tat) && entry.holds(lease) =>
            {
                let left = lease.block.undrained(check.gcra, check.now);
                check.gcra.leased(tat, check.now, left)
            }
            _ => decision,
        }
    }

    /// The units of a key, whose word is `tat`, that lie in leases and may be used at `now`.
    pub(crate) fn units(&self, gcra: &Gcra, key: KeyHash, tat: u64, now: u64) -> u64 {
        let leases = self.stripes.iter().filter_map(|stripe| stripe.entry(key).lease_of(key));
        let blocks = leases.map(|lease| lease.block).filter(|block| block.is_covered(tat));
        blocks.map(|block| block.undrained(gcra, now)).sum()
    }

    /// Takes from the leases of a key whose word has been lowered to `tat` what lies beyond it, because
    /// later charges get those intervals anew; what threads are just taking or returning, they lose.
    pub(crate) fn lowered(&self, gcra: &Gcra, key: KeyHash, tat: u64) {
        for stripe in &self.stripes {
            let entry = stripe.entry(key);
            // Each turn but the last one follows a step of somebody else.
            while !entry.trim(key, |block| block.up_to(gcra, tat)) {}
        }
    }

    /// Gives the seat's leases back to their words, where nothing has been charged behind them. The
    /// others stay where they are.
    pub(crate) fn give_back_all(&self, seat: Seat, gcra: &Gcra, table: &Table<Tat>) {
        for entry in &self.stripe(seat).entries {
            if let Some(lease) = entry.lease()
                && lease.block.units > 0
                && let Some(filling) = entry.begin(lease)
            {
                if give_back(lease, &filling, gcra, table) {
                    filling.empty();
                } else {
                    filling.restore(lease);
                }
            }
        }
    }

    /// Uses the lease that the seat has for the key. Returns the key's word and the units that are left
    /// of the lease; `None` if there was none, or it could not be used.
    #[expect(clippy::inline_always, reason = "a check that finds a lease makes no call")]
    #[inline(always)]
    fn use_own(
        &self,
        seat: Seat,
        gcra: &Gcra,
        table: &Table<Tat>,
        key: KeyHash,
        cost: u64,
        now: u64,
    ) -> Option<(u64, u64)> {
        let entry = self.entry(seat, key);
        let lease = entry.lease_of(key)?;
        let left = lease.block.take(gcra, cost, now)?;
        if !entry.leave(lease, left) {
            seat.move_on();
            return None;
        }
        // After the use, so that looking for the word overlaps with what comes next: units that turn
        // out to be void are as good as unused.
        let tat = look(table, key, now);
        if !lease.block.is_covered(tat) {
            return None;
        }
        let drained = lease.block.units - left - cost;
        if drained > 0 {
            Self::note_drained(entry, key, drained);
        }
        Some((tat, left))
    }

    #[cold]
    #[inline(never)]
    fn note_drained(entry: &Entry, key: KeyHash, units: u64) {
        entry.heat.drained(key, units);
    }

    /// Decides where the seat has leased too little or nothing.
    #[inline(never)]
    fn decide_by_word(&self, seat: Seat, check: &Check<'_, impl Fn() -> u64>) -> Decision {
        let entry = self.entry(seat, check.key);
        let backed = entry.heat.backed(check.key);
        if backed >= LEAST
            && let Some(decision) = Self::refill(entry, backed.min(self.most), check)
        {
            return decision;
        }
        let update = check.update(|tat, now| check.gcra.admit(tat, now, check.cost));
        if let Update::Unchanged { found, now } = update
            && let Some(decision) = self.use_others(found, now, check)
        {
            return decision;
        }
        if let Update::Written { before, now } = update {
            entry.heat.admitted(check.key);
            if let Some(Lease { block, .. }) = entry.lease_of(check.key)
                && block.is_covered(before)
            {
                let tat = gcra::charge(before, now, check.cost * check.gcra.interval());
                return check.gcra.leased(tat, now, block.undrained(check.gcra, now));
            }
        }
        answer(check.table, check.gcra, check.key, update, check.cost)
    }

    /// Charges the check and a new lease at once. `None` if there is to be none.
    fn refill(entry: &Entry, wanted: u64, check: &Check<'_, impl Fn() -> u64>) -> Option<Decision> {
        let old = entry.lease()?;
        let tat = look(check.table, check.key, check.now);
        let fitting = |tat, now| fitting(wanted, check.gcra, tat, now, check.cost);
        if fitting(tat, check.now) == 0 {
            return None;
        }
        if old.block.units > 0 && old.is_of(check.key) {
            // What is left is of use to a smaller cost, unless the word has been forgotten.
            if old.block.is_covered(tat) && old.block.undrained(check.gcra, check.now) > 0 {
                return None;
            }
            entry.heat.drained(check.key, old.block.units);
        }
        let filling = entry.begin(old)?;
        if old.block.units > 0 {
            let _ = give_back(old, &filling, check.gcra, check.table);
        }
        let charged =
            |tat, now| check.gcra.admit(tat, now, check.cost.saturating_add(fitting(tat, now)));
        let Update::Written { before, now } = check.update(charged) else {
            filling.empty();
            return None;
        };
        let units = fitting(before, now);
        let end = gcra::charge(before, now, (check.cost + units) * check.gcra.interval());
        entry.heat.admitted(check.key);
        if !filling.publish(check.key, Block { end, units }) {
            return Some(check.gcra.leased(end, now, 0));
        }
        entry.heat.leased(check.key, units);
        Some(check.gcra.leased(end, now, units))
    }

    /// Uses units of any lease of the key, for a check that its word, found as `tat`, denies.
    fn use_others(
        &self,
        tat: u64,
        now: u64,
        check: &Check<'_, impl Fn() -> u64>,
    ) -> Option<Decision> {
        for stripe in &self.stripes {
            let entry = stripe.entry(check.key);
            // Each turn but the last one follows a use by somebody else.
            while let Some(lease) = entry.lease_of(check.key)
                && let Some(left) = check.left_of(lease, tat, now)
            {
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
        table: &Table<Tat>,
        gcra: &Gcra,
        key: KeyHash,
        cost: u64,
        now: u64,
        reread: impl Fn() -> u64,
    ) -> Decision {
        let check = Check { gcra, table, key, cost, now, reread };
        let seat = Seat::here();
        if cost == 0 { self.peek(seat, &check).in_registers() } else { self.decide(seat, check) }
    }
}

impl Stripe {
    #[inline]
    fn entry(&self, key: KeyHash) -> &Entry {
        &self.entries[key.tag() as usize % ENTRIES]
    }
}

impl<R: Fn() -> u64> Check<'_, R> {
    #[inline]
    fn update(&self, decide: impl Fn(u64, u64) -> Option<u64>) -> Update {
        self.table.home(self.key).update(self.now, &self.reread, decide)
    }

    /// What the check would leave of a lease of its key, whose word is `tat`; `None` if it may not
    /// use it.
    #[inline]
    fn left_of(&self, lease: Lease, tat: u64, now: u64) -> Option<u64> {
        if !lease.block.is_covered(tat) {
            return None;
        }
        lease.block.take(self.gcra, self.cost, now)
    }
}

/// The key's word, only looked at; 0 where there is none.
#[inline]
pub(crate) fn look(table: &Table<Tat>, key: KeyHash, now: u64) -> u64 {
    match table.home(key).try_at_home::<true>(now, |_, _| None) {
        Ok(Update::Unchanged { found, .. }) => found,
        _ => look_further(table, key, now),
    }
}

/// [`look`] for a key that was not found at once.
#[inline(never)]
fn look_further(table: &Table<Tat>, key: KeyHash, now: u64) -> u64 {
    match table.home(key).update(now, || now, |_, _| None) {
        Update::Unchanged { found, .. } => found,
        Update::Written { before, .. } => before,
        // A look asks for no place.
        Update::Full { .. } => 0,
    }
}

/// The units to lease beside an admission of `cost`, up to `wanted`; 0 for none.
fn fitting(wanted: u64, gcra: &Gcra, tat: u64, now: u64, cost: u64) -> u64 {
    let fits = |units| gcra.admit(tat, now, cost.saturating_add((SHARE + 1) * units)).is_some();
    // Without room for the least of them, as where the key is denied, none is tried in vain.
    if !fits(LEAST) {
        return 0;
    }
    let mut units = wanted;
    while !fits(units) {
        units /= 2;
    }
    if units < LEAST { 0 } else { units }
}

/// Takes the charge of units that the caller alone holds back from their word, if it was the last.
///
/// Then nobody has an interval behind theirs, and later charges get theirs anew. A word that was
/// lowered and has grown to the same value again is told by the entry, which was spoiled.
fn give_back(lease: Lease, filling: &Filling<'_>, gcra: &Gcra, table: &Table<Tat>) -> bool {
    let Block { end, .. } = lease.block;
    let start = lease.block.start(gcra);
    let lower = |tat, _| (tat == end && filling.is_whole()).then_some(start);
    let update = table.home(lease.key()).update(start, || start, lower);
    matches!(update, Update::Written { .. })
}
