//! The limits of a node, by the id that all nodes share, and what others sent of limits that this
//! node does not have.
//!
//! A lock is held for one look-up, one word, or a named number of them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ring::digest;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::{DebtRule, MAX_BURST_TOLERANCE};
use tidegate_engine::{Clock, KeyHash, Limiter, Observer};

use crate::inline;
use crate::protocol::{Change, Delta, Level, MAX_PART_KEYS, Nanos, ScanPosition, nanos};

/// Limits of a node, at most.
pub const MAX_LIMITS: usize = 1 << 16;
/// Keys of limits that this node does not have, whose debt is kept for when it does, at most: 16 MB
/// or less.
pub const MAX_UNCLAIMED_KEYS: usize = 1 << 18;
/// Words of such keys that a limiter is given while the lock is held.
const MOVED_AT_ONCE: usize = 256;
/// Words that are looked at, and forgotten if they have drained, for each one that changes.
const SWEPT_AT_ONCE: usize = 2;
/// The part of a limit's words from which on they are its limiter's; before that they are by key.
const OF_LIMITER: u64 = 1 << 63;

/// What a key can owe for what other nodes send, in burst tolerances: charges after the fact may go
/// beyond the burst.
const MAX_TOLERANCES: u64 = 16;
/// The least burst tolerance for that, in nanoseconds; [`MAX_TOLERANCES`] of it are an hour. Calls
/// that wait in a line consume ahead, by as long as they wait, and what all nodes admit before they
/// know of each other may be many times a short burst: all of it is paid back.
const LEAST_TOLERANCE: Nanos = 225_000_000_000;
/// How long a word without a limiter may last, at least, before it makes room for another one, in
/// nanoseconds: longer than what keys owe by most quotas.
const PLAUSIBLE: i64 = 31 * 86_400_000_000_000;

/// The id of a limit, the same on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(u64);

impl LimitId {
    /// The id to which the limiter of all limits is attached whose quota comes with each check. No
    /// name has it. What they charge is recorded under [`LimitId::inline`].
    pub const INLINE: Self = Self(0);

    /// The id of a limit whose quota comes with each check: what other nodes have to know of it,
    /// and the same for the same quota on every node. `unit` is the debt of one unit, which is what
    /// [`Quota::debt_of`](tidegate_engine::Quota::debt_of) says. What is recorded under
    /// [`LimitId::INLINE`] is treated as if the limiter's own quota had come with the check.
    #[must_use]
    pub fn inline(unit: Duration, burst: u64) -> Self {
        let unit = nanos(unit);
        Self(inline::id(unit.saturating_mul(burst), unit))
    }

    /// The id of the limit with this name: the first 64 bits of its SHA-256.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let hash = digest::digest(&digest::SHA256, name.as_bytes());
        let bits = hash.as_ref().iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Self(bits.clamp(1, inline::FIRST - 1))
    }

    /// The number by which [`protocol`](crate::protocol) knows it.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

/// [`LimitId::named`].
impl From<&str> for LimitId {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

/// A limiter, with its words as debts.
pub(crate) trait DebtLimiter: Send + Sync {
    /// `TAT = max(TAT, now - age) + debt`.
    fn charge(&self, key: KeyHash, debt: Duration, age: Duration);
    fn lower(&self, key: KeyHash, debt: Duration);
    /// `TAT = max(TAT, now + debt)`.
    fn raise(&self, key: KeyHash, debt: Duration);
    /// The present, on the limiter's clock.
    fn now(&self) -> Timestamp;
    fn debt_at(&self, key: KeyHash, at: Timestamp) -> Duration;
    /// A hint that the word of this key is read next.
    fn prefetch(&self, key: KeyHash);
    fn tolerance(&self) -> Duration;
    fn unit(&self) -> Duration;
    /// The keys in debt of one of the `parts`.
    fn part(&self, part: usize, each: &mut dyn FnMut(KeyHash, Duration));
    fn parts(&self) -> usize;
}

impl<R, C, O> DebtLimiter for Limiter<R, C, O>
where
    R: DebtRule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    fn charge(&self, key: KeyHash, debt: Duration, age: Duration) {
        self.charge_debt(key, debt, self.clock().now().saturating_sub(age));
    }

