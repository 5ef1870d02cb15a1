//! What a lease returns when it ends.

use crate::base::word::{State, Update};
use crate::rule::gcra::Gcra;
use crate::table::Table;

use super::entry::{Filling, Lease};
use super::magazine::CachedUnits;

/// A lease that the caller has ended, together with the cached units that precede it, which are
/// taken out of the magazine.
pub(super) fn with_cached(lease: Lease, filling: &Filling<'_>, gcra: &Gcra) -> Lease {
    let epoch = filling.epoch(); // L14
    let cached = CachedUnits::before(gcra, lease.block, lease.key(), epoch);
    if cached > 0 {
        CachedUnits::put_back(lease.key(), epoch);
    }
    lease.with_units(lease.block.units + cached)
}

/// Lowers the word by a lease whose units only the caller has, if its charge was the last one;
/// returns whether it was.
///
/// If it was, no interval follows those of the lease, which are free again for later charges. A
/// word that was lowered and has grown to the same value since is no exception: lowering it has
/// poisoned the entry, and so the lease is not whole.
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
