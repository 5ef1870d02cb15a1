//! What a thread holds in hand: units that it takes out of a lease together with one that it uses, and uses next without
//! an atomic step.
//!
//! What is held are the first units of their lease, and the thread's alone. Others do not find them there, so it is a
//! small part of a lease. It may be used while the lease's entry has the *epoch* that it had before: who lowers the key's
//! word to below these units gives the entry another one, as does who passes it on to another key (`entry.rs`). No two
//! entries ever have the same epoch, so what was taken out of a limiter that is gone is used in no other.
//!
//! What a thread holds when it ends, or wants to hold of another key, is put back (`lender.rs`).

use core::cell::Cell;

use crate::gcra::Gcra;
use crate::key::KeyHash;

use super::Stripes;
use super::block::Block;
use super::entry::Epoch;
#[cfg(not(loom))]
use super::lender;

/// The most units that are held.
pub(super) const MOST_HELD: u64 = 31;

/// The share of the largest lease that is held at most, as a divisor.
pub(super) const HELD_SHARE: u64 = 4;

/// What has been in the way of another key so many times, and was not used up in between, is put back.
const PATIENCE: u16 = 64;

/// Keys of which a thread can hold units at once.
pub(super) const HANDS: usize = 8;

/// The units of at most one key.
#[derive(Debug)]
struct Hand {
    /// 0 where nothing was held yet, which is no key's.
    key: Cell<u64>,
    epoch: Cell<u64>,
    end: Cell<u64>,
    stripe: Cell<u16>,
    units: Cell<u32>,
    /// Times another key's units would have been taken.
    passed: Cell<u16>,
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
        Hand::with(key, |hand| (hand.key.get() == key.to_bits()).then(|| hand.held()))
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

    /// Whether units of `key` may be taken out of these stripes, from a lease of which `held` units are held before.
    ///
    /// What else is held stays until it has been in the way for long, so that keys that take turns do not put it back each
    /// time.
    #[inline]
    pub(super) fn make_room(key: KeyHash, held: u64, stripes: &Stripes) -> bool {
        let is_free = Hand::with(key, |hand| {
            if u64::from(hand.units.get()) == held {
                return true;
            }
            hand.passed.set(hand.passed.get().saturating_add(1));
            hand.passed.get() > PATIENCE
        });
        is_free && Self::turn_to(key, held, stripes)
    }

    #[cfg(not(loom))]
    fn turn_to(key: KeyHash, held: u64, stripes: &Stripes) -> bool {
        let place = Hand::place(key);
        lender::note(place, stripes, held == 0)
    }

    /// Loom's threads put nothing back by themselves.
    #[cfg(loom)]
    fn turn_to(_: KeyHash, _: u64, _: &Stripes) -> bool {
        true
    }

    /// What is held at a place, and of which key; nothing is held there from here on.
    #[cfg(not(loom))]
    pub(super) fn let_go(place: usize) -> Option<(KeyHash, Self)> {
        let let_go = |hands: &[Hand; HANDS]| {
            let hand = &hands[place];
            let held = hand.held();
            hand.units.set(0);
            (held.block.units > 0).then(|| (KeyHash::from_bits(hand.key.get()), held))
        };
        // The thread may be ending.
        HANDS_HERE.try_with(let_go).ok().flatten()
    }

    /// Holds this, in place of what was held.
    #[inline]
    pub(super) fn take(self, key: KeyHash) {
        Hand::with(key, |hand| {
            hand.key.set(key.to_bits());
            hand.epoch.set(self.epoch.get());
            hand.end.set(self.block.end);
            hand.stripe.set(self.stripe as u16);
            hand.units.set(self.block.units as u32);
            hand.passed.set(0);
        });
    }
}

impl Hand {
    const fn new() -> Self {
        Self {
            key: Cell::new(0),
            epoch: Cell::new(0),
            end: Cell::new(0),
            stripe: Cell::new(0),
            units: Cell::new(0),
            passed: Cell::new(0),
        }
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
                one.units.swap(&other.units);
                one.passed.swap(&other.passed);
            }
        });
    }
}
