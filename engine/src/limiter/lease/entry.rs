//! One entry of a stripe: the states of its lease, and the steps between them.
//!
//! ```text
//! state   generation (46) | poisoned (1) | busy (1) | units left (16)
//! ```
//!
//! | state | lease | owner of key and end |
//! |---|---|---|
//! | free: not busy, no units left | none, or one that is used up | none: they do not change |
//! | leased: not busy, units left | any thread may use its units | none: they do not change |
//! | busy | none. The thread that made the entry busy owns the units of the lease it ended | that thread |
//! | poisoned: busy, and a word was lowered meanwhile | none, and none may come of it | that thread |
//!
//! | step | from | to | which thread |
//! |---|---|---|---|
//! | `leave` | leased | fewer units of the same generation | any that uses units (L3) |
//! | `begin` | free, leased | busy, the next generation | any that is to replace, return or recall the lease (L3) |
//! | `publish`, `restore`, `empty` | busy | leased, free | the one that made it busy (L5) |
//! | poisoning, in `recall` | busy | poisoned | any that has lowered a key's word (L8) |
//! | the end of a poisoned entry | poisoned | free | the one that made it busy (L9) |
//!
//! All but the last are compare-and-swaps from the state that was read. Threads that find an entry
//! busy wait for nothing: they decide by the key's word.
//!
//! # Why a use is of the lease that was read
//! A *generation* counts the leases an entry has held. Key and end belong to the state's generation
//! and are written only while it is busy, by the thread that made it so. Within a generation the
//! units only become fewer, and 2^46 leases take years; so a compare-and-swap on the state that
//! succeeds proves that key and end, read after the state, were its own.
//!
//! # Why no unit outlives a lowered word
//! A thread that lowers the word of a key then ends the key's leases that end beyond the new value:
//! `recall`. If it finds the entry busy it poisons it: what comes of the entry may have been
//! charged before, so it ends empty. Charges follow the step that makes an entry busy (L7), so a
//! thread that lowers the word after a charge finds the lease it became, or the entry busy.
//!
//! Cached units (`magazine.rs`) precede what is left of their lease, and are valid while the entry
//! has the epoch that was read before they were taken. To end the epoch is to *revoke* them. That
//! is done before an entry passes to another key, so an epoch is about one key only; and by a
//! thread that recalls the lease, after it has ended it, or finds the entry busy.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | L1 state, read | acquire | publish (L5), L9 | an older lease's key or end: units are used for another key or twice, returned to another key, or kept of a key that is reset | `lease-state-relaxed`, `lease-state-passed-on-relaxed`, `lease-state-recalled-relaxed` |
//! | L2 key and end, read | acquire | fill (L4) | L6 may miss that the entry was passed on, and a peek reports another lease's units. A use does not need it: its compare-and-swap fails | `lease-key-relaxed`, `lease-end-relaxed` |
//! | L3 state, use and begin | relaxed | none: a read-modify-write continues the release sequence of L5 | - | `lease-use-stored` |
//! | L4 key and end, fill | release | L2; orders L3 before them | as L2 | `lease-fill-key-relaxed`, `lease-fill-end-relaxed` |
//! | L5 state, publish | release | L1 | as L1; also, a thread that finds the lease may not see the charge it was made of | `lease-publish-relaxed` |
//! | L6 state, second read | relaxed | ordered after L2 by its acquire | - | `lease-peek-without-second-read` |
//! | L7 begin before the charge | by U5 (`table/mod.rs`), which releases; where the charge is a claim, by C4 and again by C6 (`table/claim.rs`), either of which is enough | U2 (`table/mod.rs`) of a thread that lowers the key's word | a thread that lowers the word after a charge may find the entry as it was before: units that were charged before a reset outlive it | `lease-charged-before-it-is-busy`; of a claim no single weakening does, `lease-claimed-beyond-a-reset` does not poison it |
//! | L8 state, poison | relaxed | L5 is a compare-and-swap and fails | - | `lease-taken-beyond-a-reset` |
//! | L9 state, end of a poisoned one | release | L1 of a thread that passes the entry on | its key and end may come after those of the next lease, which then is another key's | `lease-poisoned-relaxed` |
//! | L10 epoch, read | acquire; before L3 | revoke (L11), which follows the end of the lease | units that are taken while their key's word is lowered may get the very epoch that was to revoke them | `lease-taken-before-the-epoch` swaps them; a relaxed read could only be seen if a load took what a later store writes (load buffering), which loom does not run |
//! | L11 epoch, revoke | release | L10 | as L10 | as L10 |
//! | L12 revoke before the key, fill | by L4, which releases | L2 of a thread that lowers the word | a thread that finds the entry passed on may not see that cached units are void, and uses them after a reset | `lease-recalled-after-the-key` |
//! | L13 key, read before publishing | relaxed | its writer, by L1 of the lease that was ended | - | - |
//! | L14 epoch, read after ending the lease | as L10 | L11 of a thread that then finds the entry busy, or the state changed | cached units are returned although their key's word is being lowered | `lease-held-and-returned` leaves them in the magazine |
//! | L15 end, for `remaining` | relaxed | none: it decides nothing else | - | - |
//! | L16 state, read before a return | relaxed | none: a late value misses no more than a read made a moment earlier, see `mod.rs` | - | - |
//! | L17 numbers of epochs | relaxed | none: they are distinct, and order nothing | - | - |