    fn lower(&self, key: KeyHash, debt: Duration) {
        self.lower_debt(key, debt);
    }

    fn raise(&self, key: KeyHash, debt: Duration) {
        self.raise_debt(key, debt);
    }

    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn debt_at(&self, key: KeyHash, at: Timestamp) -> Duration {
        Self::debt_at(self, key, at)
    }

    fn prefetch(&self, key: KeyHash) {
        Self::prefetch(self, key);
    }

    fn tolerance(&self) -> Duration {
        self.burst_tolerance()
    }

    fn unit(&self) -> Duration {
        self.unit_debt()
    }

    fn part(&self, part: usize, each: &mut dyn FnMut(KeyHash, Duration)) {
        self.live_part(part).for_each(|(key, debt)| each(key, debt));
    }

    fn parts(&self) -> usize {
        self.live_parts()
    }
}

/// What the words of one unclaimed limit would be, by key: TATs, on the driver's clock.
type UnclaimedWords = BTreeMap<u64, i64>;

/// The limits that there are, and the words of those that there are not yet.
#[derive(Default)]
pub(crate) struct Limits {
    /// Held by the driver while it uses a limiter; locked before the table.
    in_use: Mutex<()>,
    table: Mutex<LimitTable>,
}

/// A limiter that the driver uses. No limit is made meanwhile: one whose limiter its owners have
/// dropped would seem to exist for as long as this one lives.
pub(crate) struct InUse<'a> {
    limiter: Arc<dyn DebtLimiter>,
    /// Released after the limiter.
    _in_use: MutexGuard<'a, ()>,
}

impl InUse<'_> {
    pub(crate) fn downgrade(&self) -> Weak<dyn DebtLimiter> {
        Arc::downgrade(&self.limiter)
    }
}

impl Deref for InUse<'_> {
    type Target = dyn DebtLimiter;

    fn deref(&self) -> &Self::Target {
        &*self.limiter
    }
}

#[derive(Default)]
struct LimitTable {
    /// Weak, because a limiter holds the cluster whose driver applies deltas to it.
    limiters: BTreeMap<u64, Weak<dyn DebtLimiter>>,
    unclaimed: BTreeMap<u64, UnclaimedWords>,
    unclaimed_keys: usize,
    /// Changes for which there was no room.
    dropped: u64,
    /// Where the next drained words are looked for.
    swept: (u64, u64),
}

/// Why a limiter does not become that of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Inline,
    Exists,
    TooMany,
}

impl Limits {
    /// Makes the limiter that of a limit, and hands over what others sent of it before. `now` is on
    /// the driver's clock.
    pub(crate) fn insert(
        &self,
        id: LimitId,
        limiter: Weak<dyn DebtLimiter>,
        now: impl Fn() -> Nanos,
    ) -> Result<(), Refused> {
        if inline::words_of(id.to_bits()) != id.to_bits() {
            return Err(Refused::Inline);
        }
        let alive = limiter.upgrade().ok_or(Refused::Exists)?;
        let in_use = lock(&self.in_use);
        self.table().insert(id.to_bits(), limiter)?;
        drop(in_use);
        // Others' changes reach the limiter from here on.
        while self.table().hand_over(id.to_bits(), &*alive, signed(now())) {}
        Ok(())
    }

