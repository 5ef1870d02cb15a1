//! What ends leases before they are used up: their return, a refund, and a reset.
//!
//! # What a refund does to leases
//! A refund of `c` units lowers the word by `c` intervals. Where some of these are of leased units,
//! those units are void, because their intervals will be charged again. If that were all, the
//! refund would free units in the word and destroy as many in leases: it would give back nothing.
//! So the thread *recalls* each lease that ends beyond the new value: it ends the lease, which
//! leaves the remaining units to this thread alone, and lowers the word by these units as well. In
//! total the word falls by `c` and by what was recalled. What has been used is what the word counts
//! as charged less what is left in leases, so it falls by `c`.
//!
//! * Each such step may make another lease void, so all leases are looked at again until none is
//!   recalled.
//! * Charges behind freed intervals count as moved up into them. A recalled unit that would have
//!   expired in its new interval is not given back, since its debt has drained.
//! * A lease is busy until its recall is complete. A reset meanwhile poisons it: then nothing of it
//!   is given back, since the reset has forgotten its charge.

use core::cell::Cell;

use crate::base::key::KeyHash;
use crate::base::stripe::Seat;
use crate::base::word::{State, Update};
use crate::rule::gcra::Gcra;
use crate::table::Table;

use super::Leases;
use super::block::Block;
use super::check::note_lost;
use super::entry::{Entry, Filling, Lease};
use super::magazine::CachedUnits;
use super::returned::{give_back, with_cached};

impl Leases {
    /// Gives the stripe's leases back to their words, with the cached units that precede them,
    /// where nothing has been charged behind them; elsewhere these units are back in the lease.
    pub(crate) fn give_back_all(&self, seat: Seat, gcra: &Gcra, table: &Table<impl State>) {
        let is_cached = |key| CachedUnits::of(key).is_some_and(|cached| cached.block.units > 0);
        for entry in &self.stripe(seat).entries {
            let used = |lease: &Lease| lease.block.units > 0 || is_cached(lease.key());
            let Some(lease) = entry.lease().filter(used) else { continue };
            let Some(filling) = entry.begin(lease) else { continue };
            let whole = with_cached(lease, &filling, gcra);
            if give_back(whole, &filling, gcra, table) {
                filling.empty();
            } else if !filling.restore(whole) {
                entry.heat.lost(lease.key(), whole.block.units);
                CachedUnits::lost(lease.key());
            }
        }
    }

    /// Revokes all leases of a key that has been reset; what threads are just taking or returning
    /// is lost.
    pub(crate) fn revoke(&self, key: KeyHash) {
        for stripe in &self.stripes {
            if let Some((_, filling)) = stripe.entry(key).recall(key, 0, u64::MAX) {
                filling.revoke();
                filling.empty();
            }
        }
    }

    /// Recalls the leases of a key whose word a refund has lowered to before their ends: ends them,
    /// because later charges get those intervals again, and lowers the word by what was left of
    /// them. What threads are just taking or returning is lost, and what other threads have
    /// cached.
    pub(crate) fn recall(
        &self,
        seat: Seat,
        refund: &Refund<'_, impl State, impl Fn() -> u64>,
        mut lowered: Lowered,
    ) {
        let key = refund.key;
        let units = (lowered.from - lowered.to) / refund.gcra.interval();
        self.entry(seat, key).heat.refunded(key, units);
        // What is given back may move the word to before the end of a lease that has been looked at
        // already. Each pass that gives back ends a lease, so more passes than stripes come of
        // leases that are taken meanwhile: the last pass gives nothing back, so there is an end.
        for passes_left in (0..=self.stripes.len()).rev() {
            let mut gave_back = false;
            for stripe in &self.stripes {
                let entry = stripe.entry(key);
                if let Some((lease, filling)) = entry.recall(key, lowered.to, lowered.from) {
                    let ended = Recalled { entry, lease, filling };
                    gave_back |= refund.give_back(ended, &mut lowered, passes_left > 0);
                }
            }
            if !gave_back {
                return;
            }
        }
    }
}

/// By how much a word has been lowered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lowered {
    /// The largest value from which it was.
    pub(crate) from: u64,
    /// The least value to which it was.
    pub(crate) to: u64,
}

/// A key of which units are given back. `now` reads the clock.
pub(crate) struct Refund<'l, S, N> {
    pub(crate) gcra: &'l Gcra,
    pub(crate) table: &'l Table<S>,
    pub(crate) key: KeyHash,
    pub(crate) now: N,
}

/// A lease that was ended for a refund, and its entry.
struct Recalled<'e> {
    entry: &'e Entry,
    lease: Lease,
    filling: Filling<'e>,
}

impl<S: State, N: Fn() -> u64> Refund<'_, S, N> {
    /// Lowers the word, which this thread has `lowered`, by what was left of a lease and by what
    /// the thread has cached of it, if it `may`; returns whether it did.
    fn give_back(&self, ended: Recalled<'_>, lowered: &mut Lowered, may: bool) -> bool {
        let Self { gcra, table, key, ref now } = *self;
        let Recalled { entry, lease, filling } = ended;
        let cached = CachedUnits::of(key)
            .filter(|cached| cached.epoch == filling.epoch()) // L14
            .filter(|cached| cached.block.end <= lowered.from);
        filling.revoke();
        if cached.is_some() {
            CachedUnits::put_back(key, filling.epoch());
        }
        let after = Cell::new(None);
        let lower = |tat: u64, _| {
            // Read after the word: what had not drained by then had not when the word became this.
            let now = now();
            let cached = cached.map_or(0, |cached| cached.block.unexpired(gcra, now));
            let whole = Block { units: lease.block.units + cached, ..lease.block };
            // What is behind intervals that are free again has moved to them.
            let units = whole.unexpired_before(gcra, tat.min(lowered.to), now);
            let lowers = may && units > 0 && filling.is_whole();
            after.set(lowers.then(|| tat - units * gcra.interval()));
            after.get()
        };
        let update = table.home(key).update(now(), now, lower);
        filling.empty();

        let all = lease.block.units + cached.map_or(0, |cached| cached.block.units);
        let (Update::Written { before, .. }, Some(after)) = (update, after.get()) else {
            note_lost(entry, key, all);
            return false;
        };
        let returned = (before - after) / gcra.interval();
        entry.heat.recalled(key, returned);
        note_lost(entry, key, all - returned);
        *lowered = Lowered { from: lowered.from.max(before), to: lowered.to.min(after) };
        true
    }
}