use crate::base::key::KeyHash;
use crate::base::sync::{AtomicU64, Ordering};

use super::block::Block;
use super::heat::Heat;

const UNITS_BITS: u32 = 16;
const UNITS_MASK: u64 = (1 << UNITS_BITS) - 1;
const BUSY: u64 = 1 << UNITS_BITS;
const POISONED: u64 = BUSY << 1;
const GENERATION: u64 = POISONED << 1;

const _: () = assert!(super::heat::MOST <= UNITS_MASK);

/// At most one lease. Has a cache line of its own.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Entry {
    state: AtomicU64,
    epoch: AtomicU64,
    key: AtomicU64,
    end: AtomicU64,
    pub(super) heat: Heat,
}

/// Until when the units that were taken out of an entry into a magazine are valid. After an entry's
/// first lease, no two entries, and no entry twice, have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseEpoch(u64);

impl LeaseEpoch {
    fn fresh() -> Self {
        /// No model needs to see it: it orders nothing.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        // L17
        Self(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }

    #[inline]
    pub(super) const fn of(number: u64) -> Self {
        Self(number)
    }

    #[inline]
    pub(super) const fn get(self) -> u64 {
        self.0
    }
}

/// An entry's state and its epoch, read in this order.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryView {
    state: EntryState,
    pub(super) epoch: LeaseEpoch,
}

/// An entry's lease as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    state: EntryState,
    key: u64,
    pub(super) block: Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryState(u64);

impl EntryState {
    #[inline]
    const fn units(self) -> u64 {
        self.0 & UNITS_MASK
    }

    #[inline]
    const fn with_units(self, units: u64) -> Self {
        Self(self.0 - self.units() + units)
    }

    const fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// The next generation, busy.
    const fn begun(self) -> Self {
        Self((self.0 & !(UNITS_MASK | BUSY)).wrapping_add(GENERATION) | BUSY)
    }

    /// A busy state with its lease in place.
    const fn published(self, units: u64) -> Self {
        Self(self.0 & !BUSY | units)
    }

    /// A busy state that ends empty.
    const fn poisoned(self) -> Self {
        Self(self.0 | POISONED)
    }
}

impl Lease {
    #[inline]
    pub(super) fn is_of(self, key: KeyHash) -> bool {
        self.key == key.to_bits()
    }

    pub(super) fn key(self) -> KeyHash {
        KeyHash::from_bits(self.key)
    }

    /// The same lease with `units` units, of which the last ends when its last one does.
    pub(super) fn with_units(self, units: u64) -> Self {
        Self { block: Block { units, ..self.block }, ..self }
    }
}

impl Entry {
    /// Without a lease.
    pub(super) fn new() -> Self {
        let [state, epoch, key, end] = [0; 4].map(AtomicU64::new);
        Self { state, epoch, key, end, heat: Heat::new() }
    }

    #[inline]
    fn state(&self) -> EntryState {
        EntryState(self.state.load(Ordering::Acquire)) // L1
    }

    #[inline]
    pub(super) fn epoch(&self) -> LeaseEpoch {
        LeaseEpoch(self.epoch.load(Ordering::Acquire)) // L10, L14
    }

    /// State and epoch, for a use of the lease.
    #[inline]
    pub(super) fn see(&self) -> EntryView {
        EntryView { state: self.state(), epoch: self.epoch() }
    }

    /// The units of the lease that was seen, if a word of `tat` counts them as charged. While the
    /// entry has this epoch, they are units of the key whose cached units have it.
    #[inline]
    pub(super) fn units_seen(&self, view: EntryView, tat: u64) -> u64 {
        // L15
        if self.end.load(Ordering::Relaxed) <= tat { view.state.units() } else { 0 }
    }

    /// Makes void what threads have cached of the entry.
    fn revoke(&self) {
        self.epoch.store(LeaseEpoch::fresh().0, Ordering::Release); // L11
    }

    /// The lease, with units or without; `None` while another thread is busy with the entry.
    #[inline]
    pub(super) fn lease(&self) -> Option<Lease> {
        let state = EntryState(self.state.load(Ordering::Acquire)); // L1
        if state.is_busy() {
            return None;
        }
        Some(self.lease_in(state))
    }

    /// The lease of `key`, if it has units left.
    #[inline]
    pub(super) fn lease_of(&self, key: KeyHash) -> Option<Lease> {
        self.lease_of_in(self.state(), key)
    }

    /// The same of a state that was read before.
    pub(super) fn lease_seen(&self, view: EntryView, key: KeyHash) -> Option<Lease> {
        self.lease_of_in(view.state, key)
    }

