//! What ends leases before they are used up: their return, and a word that is lowered.

use crate::base::key::KeyHash;
use crate::base::stripe::Seat;
use crate::base::word::{State, Update};
use crate::rule::gcra::Gcra;
use crate::table::Table;

use super::Leases;
use super::entry::{Filling, Lease};
use super::hand::Held;

impl Leases {
    /// Gives the stripe's leases back to their words, with the units in hand that precede them,
    /// where nothing has been charged behind them; elsewhere these units are back in the lease.
    pub(crate) fn give_back_all(&self, seat: Seat, gcra: &Gcra, table: &Table<impl State>) {
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

    /// Revokes what is beyond `tat` of the leases of a key whose word has been lowered to it,
    /// because later charges get those intervals again; what threads are just taking or returning
    /// is lost.
    pub(crate) fn lowered(&self, gcra: &Gcra, key: KeyHash, tat: u64) {
        for stripe in &self.stripes {
            let entry = stripe.entry(key);
            // Lock-free: it repeats only after another thread has changed the entry.
            while !entry.trim(key, gcra, tat) {}
        }
    }
}

/// A lease that the caller has ended, together with the units in hand that precede it, which are in
/// hand no longer.
pub(super) fn with_held(lease: Lease, filling: &Filling<'_>, gcra: &Gcra) -> Lease {
    let held = Held::before(gcra, lease.block, lease.key(), filling.epoch());
    if held > 0 {
        Held::put_down(lease.key());
    }
    lease.with_units(lease.block.units + held)
}

/// Lowers the word by a lease whose units only the caller has, if its charge was the last one;
/// returns whether it was.
///
/// Then no interval follows theirs, and later charges get theirs again. If the word was lowered and
/// has grown to the same value since, the entry has been poisoned, and the charge is not the last.
pub(super) fn give_back(
    lease: Lease,
    filling: &Filling<'_>,
    gcra: &Gcra,
    table: &Table<impl State>,
) -> bool {
    let end = lease.block.end;
    let start = lease.block.start(gcra);
    let lower = |tat, _| (tat == end && filling.is_whole()).then_some(start);
    let update = table.home(lease.key()).update(start, || start, lower);
    matches!(update, Update::Written { .. })
}
