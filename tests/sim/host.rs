//! The limiters of a simulated node, as the protocol's [`Host`]: all that knows the trait.
//!
//! Limits are real limiters on a manual clock. In addition each life of each node has a *ledger*: a
//! limit on which only that life admits, in units of a day, so that within a run nothing of it
//! drains. The number of units on a node's ledger word is then exact, whatever waited or was late
//! for less than hours, and says how much of that life's use this node has applied.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_cluster::LimitId;
use tidegate_cluster::protocol::{Change, Delta, Host, Level, ScanPosition};
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, KeyHash, Limiter, ManualClock, Quota};

use crate::rules::Rule;
use crate::time::{Nanos, SECOND};

/// The debt of a unit on a ledger.
pub const UNIT: Nanos = 86_400 * SECOND;
/// The identifiers of ledgers are this and the number of the life.
const LEDGER: u64 = 1 << 32;

/// The limit of the words of quotas that come with checks.
const INLINE: u64 = LimitId::INLINE.to_bits();

/// As in a large table of few keys, this number of parts of a state is empty before each ledger's
/// key: a state is many chunks, and there is use and news between them.
const EMPTY_PARTS: u64 = 256;
/// How empty parts are counted in a [`ScanPosition`], above the ledger's key.
const EMPTY: u64 = 1 << 32;

pub struct Limits {
    clock: ManualClock,
    limiters: Vec<Limiter<Quota, ManualClock>>,
    inline: Option<Inline>,
    ledgers: BTreeMap<(u64, u64), Nanos>,
    recorded: BTreeMap<(u64, u64), Change>,
    /// What a thread has charged that waits for a processor.
    unrecorded: Option<BTreeMap<(u64, u64), Change>>,
    /// What is left of the drain under way.
    draining: BTreeMap<(u64, u64), Change>,
    /// Deltas and words handled since [`Limits::take_work`].
    work: u64,
}

/// A rule whose quotas come with checks.
struct Inline {
    rule: usize,
    /// What each says: its id, the quota, and units for one of the rule.
    quotas: Vec<(u64, Quota, u64)>,
    next: usize,
}

impl Inline {
    fn new(rules: &[Rule]) -> Option<Self> {
        let rule = rules.iter().position(|rule| rule.comes_with_checks)?;
        let quota = |by| {
            let quota = rules[rule].divided(by);
            (LimitId::inline(quota.debt_of(1), quota.burst_size()).to_bits(), quota, by)
        };
        Some(Self { rule, quotas: Rule::UNITS.map(quota).to_vec(), next: 0 })
    }

    fn next(&mut self) -> (u64, Quota, u64) {
        self.next = (self.next + 1) % self.quotas.len();
        self.quotas[self.next]
    }

    fn quota(&self, limit: u64) -> Option<Quota> {
        let mut quotas = self.quotas.iter();
        quotas.find(|(id, ..)| *id == limit).map(|(_, quota, _)| *quota)
    }
}

impl Limits {
    pub fn new(rules: &[Rule]) -> Self {
        let clock = ManualClock::new();
        let build = |rule: &Rule| {
            let builder = Limiter::builder(rule.quota).capacity(rule.capacity);
            builder.clock(clock.clone()).build().expect("the rules can be enforced")
        };
        let limiters = rules.iter().map(build).collect();
        let (ledgers, recorded, draining) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (unrecorded, inline) = (None, Inline::new(rules));
        Self { clock, limiters, inline, ledgers, recorded, unrecorded, draining, work: 0 }
    }

    /// Sets the node's clock.
    pub fn set_time(&self, local: Nanos) {
        self.clock.set(Timestamp::from_nanos(local));
    }

    pub fn check(&mut self, rule: usize, key: u64, cost: u64) -> bool {
        let limiter = &self.limiters[rule];
        let (limit, quota, by) = match self.inline.as_mut().filter(|inline| inline.rule == rule) {
            Some(inline) => inline.next(),
            None => (rule as u64 + 1, limiter.quota(), 1),
        };
        let (hash, cost) = (KeyHash::from_bits(key), cost * by);
        let decision = limiter.check_with(hash, cost, &quota).expect("the rules can be enforced");
        if !decision.is_allowed() {
            return false;
        }
        let debt = signed(nanos(quota.debt_of(cost)));
        let change = Change { debt, date: signed(self.now()) };
        add(self.unrecorded.as_mut().unwrap_or(&mut self.recorded), (limit, key), change);
        true
    }

    /// From here on a thread charges words and records nothing.
    pub fn begin_waiting(&mut self) {
        self.unrecorded.get_or_insert_default();
    }

    /// It records what it has charged.
    pub fn end_waiting(&mut self) {
        for (id, change) in self.unrecorded.take().unwrap_or_default() {
            add(&mut self.recorded, id, change);
        }
    }

