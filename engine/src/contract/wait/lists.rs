//! The callers that wait, by key: the locks over their lists.
//!
//! Only callers that wait, and those that give up a charge, take a lock; checks never do. It is
//! held for one operation on a list and one on the key's word, with readings of the clock, and
//! never while a waker is cloned, called or dropped, which may run any code and re-enter this
//! module. A clock must not.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt::{self, Debug};
use core::task::Waker;

use crate::base::key::KeyHash;
use crate::base::sync::{Mutex, lock};
use crate::time::Timestamp;

use super::charge::{Charge, Granted, Removal, TakenOff};
use super::list::{Found, WaitList, Wakers};
use super::moved::MovedKeys;

/// Locks of a limiter with keys; callers that wait for different keys seldom meet.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

#[derive(Default)]
struct Shard {
    lists: BTreeMap<KeyHash, WaitList>,
    moved: MovedKeys,
}

/// The lists of a limiter.
pub struct WaitLists {
    shards: Box<[Mutex<Shard>]>,
}

impl WaitLists {
    pub(crate) fn keyed() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn keyless() -> Self {
        Self { shards: Box::new([Mutex::default()]) }
    }

    /// Changes a shard under its lock; then uses the wakers.
    fn change<T>(&self, key: KeyHash, act: impl FnOnce(&mut Shard, &mut Wakers) -> T) -> T {
        let mut wakers = Wakers::default();
        let result = {
            let shard = key.tag() as usize % self.shards.len();
            let mut shard = lock(&self.shards[shard]);
            let result = act(&mut shard, &mut wakers);
            if shard.lists.get(&key).is_some_and(WaitList::is_idle) {
                shard.lists.remove(&key);
            }
            result
        };
        WakeAll(wakers.wake).run();
        result
    }

    /// Makes a charge, and adds its caller to the key's list if it waits: then returns its number,
    /// too.
    pub(crate) fn enter<E>(
        &self,
        key: KeyHash,
        charge: impl FnOnce() -> Result<Granted, E>,
    ) -> Result<(Granted, Option<u64>), E> {
        self.change(key, |Shard { lists, .. }, wakers| {
            let granted = charge()?;
            let number = granted.charge.filter(|_| granted.waits).map(|charge| {
                let list = lists.entry(key).or_insert_with(|| WaitList::new(charge.time));
                list.push(charge, granted.start, wakers)
            });
            Ok((granted, number))
        })
    }

    /// When a caller may start; `None` if it has no place.
    pub(super) fn start(&self, key: KeyHash, number: u64, now: Timestamp) -> Option<Timestamp> {
        self.change(key, |shard, _| shard.lists.get_mut(&key)?.start(number, now))
    }

    /// Removes a caller whose time has come; others are woken by `waker` if they have moved up.
    pub(super) fn poll(&self, key: KeyHash, number: u64, now: Timestamp, waker: &Waker) -> Found {
        let waker = waker.clone();
        self.change(key, |Shard { lists, .. }, wakers| {
            if let Some(list) = lists.get_mut(&key) {
                return list.poll(number, now, waker, wakers);
            }
            wakers.discard.push(waker);
            Found::Started
        })
    }

    /// The start of a caller, also when it has come, and when its charge begins to drain; `None`
    /// without a place. Until the start, `waker` is woken when it has moved up.
    pub(super) fn watch(
        &self,
        key: KeyHash,
        number: u64,
        now: Timestamp,
        waker: &Waker,
    ) -> Option<(Timestamp, Timestamp)> {
        let waker = waker.clone();
        self.change(key, |Shard { lists, .. }, wakers| {
            let Some(list) = lists.get_mut(&key) else {
                wakers.discard.push(waker);
                return None;
            };
            let start = list.watch(number, now, waker, wakers)?;
            Some((start, list.drains_from(number, now)?))
        })
    }

    /// Removes a caller whose charge stays as it is; returns its start.
    pub(super) fn keep(
        &self,
        key: KeyHash,
        number: u64,
        now: impl Fn() -> Timestamp,
    ) -> Option<Timestamp> {
        self.change(key, |shard, wakers| shard.lists.get_mut(&key)?.keep(number, now(), wakers))
    }

    /// Removes a caller that gives up its place; `take_off` takes units off the key's word. Returns
    /// whether it did. The clock is read under the lock: not before callers that have started.
    pub(super) fn give_up(
        &self,
        key: KeyHash,
        number: u64,
        now: impl Fn() -> Timestamp,
        take_off: impl FnOnce(Removal) -> Option<TakenOff>,
    ) -> bool {
        self.change(key, |Shard { lists, moved }, wakers| {
            let Some(list) = lists.get_mut(&key) else { return false };
            let now = now();
            let take_off = |removal| moved.take_off(key, now, removal, take_off);
            list.give_up(number, now, take_off, wakers)
        })
    }

    /// Takes back a charge that started at once, if no other charge that has started is behind it
    /// and it has not moved; as [`WaitLists::give_up`].
    pub(super) fn take_back(
        &self,
        key: KeyHash,
        (charge, start): (Charge, Timestamp),
        now: impl Fn() -> Timestamp,
        take_off: impl Fn(Removal) -> Option<TakenOff>,
    ) -> bool {
        self.change(key, |Shard { lists, moved }, wakers| {
            if moved.has_moved(key, start) {
                return false;
            }
            let now = now();
            let mut take_off = |removal| moved.take_off(key, now, removal, &take_off);
            let list = lists.get_mut(&key);
            list.is_some_and(|list| list.take_back(charge, now, &mut take_off, wakers))
                || take_off(Removal::of_last(charge)).is_some()
        })
    }

    /// Removes a caller whose clock fails.
    pub(super) fn abandon(&self, key: KeyHash, number: u64) {
        self.change(key, |Shard { lists, .. }, wakers| {
            if let Some(list) = lists.get_mut(&key) {
                list.abandon(number, wakers);
            }
        });
    }

    /// Fixes the starts of the callers that wait for a key: their charges are no longer known to be
    /// in its word, or have become part of what is restored, so they are not taken back.
    pub(crate) fn fix(&self, key: KeyHash, now: Timestamp) {
        self.change(key, |Shard { lists, .. }, wakers| {
            if let Some(list) = lists.get_mut(&key) {
                list.fix(now, wakers);
            }
        });
    }

    /// Notes that a refund has lowered the key's word.
    pub(crate) fn refunded(&self, key: KeyHash, units: u64) {
        self.change(key, |Shard { lists, .. }, _| {
            if let Some(list) = lists.get_mut(&key) {
                list.refunded(units);
            }
        });
    }

    /// Notes that what others had charged was given back, and has lowered the key's word.
    pub(crate) fn given_back(&self, key: KeyHash, units: u64, now: impl Fn() -> Timestamp) {
        self.change(key, |Shard { lists, .. }, wakers| {
            if let Some(list) = lists.get_mut(&key) {
                list.given_back(units, now(), wakers);
            }
        });
    }
}

/// Wakes all, also if one of them panics.
struct WakeAll(Vec<Waker>);

impl WakeAll {
    fn run(mut self) {
        while let Some(waker) = self.0.pop() {
            waker.wake();
        }
    }
}

impl Drop for WakeAll {
    fn drop(&mut self) {
        if let Some(waker) = self.0.pop() {
            let rest = Self(core::mem::take(&mut self.0));
            waker.wake();
            drop(rest);
        }
    }
}

impl Debug for WaitLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitLists").finish_non_exhaustive()
    }
}
