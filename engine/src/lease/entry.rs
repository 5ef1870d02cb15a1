//! One entry: who may use the units of a lease, and how an entry passes to another one.
//!
//! ```text
//! state   generation (46) | spoiled (1) | busy (1) | units left (16)
//! ```
//!
//! A *generation* counts the leases an entry has held. Key and end belong to the state's generation
//! and are written only while it is busy, by the thread that made it so. Within a generation the
//! units only become fewer, and 2^46 leases take years; so a compare-and-swap on the state that
//! succeeds proves that key and end, read after the state, were its own.
//!
//! Who lowers the word of a key takes from its leases what lies beyond the new value. An entry that is
//! busy then is *spoiled*: what comes of it may have been charged before, so it ends empty. Charges follow
//! the step that makes an entry busy, so whoever lowers the word after a charge finds the lease it became,
//! or the entry busy.
//!
//! What threads hold of a lease in hand (`hand.rs`) lies before what is left of it, and is theirs while the entry has
//! the epoch that they read before they took it. To end that is to *recall* it. An entry is recalled before it
//! passes to another key, so at any time it tells about one key only; and by who lowers that key's word to
//! before what is left, or finds the entry busy.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | L1 state, read | acquire | publish (L5), L9 | an older lease's key or end: units are used for another key or twice, returned to another key, or not taken from a key that is reset | `lease-state-relaxed`, `lease-state-passed-on-relaxed`, `lease-state-trimmed-relaxed` |
//! | L2 key and end, read | acquire | fill (L4) | L6 may miss that the entry was passed on, and a look reports another lease's units. A use needs it not: its compare-and-swap fails | `lease-key-relaxed`, `lease-end-relaxed` |
//! | L3 state, use and begin | relaxed | none: a read-modify-write continues the release sequence of L5 | - | `lease-use-stored` |
//! | L4 key and end, fill | release | L2; orders L3 before them | as L2 | `lease-fill-key-relaxed`, `lease-fill-end-relaxed` |
//! | L5 state, publish | release | L1 | as L1; also, who finds the lease may not see the charge it was made of | `lease-publish-relaxed` |
//! | L6 state, second look | relaxed | ordered after L2 by its acquire | - | `lease-look-without-second` |
//! | L7 begin before the charge | by U5, which releases; where the charge is a claim, by C4 and again by C6, either of which is enough | U2 of who lowers the key's word | who lowers the word after a charge may find the entry as it was before: units that were charged before a reset outlive it | `lease-charged-before-it-is-busy`; of a claim no single weakening does, `lease-claimed-beyond-a-reset` leaves it unspoiled |
//! | L8 state, spoil | relaxed | L5 is a compare-and-swap and fails | - | `lease-taken-beyond-a-reset` |
//! | L9 state, end of a spoiled one | release | L1 of who passes the entry on | its key and end may come after those of the next lease, which then is another key's | `lease-spoiled-relaxed` |
//! | L10 epoch, read | acquire; before L3 | recall (L11) | units that are taken while their key's word is lowered may be dated by the very recall that ends them | `lease-taken-before-the-epoch` swaps them; a relaxed read could only be seen if a load took what a later store writes (load buffering), which loom does not run |
//! | L11 epoch, recall | release | L10 | as L10 | as L10 |
//! | L12 recall before the key, fill | by L4, which releases | L2 of who lowers the word | who finds the entry passed on may not see that what threads hold is void, and they use it after a reset | `lease-recalled-after-the-key` |
//! | L13 key, read by who publishes | relaxed | who wrote it: L1 of the lease that was ended to get here | - | - |
//! | L14 epoch, read by who has ended the lease | as L10 | L11 of who then finds the entry busy, or the state changed | what is held of a lease is returned although its key's word is being lowered | `lease-held-and-returned` leaves it in hand |

use crate::gcra::Gcra;
use crate::key::KeyHash;
use crate::sync::{AtomicU64, Ordering};

use super::block::Block;
use super::heat::Heat;

const UNITS_BITS: u32 = 16;
const UNITS_MASK: u64 = (1 << UNITS_BITS) - 1;
const BUSY: u64 = 1 << UNITS_BITS;
const SPOILED: u64 = BUSY << 1;
const GENERATION: u64 = SPOILED << 1;

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

/// Until when units that were taken out of an entry are charged. Once it has held a lease, no two entries, and no entry
/// twice, have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    fn fresh() -> Self {
        /// Tells numbers apart and orders nothing, so no model needs to see it.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
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
pub(super) struct Sight {
    state: State,
    pub(super) epoch: Epoch,
}

/// An entry's lease as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    state: State,
    key: u64,
    pub(super) block: Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64);

impl State {
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

