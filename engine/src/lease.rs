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
//!   lease. All leases of a key together are at most 1/[`SHARE`] of the burst, besides what threads hold in hand.
//! * A lease is taken only while [`SHARE`] times as many units fit beside it, so leases end before the
//!   burst does.
//! * A lease takes as many admitted checks of the key, by the same stripe, as `heat.rs` asks for, so
//!   that units that drain unused stay a small share of what is admitted.
//! * A thread takes some units of a lease in hand at once, at most 1/[`HELD_SHARE`] of the largest one, and uses those
//!   first: on its own, so that a check from a lease needs no atomic step.
//! * Who is denied by the word looks through the leases of the key in all stripes, and uses a
//!   unit it finds there. What other threads hold in hand it does not find.
//!
//! The rules of an entry and the orderings stand in `entry.rs`, those of what is held in `hand.rs`.

mod block;
mod check;
mod entry;
mod hand;
#[cfg(all(test, not(any(loom, interleave))))]
mod hand_tests;
mod heat;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(any(loom, interleave))))]
mod progress;
mod seat;
#[cfg(all(test, not(any(loom, interleave))))]
mod tests;

use crate::decision::Decision;
use crate::gcra::{self, Gcra, Tat};
use crate::key::KeyHash;
use crate::overflow::answer;
use crate::table::{Table, Update};

use block::Block;
use check::Used;
pub(crate) use check::{Check, look};
use entry::{Entry, Filling, Lease, Sight};
use hand::{BACKING, HELD_SHARE, Held, Lender, MOST_HELD};
pub(crate) use seat::Seat;

/// The largest lease that can be asked for, in units.
pub const MAX_LEASE_UNITS: u64 = heat::MOST;

const _: () = assert!(MAX_LEASE_UNITS <= Decision::MOST_BESIDE);

/// The share of a burst that all leases of a key may hold together, as a divisor.
const SHARE: u64 = 16;

/// A smaller lease costs more than it saves.
const LEAST: u64 = 4;

/// Entries a stripe: 4 KiB, so that hot keys seldom meet and the stripe stays in the nearest cache.
const ENTRIES: usize = if cfg!(loom) { 1 } else { 64 };

/// Each stripe is looked through by a denial.
const MAX_STRIPES: usize = 64;

/// The leases of one limiter.
#[derive(Debug)]
pub struct Leases {
    /// A power of two of them.
    stripes: Box<[Stripe]>,
    /// The largest lease, in units.
    most: u64,
    /// The units of a lease that a thread holds in hand at most.
    most_held: u64,
    /// The units that a thread must have used for each one that it holds.
    backing: u32,
}

/// Begins a pair of cache lines, and fills such pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    entries: [Entry; ENTRIES],
}

