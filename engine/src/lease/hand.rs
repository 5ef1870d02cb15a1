//! What a thread holds in hand: units that it takes out of a lease together with one that it uses, and uses next without
//! an atomic step.
//!
//! What is held are the first units of their lease, and the thread's alone. Others do not find them there, so it is a
//! small part of the largest lease. It may be used while the lease's entry has the *epoch* that it had before: who
//! lowers the key's word to below these units gives the entry another one, as does who passes it on to another key
//! (`entry.rs`). No two entries ever have the same epoch, so what was taken out of a limiter that is gone is used in no
//! other.
//!
//! What a thread holds when it ends, or is void, or has to make room for another key's or another stripe's, is lost to
//! everybody. So a unit is held only for each [`BACKING`] that the thread has used of leases of the key since it last
//! lost one.

use core::cell::Cell;

use crate::gcra::Gcra;
use crate::key::KeyHash;

use super::block::Block;
use super::entry::Epoch;

/// The most units that are held.
pub(super) const MOST_HELD: u64 = 31;

/// The share of the largest lease that is held at most, as a divisor.
pub(super) const HELD_SHARE: u64 = 4;

/// Units that a thread must have used for each unit it may hold. At most this share of what it uses can be lost in hand.
pub(super) const BACKING: u32 = 32;

/// A hand is given to another key once it has been in the way of others so many times since units were last taken.
const PATIENCE: u16 = 64;

/// Keys of which a thread can hold units at once.
const HANDS: usize = 8;

/// No key's hash: none has a tag of 0.
const NOBODY: KeyHash = KeyHash::from_parts(0, 0);

/// What is held of one key of one limiter.
#[derive(Debug)]
#[repr(align(64))]
struct Hand {
    /// [`NOBODY`] where nothing was held yet.
    key: Cell<KeyHash>,
    epoch: Cell<u64>,
    end: Cell<u64>,
    stripe: Cell<u16>,
    /// Times that the hand was in another key's way since units were last taken.
    passed: Cell<u16>,
    units: Cell<u32>,
    /// Units that were taken last.
    taken: Cell<u32>,
    /// Units of leases of the key that were used since one was lost, but those taken last.
    used: Cell<u32>,
    lender: Cell<Lender>,
}

/// The limiter of which units are held: where its stripes lie. Another one may lie there later; epochs tell their units
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lender(usize);

impl Lender {
    pub(super) fn at<T>(stripes: &[T]) -> Self {
        Self(stripes.as_ptr().addr())
    }
}

const _: () = assert!(MOST_HELD <= u32::MAX as u64 && super::MAX_STRIPES <= u16::MAX as usize);

#[cfg(not(loom))]
thread_local! {
    static HANDS_HERE: [Hand; HANDS] = const { [const { Hand::new() }; HANDS] };
}
#[cfg(loom)]
loom::thread_local! {
    static HANDS_HERE: [Hand; HANDS] = [const { Hand::new() }; HANDS];
}

/// What the calling thread holds of a key, out of an entry of some limiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) stripe: usize,
    /// The entry's, before the units were taken.
    pub(super) epoch: Epoch,
    /// With units or without.
    pub(super) block: Block,
}

impl Held {
    #[inline]
    pub(super) fn of(key: KeyHash) -> Option<Self> {
        Hand::with(key, |hand| (hand.key.get() == key).then(|| hand.held()))
    }

    /// The units that are held of an entry's lease of `key` and lie right before what is left of it: all, unless others
    /// have used some in between.
    #[inline]
    pub(super) fn before(gcra: &Gcra, lease: Block, key: KeyHash, epoch: Epoch) -> u64 {
        let is_before = |held: &Self| held.epoch == epoch && held.block.end == lease.start(gcra);
        Self::of(key).filter(is_before).map_or(0, |held| held.block.units)
    }

    /// Leaves so many units of what is held of `key`.
    #[inline]
    pub(super) fn leave(key: KeyHash, units: u64) {
        Hand::with(key, |hand| hand.units.set(units as u32));
    }