    /// A busy state of which nothing may come.
    const fn spoiled(self) -> Self {
        Self(self.0 | SPOILED)
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

    /// The same lease with so many units that end when its last one does.
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
    fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// How the entry stands, for who uses its lease.
    #[inline]
    pub(super) fn see(&self) -> Sight {
        Sight { state: self.state(), epoch: self.epoch() }
    }

    /// The units of the lease that was seen, if a word that is `tat` counts them as charged. They are of the key whose
    /// units the epoch is of, unless that is over.
    #[inline]
    pub(super) fn units_seen(&self, sight: Sight, tat: u64) -> u64 {
        if self.end.load(Ordering::Relaxed) <= tat { sight.state.units() } else { 0 }
    }

    /// Voids what threads hold in hand of the entry.
    fn recall(&self) {
        self.epoch.store(Epoch::fresh().0, Ordering::Release);
    }

    /// The lease, with units or without; `None` while another thread is busy with the entry.
    #[inline]
    pub(super) fn lease(&self) -> Option<Lease> {
        let state = State(self.state.load(Ordering::Acquire));
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

    /// The same of an entry that has been looked at.
    pub(super) fn lease_seen(&self, sight: Sight, key: KeyHash) -> Option<Lease> {
        self.lease_of_in(sight.state, key)
    }

    #[inline]
    fn lease_of_in(&self, state: State, key: KeyHash) -> Option<Lease> {
        // A busy state has none.
        if state.units() == 0 {
            return None;
        }
        let lease = self.lease_in(state);
        lease.is_of(key).then_some(lease)
    }

    #[inline]
    fn lease_in(&self, state: State) -> Lease {
        let key = self.key.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        Lease { state, key, block: Block { end, units: state.units() } }
    }

    /// Whether the lease is as it was read, and so was read as one.
    pub(super) fn holds(&self, lease: Lease) -> bool {
        self.state.load(Ordering::Relaxed) == lease.state.0
    }

    /// Leaves so many units of the lease; `false` when somebody else was there first.
    #[inline]
    #[must_use]
    pub(super) fn leave(&self, lease: Lease, left: u64) -> bool {
        debug_assert!(left <= lease.block.units, "a lease becomes more in its generation");
        let left = lease.state.with_units(left);
        self.state
            .compare_exchange(lease.state.0, left.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes from the lease of `key`, and from what threads hold of it, what lies beyond `tat`, and spoils what another
    /// thread is busy with here; `false` when somebody else was there first.
    #[must_use]
    pub(super) fn trim(&self, key: KeyHash, gcra: &Gcra, tat: u64) -> bool {
        let state = State(self.state.load(Ordering::Acquire));
        if state.is_busy() {
            self.recall();
            let (from, to) = (state.0, state.spoiled().0);
            return self
                .state
                .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        }
        // What is read here may be of two leases. Then the entry was passed on after the state was read, so the new
        // lease was charged after the word was lowered, and needs no trimming.
        let lease = self.lease_in(state);
        if !lease.is_of(key) || lease.block.is_covered(tat) {
            return true;
        }
        if tat < lease.block.start(gcra) {
            self.recall();
        }
        let kept = lease.block.up_to(gcra, tat);
        self.begin(lease).map(|filling| filling.publish(key, kept)).is_some()
    }

    /// Ends the lease, whose units are the caller's from here on, and makes the entry busy.
    pub(super) fn begin(&self, lease: Lease) -> Option<Filling<'_>> {
        let busy = lease.state.begun();
        self.state
            .compare_exchange(lease.state.0, busy.0, Ordering::Relaxed, Ordering::Relaxed)
            .ok()?;
        Some(Filling { entry: self, busy })
    }
}

/// An entry that this thread alone may write. Others find no lease there until it is finished; they
/// decide by the key's word meanwhile, so a thread that stops here keeps nobody waiting.
#[must_use = "an entry stays busy until it is published or emptied"]
pub(super) struct Filling<'e> {
    entry: &'e Entry,
    busy: State,
}

impl Filling<'_> {
    /// The entry's.
    pub(super) fn epoch(&self) -> Epoch {
        self.entry.epoch()
    }

    /// Puts a lease of `key` into the entry, unless it has been spoiled: `false`, and it is empty.
    pub(super) fn publish(self, key: KeyHash, block: Block) -> bool {
        if self.entry.key.load(Ordering::Relaxed) != key.to_bits() {
            self.entry.recall();
        }
        self.entry.key.store(key.to_bits(), Ordering::Release);
        self.entry.end.store(block.end, Ordering::Release);
        self.finish(block.units)
    }

    /// Puts back the units of the lease that the entry held before, unless it has been spoiled.
    pub(super) fn restore(self, lease: Lease) {
        self.finish(lease.block.units);
    }

    /// Leaves the entry without a lease.
    pub(super) fn empty(self) {
        self.finish(0);
    }

    /// Whether nobody has spoiled the entry yet.
    pub(super) fn is_whole(&self) -> bool {
        self.entry.state.load(Ordering::Relaxed) == self.busy.0
    }

    fn finish(self, units: u64) -> bool {
        let (busy, state) = (self.busy, &self.entry.state);
        let finished = state
            .compare_exchange(busy.0, busy.published(units).0, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if !finished {
            // Nobody else ends what is spoiled.
            state.store(busy.published(0).0, Ordering::Release);
        }
        finished
    }
}