    pub(crate) fn get(&self, limit: u64) -> Option<InUse<'_>> {
        self.use_with(|| self.table().get(limit).ok_or(())).ok()
    }

    /// A limiter that was found before, unless it has been dropped.
    pub(crate) fn get_again(&self, limiter: &Weak<dyn DebtLimiter>) -> Option<InUse<'_>> {
        self.use_with(|| limiter.upgrade().ok_or(())).ok()
    }

    /// Changes for which there was no room.
    pub(crate) fn dropped(&self) -> u64 {
        self.table().dropped
    }

    /// The limiter of a delta's limit. Without one, keeps the change for when there is: whether
    /// there was room.
    pub(crate) fn get_or_change(&self, now: Nanos, delta: Delta) -> Result<InUse<'_>, bool> {
        let Change { debt, date } = delta.change;
        self.get_or_keep(now, delta.id(), |tat| tat.max(date).saturating_add(debt))
    }

    /// The same for what a key owes at least.
    pub(crate) fn get_or_raise(&self, now: Nanos, level: Level) -> Result<InUse<'_>, bool> {
        let owed = signed(now).saturating_add(signed(level.debt));
        self.get_or_keep(now, (level.limit, level.key), |tat| tat.max(owed))
    }

    /// One look under the lock, so that no change is kept for a limiter that is there already.
    fn get_or_keep(
        &self,
        now: Nanos,
        id: (u64, u64),
        change: impl FnOnce(i64) -> i64,
    ) -> Result<InUse<'_>, bool> {
        self.use_with(|| {
            let mut table = self.table();
            table.get(id.0).ok_or_else(|| {
                let kept = table.keep(signed(now), (inline::words_of(id.0), id.1), change);
                table.dropped += u64::from(!kept);
                kept
            })
        })
    }

    fn use_with<E>(
        &self,
        find: impl FnOnce() -> Result<Arc<dyn DebtLimiter>, E>,
    ) -> Result<InUse<'_>, E> {
        let in_use = lock(&self.in_use);
        Ok(InUse { limiter: find()?, _in_use: in_use })
    }

    /// The debts of a part of all words; see [`Host::live`](crate::protocol::Host::live). Within a
    /// limit those without a limiter come first: they may move to the limiter meanwhile.
    pub(crate) fn scan(
        &self,
        now: Nanos,
        at: ScanPosition,
        into: &mut Vec<Level>,
    ) -> Option<ScanPosition> {
        let limit = {
            let table = self.table();
            let limit = table.first_from(at.0)?;
            let part = if limit == at.0 { at.1 } else { 0 };
            if part < OF_LIMITER {
                return Some(table.unclaimed_part(signed(now), ScanPosition(limit, part), into));
            }
            limit
        };
        let limiter = self.get(limit);
        let next = limit.checked_add(1).map(|next| ScanPosition(next, 0));
        let Some(limiter) = limiter else { return next };
        let part = at.1 - OF_LIMITER;
        limiter.part(part as usize, &mut |key, debt| {
            into.push(Level { limit, key: key.to_bits(), debt: nanos(debt) });
        });
        if part + 1 < limiter.parts() as u64 { Some(ScanPosition(limit, at.1 + 1)) } else { next }
    }

    fn table(&self) -> MutexGuard<'_, LimitTable> {
        lock(&self.table)
    }
}

impl LimitTable {
    fn get(&self, limit: u64) -> Option<Arc<dyn DebtLimiter>> {
        self.limiters.get(&inline::words_of(limit))?.upgrade()
    }

    fn insert(&mut self, limit: u64, limiter: Weak<dyn DebtLimiter>) -> Result<(), Refused> {
        if self.limiters.get(&limit).is_some_and(|known| known.strong_count() > 0) {
            return Err(Refused::Exists);
        }
        if self.limiters.len() >= MAX_LIMITS {
            self.limiters.retain(|_, known| known.strong_count() > 0);
        }
        if self.limiters.len() >= MAX_LIMITS {
            return Err(Refused::TooMany);
        }
        self.limiters.insert(limit, limiter);
        Ok(())
    }

    /// Gives the limiter some of the words that were kept for it; whether there were any.
    fn hand_over(&mut self, limit: u64, limiter: &dyn DebtLimiter, now: i64) -> bool {
        let Some(words) = self.unclaimed.get_mut(&limit) else { return false };
        let most = most_debt(limit, Some(nanos(limiter.tolerance())));
        for _ in 0..MOVED_AT_ONCE {
            let Some((key, tat)) = words.pop_first() else { break };
            self.unclaimed_keys -= 1;
            let debt = Nanos::try_from(tat.saturating_sub(now)).unwrap_or(0);
            if debt > 0 {
                let key = KeyHash::from_bits(key);
                // Others' changes reach the limiter by now.
                let room = most.saturating_sub(nanos(limiter.debt_at(key, limiter.now())));
                limiter.charge(key, Duration::from_nanos(debt.min(room)), Duration::ZERO);
            }
        }
        if words.is_empty() {
            self.unclaimed.remove(&limit);
        }
        true
    }