    /// Gives back what a check was charged, or all, as far as the key owes it; returns that much
    /// debt.
    pub fn give_back(&mut self, rule: usize, key: u64, cost: Option<u64>) -> Nanos {
        let (limiter, hash) = (&self.limiters[rule], KeyHash::from_bits(key));
        let before = limiter.debt(hash);
        match cost {
            Some(cost) => limiter.refund(hash, cost),
            None => limiter.reset(hash),
        }
        let given = nanos(before.saturating_sub(limiter.debt(hash)));
        if given > 0 {
            let inline = self.inline.as_mut().filter(|inline| inline.rule == rule);
            let limit = inline.map_or(rule as u64 + 1, |inline| inline.next().0);
            self.record(limit, key, -signed(given));
        }
        given
    }

    /// Charges a debt that is not sent to any node: the word is ahead of the others'.
    pub fn put_ahead(&mut self, rule: usize, key: u64, debt: Nanos) {
        let debt = Duration::from_nanos(debt);
        self.limiters[rule].charge_debt(KeyHash::from_bits(key), debt, self.clock.now());
    }

    /// Admits one unit on this life's ledger.
    pub fn enter(&mut self, life: u32, key: u64) {
        let limit = LEDGER | u64::from(life);
        let now = self.now();
        let tat = self.ledgers.entry((limit, key)).or_insert(now);
        *tat = (*tat).max(now) + UNIT;
        self.record(limit, key, signed(UNIT));
    }

    fn record(&mut self, limit: u64, key: u64, debt: i64) {
        let change = Change { debt, date: signed(self.now()) };
        add(&mut self.recorded, (limit, key), change);
    }

    pub fn has_recorded(&self) -> bool {
        !self.recorded.is_empty() || !self.draining.is_empty()
    }

    /// The key's debt.
    pub fn debt(&self, rule: usize, key: u64) -> Nanos {
        let decision = self.limiters[rule].peek(KeyHash::from_bits(key));
        nanos(decision.reset_after())
    }

    /// The units of a life that this node has applied, and how far its word is off a whole number
    /// of them.
    pub fn entered(&self, life: u32, key: u64) -> (u64, Nanos) {
        let tat = self.ledgers.get(&(LEDGER | u64::from(life), key)).copied().unwrap_or(0);
        let debt = tat.saturating_sub(self.now());
        let units = (debt + UNIT / 2) / UNIT;
        (units, debt.abs_diff(units * UNIT))
    }

    pub fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    fn now(&self) -> Nanos {
        self.clock.now().as_nanos()
    }

    fn limiter(&self, limit: u64) -> Option<&Limiter<Quota, ManualClock>> {
        let inline = self.inline.as_ref();
        let inline = inline.filter(|known| limit == INLINE || known.quota(limit).is_some());
        match inline {
            Some(inline) => self.limiters.get(inline.rule),
            None => self.limiters.get(usize::try_from(limit.checked_sub(1)?).ok()?),
        }
    }
}

fn is_ledger(limit: u64) -> bool {
    limit & !u64::from(u32::MAX) == LEDGER
}

impl Host for Limits {
    fn take_recorded(&mut self, _: Nanos, most: usize, into: &mut Vec<Delta>) -> bool {
        if self.draining.is_empty() {
            self.draining = std::mem::take(&mut self.recorded);
        }
        let before = into.len();
        let taken = std::iter::from_fn(|| self.draining.pop_first()).take(most);
        into.extend(taken.map(|((limit, key), change)| Delta { limit, key, change }));
        self.work += (into.len() - before) as u64;
        self.draining.is_empty()
    }

    fn apply(&mut self, _: Nanos, delta: Delta) -> bool {
        self.work += 1;
        let Change { debt, date } = delta.change;
        let at = Nanos::try_from(date).unwrap_or(0);
        if is_ledger(delta.limit) {
            let tat = self.ledgers.entry(delta.id()).or_insert(at);
            *tat = (*tat).max(at).saturating_add_signed(debt);
            return true;
        }
        let Some(limiter) = self.limiter(delta.limit) else { return false };
        let (key, by) = (KeyHash::from_bits(delta.key), Duration::from_nanos(debt.unsigned_abs()));
        if debt >= 0 {
            limiter.charge_debt(key, by, Timestamp::from_nanos(at));
        } else {
            limiter.lower_debt(key, by);
        }
        true
    }

    fn shift(&mut self, limit: u64, key: u64, by: i64) {
        let date = signed(self.now());
        self.apply(0, Delta { limit, key, change: Change { debt: by, date } });
    }

    fn raise(&mut self, _: Nanos, level: Level) -> bool {
        self.work += 1;
        if is_ledger(level.limit) {
            let raised = self.now().saturating_add(level.debt);
            let tat = self.ledgers.entry((level.limit, level.key)).or_insert(raised);
            *tat = (*tat).max(raised);
            return true;
        }
        let Some(limiter) = self.limiter(level.limit) else { return false };
        limiter.raise_debt(KeyHash::from_bits(level.key), Duration::from_nanos(level.debt));
        true
    }