    /// How many units of `key` the thread may hold from here on, out of an entry with this epoch, if `before` of those
    /// that it holds are all that is left of them. `None` if it is to hold what it does: the hand is another key's, or
    /// another limiter's.
    pub(super) fn turn_to(
        key: KeyHash,
        lender: Lender,
        epoch: Epoch,
        before: u64,
        backing: u32,
    ) -> Option<u64> {
        Hand::with(key, |hand| {
            if hand.key.get() != key || hand.lender.get() != lender {
                if !hand.may_pass() {
                    return None;
                }
                hand.key.set(key);
                hand.lender.set(lender);
                hand.lose();
            } else if hand.epoch.get() == epoch.get() && u64::from(hand.units.get()) == before {
                hand.count(hand.taken.get() - hand.units.get());
            } else {
                hand.lose();
            }
            hand.taken.set(hand.units.get());
            Some(hand.used.get().checked_div(backing).map_or(u64::MAX, u64::from))
        })
    }

    /// Holds nothing of `key` any more, and has not lost it.
    pub(super) fn put_down(key: KeyHash) {
        Hand::with(key, |hand| {
            hand.count(hand.taken.get() - hand.units.get());
            hand.units.set(0);
            hand.taken.set(0);
        });
    }

    /// Notes that units of `key` that the thread had leased are lost.
    pub(super) fn lost(key: KeyHash) {
        Hand::with(key, |hand| {
            if hand.key.get() == key {
                hand.used.set(0);
                hand.taken.set(hand.units.get());
            }
        });
    }

    /// Holds this, in place of what was held, after `cost` units have been used. The hand is the key's: see
    /// [`Held::turn_to`].
    pub(super) fn take(self, key: KeyHash, cost: u64) {
        Hand::with(key, |hand| {
            let units = self.block.units as u32;
            hand.epoch.set(self.epoch.get());
            hand.end.set(self.block.end);
            hand.stripe.set(self.stripe as u16);
            hand.units.set(units);
            hand.taken.set(units);
            hand.passed.set(0);
            hand.count(u32::try_from(cost).unwrap_or(u32::MAX));
        });
    }
}

impl Hand {
    const fn new() -> Self {
        Self {
            key: Cell::new(NOBODY),
            epoch: Cell::new(0),
            end: Cell::new(0),
            stripe: Cell::new(0),
            passed: Cell::new(0),
            units: Cell::new(0),
            taken: Cell::new(0),
            used: Cell::new(0),
            lender: Cell::new(Lender(0)),
        }
    }

    /// Counts that the hand is in the way of another key, and whether it has been for long: keys that are asked for
    /// about as often do not lose each other's units.
    fn may_pass(&self) -> bool {
        let passed = self.passed.get() + 1;
        let may_pass = self.key.get() == NOBODY || passed > PATIENCE;
        self.passed.set(if may_pass { 0 } else { passed });
        may_pass
    }

    fn count(&self, units: u32) {
        self.used.set(self.used.get().saturating_add(units));
    }

    /// Holds nothing, and that after a loss.
    fn lose(&self) {
        self.units.set(0);
        self.used.set(0);
    }

    #[inline]
    fn held(&self) -> Held {
        Held {
            stripe: self.stripe.get().into(),
            epoch: Epoch::of(self.epoch.get()),
            block: Block { end: self.end.get(), units: self.units.get().into() },
        }
    }

    #[inline]
    fn place(key: KeyHash) -> usize {
        key.tag() as usize % HANDS
    }

    /// Acts on the calling thread's hand for `key`.
    #[inline]
    fn with<T>(key: KeyHash, act: impl FnOnce(&Self) -> T) -> T {
        HANDS_HERE.with(|hands| act(&hands[Self::place(key)]))
    }
}

/// What a thread holds while another one is played by the same thread of a test.
#[cfg(all(test, not(any(loom, interleave))))]
#[derive(Debug)]
pub(super) struct Hands([Hand; HANDS]);

#[cfg(all(test, not(any(loom, interleave))))]
impl Hands {
    pub(super) fn empty() -> Self {
        Self([const { Hand::new() }; HANDS])
    }

    /// Exchanges these for what the calling thread holds.
    pub(super) fn swap(&self) {
        HANDS_HERE.with(|here| {
            for (one, other) in here.iter().zip(&self.0) {
                one.key.swap(&other.key);
                one.epoch.swap(&other.epoch);
                one.end.swap(&other.end);
                one.stripe.swap(&other.stripe);
                one.passed.swap(&other.passed);
                one.units.swap(&other.units);
                one.taken.swap(&other.taken);
                one.used.swap(&other.used);
                one.lender.swap(&other.lender);
            }
        });
    }
}