    /// Changes the word of a key without a limiter; false when there is no room for it. Where there
    /// is none, a word that lasts longer makes some.
    fn keep(
        &mut self,
        now: i64,
        (limit, key): (u64, u64),
        change: impl FnOnce(i64) -> i64,
    ) -> bool {
        let longest = self.sweep(now);
        let words = self.unclaimed.get_mut(&limit);
        if let Some(word) = words.and_then(|words| words.get_mut(&key)) {
            *word = change(*word);
            return true;
        }
        let word = change(i64::MIN);
        if word <= now {
            return true;
        }
        if self.unclaimed_keys >= MAX_UNCLAIMED_KEYS {
            // Of those that were looked at: words that take years would leave no room to others.
            let lasts = |tat: i64| tat > word && tat.saturating_sub(now) > PLAUSIBLE;
            let Some((_, id)) = longest.filter(|(tat, _)| lasts(*tat)) else { return false };
            self.forget(id);
            self.dropped += 1;
        }
        self.unclaimed_keys += 1;
        self.unclaimed.entry(limit).or_default().insert(key, word);
        true
    }

    fn forget(&mut self, (limit, key): (u64, u64)) {
        let Some(words) = self.unclaimed.get_mut(&limit) else { return };
        self.unclaimed_keys -= usize::from(words.remove(&key).is_some());
        if words.is_empty() {
            self.unclaimed.remove(&limit);
        }
    }

    /// Forgets drained words among the next few. Of the others the one that lasts longest.
    fn sweep(&mut self, now: i64) -> Option<(i64, (u64, u64))> {
        let mut longest = None;
        for _ in 0..SWEPT_AT_ONCE {
            let (limit, key) = self.swept;
            let Some((&limit_at, words)) = self.unclaimed.range(limit..).next() else {
                self.swept = (0, 0);
                break;
            };
            let from = if limit_at == limit { key } else { 0 };
            let Some((&key, &tat)) = words.range(from..).next() else {
                self.swept = (limit_at.wrapping_add(1), 0);
                continue;
            };
            // Others name keys, so a key may be the last that there is.
            let next = key.checked_add(1).map(|key| (limit_at, key));
            self.swept = next.unwrap_or((limit_at.wrapping_add(1), 0));
            if tat <= now {
                self.forget((limit_at, key));
            } else {
                longest = longest.max(Some((tat, (limit_at, key))));
            }
        }
        longest
    }

    /// The first limit whose id is not less than this one and that has words.
    fn first_from(&self, limit: u64) -> Option<u64> {
        let mut limiters = self.limiters.range(limit..);
        let known = limiters.find(|(_, known)| known.strong_count() > 0).map(|(id, _)| *id);
        let unclaimed = self.unclaimed.range(limit..).next().map(|(id, _)| *id);
        known.into_iter().chain(unclaimed).min()
    }

    /// Words without a limiter, from a key on.
    fn unclaimed_part(
        &self,
        now: i64,
        ScanPosition(limit, from): ScanPosition,
        into: &mut Vec<Level>,
    ) -> ScanPosition {
        let words = self.unclaimed.get(&limit);
        let mut rest = words.into_iter().flat_map(|words| words.range(from..));
        for (&key, &tat) in rest.by_ref().take(MAX_PART_KEYS) {
            if let Ok(debt @ 1..) = Nanos::try_from(tat.saturating_sub(now)) {
                into.push(Level { limit, key, debt });
            }
        }
        rest.next().map_or(ScanPosition(limit, OF_LIMITER), |(key, _)| ScanPosition(limit, *key))
    }
}

/// What a key can owe for what other nodes send, at most, where the burst tolerance is known.
pub(crate) fn most_debt(limit: u64, tolerance: Option<Nanos>) -> Nanos {
    match tolerance {
        Some(tolerance) if inline::words_of(limit) != LimitId::INLINE.to_bits() => {
            tolerance.max(LEAST_TOLERANCE).saturating_mul(MAX_TOLERANCES)
        }
        // A key may be in debt under another quota as well, but no quota takes longer to refill.
        // The id says what its quota takes, but it is chosen by the node that sends it.
        _ => nanos(MAX_BURST_TOLERANCE),
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").finish_non_exhaustive()
    }
}

/// Also after a panic: each lock is held for steps that leave what it guards whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A time as a signed number.
fn signed(time: Nanos) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