    #[inline]
    fn lease_of_in(&self, state: EntryState, key: KeyHash) -> Option<Lease> {
        // A busy state has no units.
        if state.units() == 0 {
            return None;
        }
        let lease = self.lease_in(state);
        lease.is_of(key).then_some(lease)
    }

    #[inline]
    fn lease_in(&self, state: EntryState) -> Lease {
        let key = self.key.load(Ordering::Acquire); // L2
        let end = self.end.load(Ordering::Acquire); // L2
        Lease { state, key, block: Block { end, units: state.units() } }
    }

    /// Whether the lease is still as it was read, which proves that state, key and end were one
    /// lease's.
    pub(super) fn holds(&self, lease: Lease) -> bool {
        self.state.load(Ordering::Relaxed) == lease.state.0 // L6
    }

    /// Leaves `left` units of the lease, the others are the caller's; `false` when another thread
    /// changed the entry first.
    #[inline]
    #[must_use]
    pub(super) fn leave(&self, lease: Lease, left: u64) -> bool {
        debug_assert!(left <= lease.block.units, "a lease grows within its generation");
        let left = lease.state.with_units(left);
        self.state
            .compare_exchange(lease.state.0, left.0, Ordering::Relaxed, Ordering::Relaxed) // L3
            .is_ok()
    }

    /// Ends the lease of `key`, with units or without, if it ends beyond `to`, and poisons a busy
    /// entry. For a thread that has lowered the key's word from `from` to `to`.
    ///
    /// A lease with units that ends beyond `from` has been charged later, or before the key was
    /// evicted: only what threads have cached is made void, which may be of the lease before it.
    pub(super) fn recall(&self, key: KeyHash, to: u64, from: u64) -> Option<(Lease, Filling<'_>)> {
        // Lock-free: it repeats only after another thread has changed the entry.
        loop {
            let state = EntryState(self.state.load(Ordering::Acquire)); // L1
            if state.is_busy() {
                self.revoke();
                let (from, to) = (state.0, state.poisoned().0);
                let poisoned = self
                    .state
                    .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed) // L8
                    .is_ok();
                if poisoned {
                    return None;
                }
                continue;
            }
            // Key and end may be of two leases. Then the entry was passed on after the state was
            // read, so the new lease was charged after the word was lowered.
            let lease = self.lease_in(state);
            if !lease.is_of(key) || lease.block.is_covered(to) {
                return None;
            }
            if lease.block.units > 0 && lease.block.end > from {
                self.revoke();
                return None;
            }
            if let Some(filling) = self.begin(lease) {
                return Some((lease, filling));
            }
        }
    }

    /// Ends the lease and makes the entry busy; the lease's units are the caller's then. `None`
    /// when another thread changed the entry first.
    pub(super) fn begin(&self, lease: Lease) -> Option<Filling<'_>> {
        // L7: what the entry is to hold next is charged after this.
        let busy = lease.state.begun();
        self.state
            .compare_exchange(lease.state.0, busy.0, Ordering::Relaxed, Ordering::Relaxed) // L3
            .ok()?;
        Some(Filling { entry: self, busy })
    }
}

/// A busy entry, of which this thread alone may write key and end. Other threads find no lease in
/// it until it is finished, and decide by the key's word: one that stalls here blocks none.
#[must_use = "an entry stays busy until it is published or emptied"]
pub(super) struct Filling<'e> {
    entry: &'e Entry,
    busy: EntryState,
}

impl Filling<'_> {
    /// The entry's.
    pub(super) fn epoch(&self) -> LeaseEpoch {
        self.entry.epoch()
    }

    /// Puts a lease of `key` into the entry; `false` if it was poisoned, and is empty.
    pub(super) fn publish(self, key: KeyHash, block: Block) -> bool {
        // L13; what is cached is void before the entry has its next key (L12)
        if self.entry.key.load(Ordering::Relaxed) != key.to_bits() {
            self.entry.revoke();
        }
        self.entry.key.store(key.to_bits(), Ordering::Release); // L4
        self.entry.end.store(block.end, Ordering::Release); // L4
        self.finish(block.units)
    }

    /// Puts back the units of the lease that the entry held before; `false` if it was poisoned, and
    /// is empty.
    pub(super) fn restore(self, lease: Lease) -> bool {
        self.finish(lease.block.units)
    }

    /// Leaves the entry without a lease.
    pub(super) fn empty(self) {
        self.finish(0);
    }

    /// Makes void what threads have cached of the lease that was ended.
    pub(super) fn revoke(&self) {
        self.entry.revoke();
    }

    /// Whether the entry has not been poisoned yet.
    pub(super) fn is_whole(&self) -> bool {
        self.entry.state.load(Ordering::Relaxed) == self.busy.0 // L16
    }

    fn finish(self, units: u64) -> bool {
        let (busy, state) = (self.busy, &self.entry.state);
        let finished = state
            // L5
            .compare_exchange(busy.0, busy.published(units).0, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if !finished {
            // A poisoned state changes only here.
            state.store(busy.published(0).0, Ordering::Release); // L9
        }
        finished
    }
}