impl Leases {
    /// Leases of up to `units`, for as many threads as run at once; `None` if they would be too small to pay.
    pub(crate) fn new(units: u64, gcra: &Gcra) -> Option<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::striped(units, gcra, threads.next_power_of_two().min(MAX_STRIPES))
    }

    /// As [`Leases::new`], with so many stripes: a power of two.
    fn striped(units: u64, gcra: &Gcra, count: usize) -> Option<Self> {
        let most = units.min(gcra.burst() / SHARE / count as u64).min(MAX_LEASE_UNITS);
        if most < LEAST {
            return None;
        }
        let entries = || core::array::from_fn(|_| Entry::new());
        let stripes = (0..count).map(|_| Stripe { entries: entries() }).collect();
        let most_held = (most / HELD_SHARE).min(MOST_HELD);
        Some(Self { stripes, most, most_held, backing: BACKING })
    }

    /// The largest lease, in units.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Decides by what the thread holds of the key or by the lease that its seat has for it, else by the key's word.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    pub(crate) fn decide(
        &self,
        seat: impl FnOnce() -> Seat,
        check: Check<'_, impl Fn() -> u64>,
    ) -> Decision {
        if let Some((entry, sight, block)) = self.held(check.key)
            && let Some(left) = block.take_whole(check.gcra, check.cost, check.now)
        {
            Held::leave(check.key, left);
            if let Some(tat) = check.word_of(block) {
                return check.gcra.leased(tat, check.now, left + entry.units_seen(sight, tat));
            }
        }
        self.decide_by_entry(seat(), &Check { ..check }).in_registers()
    }

    /// What the calling thread holds of a key, and the entry that it is of.
    #[inline]
    fn held(&self, key: KeyHash) -> Option<(&Entry, Sight, Block)> {
        let held = Held::of(key)?;
        // What is of another limiter may be of a stripe that is not here.
        let entry = self.stripes.get(held.stripe)?.entry(key);
        let sight = entry.see();
        (sight.epoch == held.epoch).then_some((entry, sight, held.block))
    }

    /// Looks at a key without charging it: its word, and what the thread has leased of it.
    #[inline(never)]
    pub(crate) fn peek(&self, seat: Seat, check: &Check<'_, impl Fn() -> u64>) -> Decision {
        let Check { gcra, table, key, now, .. } = *check;
        let tat = look(table, key, now);
        let decision = gcra.answer(Update::Unchanged { found: tat, now }, 0);
        if !decision.is_allowed() {
            return decision;
        }
        match self.own_units(seat, check, tat, now) {
            0 => decision,
            left => gcra.leased(tat, now, left),
        }
    }

    /// The units of the check's key that the thread, at this seat, has leased and may use.
    fn own_units<R>(&self, seat: Seat, check: &Check<'_, R>, tat: u64, now: u64) -> u64 {
        let entry = self.entry(seat, check.key);
        let lease = entry.lease_of(check.key).filter(|lease| entry.holds(*lease));
        let held = self.held(check.key).map(|(_, _, block)| block);
        let blocks = lease.map(|lease| lease.block).into_iter().chain(held);
        blocks.map(|block| usable(block, check.gcra, tat, now)).sum()
    }

    /// The units of a key, whose word is `tat`, that lie in leases or are held by the calling thread, and may be used at
    /// `now`.
    pub(crate) fn units(&self, gcra: &Gcra, key: KeyHash, tat: u64, now: u64) -> u64 {
        let leases = self.stripes.iter().filter_map(|stripe| stripe.entry(key).lease_of(key));
        let held = self.held(key).map(|(_, _, block)| block);
        let blocks = leases.map(|lease| lease.block).chain(held);
        blocks.map(|block| usable(block, gcra, tat, now)).sum()
    }

    /// Takes from the leases of a key whose word has been lowered to `tat` what lies beyond it, because
    /// later charges get those intervals anew; what threads are just taking or returning, they lose.
    pub(crate) fn lowered(&self, gcra: &Gcra, key: KeyHash, tat: u64) {
        for stripe in &self.stripes {
            let entry = stripe.entry(key);
            // Each turn but the last one follows a step of somebody else.
            while !entry.trim(key, gcra, tat) {}
        }
    }

    /// Gives the seat's leases back to their words, with what the thread holds right before them, where nothing has been
    /// charged behind them. Elsewhere that is in the lease again.
    pub(crate) fn give_back_all(&self, seat: Seat, gcra: &Gcra, table: &Table<Tat>) {
        let is_held = |key| Held::of(key).is_some_and(|held| held.block.units > 0);
        for entry in &self.stripe(seat).entries {
            if let Some(lease) = entry.lease()
                && (lease.block.units > 0 || is_held(lease.key()))
                && let Some(filling) = entry.begin(lease)
            {
                let whole = with_held(lease, &filling, gcra);
                if give_back(whole, &filling, gcra, table) {
                    filling.empty();
                } else {
                    filling.restore(whole);
                }
            }
        }
    }

    /// Decides where the thread holds nothing, or too little, or what is void or has drained in part.
    #[cold]
    #[inline(never)]
    fn decide_by_entry(&self, seat: Seat, check: &Check<'_, impl Fn() -> u64>) -> Decision {
        if let Some(decision) = self.use_rest(check) {
            return decision;
        }
        let entry = self.entry(seat, check.key);
        if let Some((used, apart)) = self.use_lease(seat, entry, check)
            && let Some(tat) = check.settle(entry, used)
        {
            let apart = apart.map_or(0, |block| usable(block, check.gcra, tat, check.now));
            return check.gcra.leased(tat, check.now, used.left + apart);
        }
        self.decide_by_word(seat, check)
    }

    /// Uses what the thread holds, of which some has drained.
    #[inline]
    fn use_rest(&self, check: &Check<'_, impl Fn() -> u64>) -> Option<Decision> {
        let (entry, sight, block) = self.held(check.key)?;
        let left = block.take_rest(check.gcra, check.cost, check.now)?;
        Held::leave(check.key, left);
        let tat = check.settle(entry, Used { block, left })?;
        Some(check.gcra.leased(tat, check.now, left + entry.units_seen(sight, tat)))
    }

    /// Uses the lease of the seat's entry, with what the thread holds right before it, and takes some of what is left in
    /// hand. Returns also what the thread holds apart from the lease.
    #[inline]
    fn use_lease<R>(
        &self,
        seat: Seat,
        entry: &Entry,
        check: &Check<'_, R>,
    ) -> Option<(Used, Option<Block>)> {
        let Check { gcra, key, cost, now, .. } = *check;
        let sight = entry.see();
        let lease = entry.lease_seen(sight, key)?;
        let held = Held::of(key).filter(|held| held.epoch == sight.epoch).map(|held| held.block);
        let (before, apart) = match held {
            Some(held) if held.end == lease.block.start(gcra) => (held.units, None),
            held => (0, held.filter(|held| held.undrained(gcra, now) > 0)),
        };
        let block = Block { units: before + lease.block.units, ..lease.block };
        let left = block.take(gcra, cost, now)?;
        if left + cost < block.units {
            Held::lost(key);
        }
        let may_hold = match apart {
            None => self.turn_to(key, before, sight),
            Some(_) => None,
        };
        // What the thread holds already never goes back: within its generation a lease only becomes less.
        let most =
            may_hold.unwrap_or(0).min(self.most_held).max(left.saturating_sub(lease.block.units));
        let taken = left.min(most);
        if !entry.leave(lease, left - taken) {
            seat.move_on();
            return None;
        }
        if may_hold.is_some() {
            let stripe = seat.among(self.stripes.len());
            let block = block.first(gcra, left, taken);
            Held { stripe, epoch: sight.epoch, block }.take(key, cost);
        }
        Some((Used { block, left }, apart))
    }

    /// See [`Held::turn_to`].
    fn turn_to(&self, key: KeyHash, before: u64, sight: Sight) -> Option<u64> {
        Held::turn_to(key, Lender::at(&self.stripes), sight.epoch, before, self.backing)
    }

    /// Decides where the seat has leased too little or nothing.
    #[inline(never)]
    fn decide_by_word(&self, seat: Seat, check: &Check<'_, impl Fn() -> u64>) -> Decision {
        if let Some(decision) = self.refill(seat, check) {
            return decision;
        }
        let update = check.update(|tat, now| check.gcra.admit(tat, now, check.cost));
        if let Update::Unchanged { found, now } = update
            && let Some(decision) = self.use_others(found, now, check)
        {
            return decision;
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

    /// Charges the check and a new lease at once. `None` if there is to be none.
    fn refill(&self, seat: Seat, check: &Check<'_, impl Fn() -> u64>) -> Option<Decision> {
        let entry = self.entry(seat, check.key);
        let wanted = entry.heat.backed(check.key).min(self.most);
        if wanted < LEAST {
            return None;
        }
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
        let is_own = old.is_of(check.key);
        let whole = if is_own { old } else { with_held(old, &filling, check.gcra) };
        if whole.block.units > 0 && !give_back(whole, &filling, check.gcra, check.table) {
            Held::lost(whole.key());
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
        let held = self.held(check.key);
        let held = held.map_or(0, |(_, _, block)| usable(block, check.gcra, before, now));
        Some(check.gcra.leased(end, now, units + held))
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

/// The units of a block that a check may use whose key has this word; none if the key has been forgotten since.
#[inline]
fn usable(block: Block, gcra: &Gcra, tat: u64, now: u64) -> u64 {
    if block.is_covered(tat) { block.undrained(gcra, now) } else { 0 }
}

/// A lease that the caller has ended, with what it holds right before it, and holds no longer.
fn with_held(lease: Lease, filling: &Filling<'_>, gcra: &Gcra) -> Lease {
    let held = Held::before(gcra, lease.block, lease.key(), filling.epoch());
    if held > 0 {
        Held::put_down(lease.key());
    }
    lease.with_units(lease.block.units + held)
}

/// Takes the charge of units that the caller alone has back from their word, if it was the last.
///
/// Then nobody has an interval behind theirs, and later charges get theirs anew. A word that was
/// lowered and has grown to the same value again is told by the entry, which was spoiled.
fn give_back(lease: Lease, filling: &Filling<'_>, gcra: &Gcra, table: &Table<Tat>) -> bool {
    let end = lease.block.end;
    let start = lease.block.start(gcra);
    let lower = |tat, _| (tat == end && filling.is_whole()).then_some(start);
    let update = table.home(lease.key()).update(start, || start, lower);
    matches!(update, Update::Written { .. })
}