    fn debt(&mut self, _: Nanos, limit: u64, key: u64) -> Nanos {
        let limiter = self.limiter(limit);
        limiter.map_or(0, |limiter| nanos(limiter.debt(KeyHash::from_bits(key))))
    }

    fn tolerance(&self, limit: u64) -> Option<Nanos> {
        if is_ledger(limit) {
            return Some(Nanos::MAX >> 2);
        }
        let quota = self.limiter(limit)?.quota();
        Some(nanos(quota.debt_of(quota.burst_size())))
    }

    fn unit(&self, limit: u64) -> Option<Nanos> {
        let limiter = self.limiter(limit)?;
        if limit == INLINE {
            return None;
        }
        let quota = self.inline.as_ref().and_then(|inline| inline.quota(limit));
        Some(nanos(quota.unwrap_or_else(|| limiter.quota()).debt_of(1)))
    }

    fn most_debt(&self, limit: u64) -> Nanos {
        self.tolerance(limit).map_or(0, |tolerance| tolerance.saturating_mul(16))
    }

    fn scan(&mut self, at: ScanPosition, into: &mut Vec<Level>) -> Option<ScanPosition> {
        let before = into.len();
        let next = if at.0 < LEDGER {
            Some(self.scan_limit(at, into))
        } else {
            self.scan_ledger(at, into)
        };
        self.work += (into.len() - before) as u64;
        next
    }
}

impl Limits {
    fn scan_limit(
        &self,
        ScanPosition(limit, part): ScanPosition,
        into: &mut Vec<Level>,
    ) -> ScanPosition {
        let limit = limit.max(1);
        let rule = limit as usize - 1;
        let Some(limiter) = self.limiters.get(rule) else { return ScanPosition(LEDGER, 0) };
        let is_inline = self.inline.as_ref().is_some_and(|inline| inline.rule == rule);
        let words = if is_inline { INLINE } else { limit };
        let level = |(key, debt): (KeyHash, Duration)| Level {
            limit: words,
            key: key.to_bits(),
            debt: nanos(debt),
        };
        into.extend(limiter.live_part(part as usize).map(level));
        let is_last = part + 1 >= limiter.live_parts() as u64;
        if is_last { ScanPosition(limit + 1, 0) } else { ScanPosition(limit, part + 1) }
    }

    /// One key, after parts in which there is none.
    fn scan_ledger(
        &self,
        ScanPosition(limit, at): ScanPosition,
        into: &mut Vec<Level>,
    ) -> Option<ScanPosition> {
        let (empty, key) = (at / EMPTY, at % EMPTY);
        if empty < EMPTY_PARTS {
            return Some(ScanPosition(limit, at + EMPTY));
        }
        let now = self.now();
        let mut rest = self.ledgers.range((limit, key)..);
        let (&(limit, key), tat) = rest.next()?;
        if *tat > now {
            into.push(Level { limit, key, debt: tat - now });
        }
        rest.next().map(|(&(limit, key), _)| ScanPosition(limit, key))
    }
}

/// Composes changes of a key in the order of their dates.
fn add(changes: &mut BTreeMap<(u64, u64), Change>, id: (u64, u64), change: Change) {
    let then = |known: &mut Change| {
        let (first, later) =
            if known.date <= change.date { (*known, change) } else { (change, *known) };
        *known = first.then(later);
    };
    changes.entry(id).and_modify(then).or_insert(change);
}

fn signed(time: Nanos) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_counts_units_though_time_passes_and_deltas_are_late() {
        let (mut origin, mut other) = (Limits::new(&[]), Limits::new(&[]));
        origin.set_time(3_600 * SECOND);
        other.set_time(5 * SECOND);
        for _ in 0..3 {
            origin.enter(7, 1);
        }
        let mut deltas = Vec::new();
        assert!(origin.take_recorded(0, 2, &mut deltas));
        let debt = deltas[0].change.debt - signed(20 * SECOND);
        let change = Change { debt, date: signed(4 * SECOND) };
        other.apply(5 * SECOND, Delta { change, ..deltas[0] });
        other.set_time(90 * SECOND);
        assert_eq!((origin.entered(7, 1).0, other.entered(7, 1).0), (3, 3));
        assert_eq!((other.entered(7, 2).0, other.entered(8, 1).0), (0, 0));
        let (mut state, mut at) = (Vec::new(), Some(ScanPosition::default()));
        while let Some(part) = at {
            at = other.scan(part, &mut state);
        }
        origin.raise(0, state[0]);
        assert_eq!(origin.entered(7, 1).0, 3);
    }
}
