//! Leases against an exact bucket, with several threads played by one: each step takes the seat of
//! the thread it is of.

use std::time::Duration;

use proptest::prelude::*;

use crate::base::decision::Decision;
use crate::base::key::KeyHash;
use crate::limiter::Limiter;
use crate::limiter::mode::{Extended, Mode};
use crate::rule::gcra::{Gcra, Tat};
use crate::rule::quota::Quota;
use crate::table::Table;
use crate::time::{Clock, ManualClock, Timestamp};

use super::magazine::{BACKING, Magazines};
use super::{LEAST, Leases, SHARE, Seat};

const STRIPES: usize = 4;
/// Of those that the oracle's test plays, two share a stripe.
const THREADS: usize = STRIPES + 1;
const KEYS: usize = 2;

/// Keys that meet in one entry.
fn key(index: usize) -> KeyHash {
    KeyHash::from_bits(1 + ((index as u64) << 20))
}

fn limiter(quota: Quota, units: u64) -> Limiter<Quota, ManualClock> {
    limiter_backed(quota, units, BACKING)
}

/// Where a thread holds a unit for each `backing` that it has used; with 0, from its first use on.
fn limiter_backed(quota: Quota, units: u64, backing: u32) -> Limiter<Quota, ManualClock> {
    let table = Table::new(1, Tat).unwrap();
    let leases = Leases::striped(units, &Gcra::exact(&quota).unwrap(), STRIPES);
    let leases = leases.map(|leases| Leases { backing, ..leases });
    Limiter::for_tests(
        quota,
        ManualClock::new(),
        table,
        leases.map_or(Mode::Word, |leases| Mode::Extended(Extended::Leased(leases))),
    )
}

/// A bucket that follows what was admitted, in 1/(16 * count) nanoseconds.
struct Bucket {
    count: i128,
    interval: i128,
    tau: i128,
    tat: i128,
}

impl Bucket {
    fn new(quota: &Quota, sixteenths: i128) -> Self {
        let period = quota.period().as_nanos() as i128;
        let tau = 16 * period * i128::from(quota.burst_size());
        Self { count: 16 * i128::from(quota.count()), interval: period * sixteenths, tau, tat: 0 }
    }

    fn debt(&self, now: Timestamp) -> i128 {
        (self.tat - i128::from(now.as_nanos()) * self.count).max(0)
    }

    /// Charges `cost`, and returns by how much it did not fit.
    fn charge(&mut self, now: Timestamp, cost: u64) -> i128 {
        let debt = self.debt(now) + i128::from(cost) * self.interval;
        self.tat = i128::from(now.as_nanos()) * self.count + debt;
        debt - self.tau
    }

    /// Takes off `amount`, at most all debt.
    fn lower(&mut self, now: Timestamp, amount: i128) {
        self.tat -= self.debt(now).min(amount);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// `checks` checks of a key with this cost.
    Check {
        checks: u64,
        cost: u64,
    },
    Peek,
    ReturnLeases,
    /// This share of the burst tolerance passes, in 1/256, and some nanoseconds.
    Wait {
        share: u64,
        nanos: u64,
    },
    /// A peer's consumption arrives: units.
    Charge {
        units: u64,
    },
    /// Units are given back.
    Refund {
        units: u64,
    },
    Reset,
}

fn step() -> impl Strategy<Value = (usize, usize, Step)> {
    let checks = prop_oneof![Just(1_u64), 1_u64..20, 60_u64..400];
    let cost = prop_oneof![8 => Just(1_u64), 1 => 2_u64..12];
    let share = prop_oneof![4 => Just(0_u64), 4 => 0_u64..8, 1 => 0_u64..300];
    let step = prop_oneof![
        12 => (checks, cost).prop_map(|(checks, cost)| Step::Check { checks, cost }),
        1 => Just(Step::Peek),
        1 => Just(Step::ReturnLeases),
        4 => (share, 0_u64..2_000).prop_map(|(share, nanos)| Step::Wait { share, nanos }),
        1 => (1_u64..50).prop_map(|units| Step::Charge { units }),
        1 => (1_u64..400).prop_map(|units| Step::Refund { units }),
    ];
    let step = prop_oneof![40 => step, 1 => Just(Step::Reset)];
    (0..THREADS, prop_oneof![5 => Just(0_usize), 1 => 0..KEYS], step)
}

fn whole_interval_quota() -> impl Strategy<Value = Quota> {
    let nanos = prop_oneof![Just(1_u64), 1_u64..100, 1_u64..10_000_000];
    (nanos, prop_oneof![64 * LEAST..5_000, 5_000_u64..20_000])
        .prop_map(|(nanos, burst)| Quota::new(1, Duration::from_nanos(nanos)).burst(burst))
}

/// What a test follows of one key.
struct Followed {
    /// Charged what was admitted.
    exact: Bucket,
    /// Charged a sixteenth more than that, and what peers consumed.
    generous: Bucket,
}

impl Followed {
    fn new(quota: &Quota) -> Self {
        Self { exact: Bucket::new(quota, 16), generous: Bucket::new(quota, 17) }
    }

    fn lower(&mut self, now: Timestamp, units: u64) {
        let amount = i128::from(units) * self.exact.interval;
        self.exact.lower(now, amount);
        self.generous.lower(now, amount);
    }
}

/// Units that checks of one unit would be admitted now, one by one.
fn left(limiter: &Limiter<Quota, ManualClock>, key: KeyHash) -> u64 {
    let (table, gcra) = limiter.parts();
    let now = gcra.scale().instant(limiter.clock().now());
    let word = gcra.answer(table.home(key).update(now, || now, |_, _| None), 0);
    word.remaining() + limiter.leased(key)
}

fn hold(
    limiter: &Limiter<Quota, ManualClock>,
    key: KeyHash,
    followed: &mut Followed,
    decision: &Decision,
    cost: u64,
) -> Result<(), TestCaseError> {
    let (now, quota) = (limiter.clock().now(), limiter.quota());
    if decision.is_allowed() && cost > 0 {
        let excess = followed.exact.charge(now, cost);
        prop_assert!(excess <= 0, "{excess} beyond the bucket");
        followed.generous.charge(now, cost);
    } else if cost == 1 {
        prop_assert_eq!(limiter.leased(key), 0, "denied while units are leased");
        if limiter.leases_on().backing == 0 {
            return Ok(());
        }
        // The units that may be lost besides: one lease of each stripe, what threads hold, and one
        // whose interval has begun.
        let most = quota.burst_size() / SHARE + THREADS as u64 * limiter.leases_on().max_cached + 2;
        let lost = i128::from(most) * followed.exact.interval;
        let debt = followed.generous.debt(now) + followed.generous.interval + lost;
        prop_assert!(debt > followed.generous.tau, "denied too early");
    }
    prop_assert!(decision.remaining() <= left(limiter, key), "remaining is too much");
    let reset = decision.reset_after().as_nanos() as i128 * followed.exact.count;
    prop_assert!(reset >= followed.exact.debt(now), "reset is too early");
    let most = quota.burst_size() / SHARE + limiter.leases_on().max_cached;
    prop_assert!(limiter.leased(key) <= most, "too much is leased");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn leases_admit_what_an_exact_bucket_admits_and_hardly_less(
        quota in whole_interval_quota(),
        units in LEAST..300,
        backing in prop_oneof![Just(BACKING), Just(0)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let limiter = limiter_backed(quota, units, backing);
        let tau = quota.debt_of(quota.burst_size());
        let mut all: Vec<_> = (0..KEYS).map(|_| Followed::new(&quota)).collect();
        let threads: Vec<_> = (0..THREADS).map(|_| Magazines::empty()).collect();
        for (thread, index, step) in steps {
            Seat::sit(thread % STRIPES);
            threads[thread].swap();
            let (key, followed) = (key(index), &mut all[index]);
            match step {
                Step::Check { checks, cost } => for _ in 0..checks {
                    let decision = limiter.check_n(key, cost);
                    hold(&limiter, key, followed, &decision, cost)?;
                },
                Step::Peek => {
                    let decision = limiter.peek(key);
                    hold(&limiter, key, followed, &decision, 0)?;
                }
                Step::ReturnLeases => limiter.return_leases(),
                Step::Wait { share, nanos } => {
                    let share = tau.as_nanos() as u64 / 256 * share;
                    limiter.clock().advance(Duration::from_nanos(share + nanos));
                }
                Step::Charge { units } => {
                    let now = limiter.clock().now();
                    limiter.charge_debt(key, quota.debt_of(units), now);
                    followed.generous.charge(now, units);
                }
                Step::Refund { units } => {
                    limiter.refund(key, units);
                    followed.lower(limiter.clock().now(), units);
                }
                Step::Reset => {
                    limiter.reset(key);
                    followed.lower(limiter.clock().now(), u64::MAX);
                }
            }
            threads[thread].swap();
        }
    }
}

/// Checks from all seats until the word and every lease of the key are used up.
fn exhaust(limiter: &Limiter<Quota, ManualClock>, key: KeyHash) -> u64 {
    let admitted = |seat| {
        Seat::sit(seat);
        let most = 2 * limiter.quota().burst_size();
        (0..most).take_while(|_| limiter.check(key).is_allowed()).count() as u64
    };
    (0..STRIPES).map(admitted).sum()
}

/// The first half of a lease expires unused: what is admitted afterwards is one burst.
#[test]
fn a_unit_that_has_drained_is_not_used() {
    let quota = Quota::per_second(1).burst(5_000);
    let limiter = limiter(quota, 64);
    let key = key(0);
    Seat::sit(0);
    let mut used = 0;
    while limiter.leased(key) < 32 {
        assert!(limiter.check(key).is_allowed());
        used += 1;
    }
    let leased = limiter.leased(key);
    limiter.clock().advance(quota.debt_of(used + leased / 2));
    assert_eq!(limiter.leased(key), leased - leased / 2);
    assert_eq!(exhaust(&limiter, key), 5_000);
}

/// Threads run one after another, and each one's lease expires before it runs again: what expires
/// unused is a sixteenth of what is used, and half of that for what is cached, not a lease
/// each time.
#[test]
fn few_units_drain_unused() {
    const ROUNDS: u64 = 3_000;
    const CHECKS: u64 = 80;
    /// Debt that is left when the next thread runs, in units.
    const LEFT: u64 = 40;
    let quota = Quota::new(1, Duration::from_micros(1)).burst(20_000);
    let limiter = limiter(quota, 256);
    assert_eq!(limiter.lease_units(), 256);
    let debt = |key| limiter.peek(key).reset_after().as_nanos() as u64 / 1_000;
    let key = key(0);
    let mut drained = 0;
    let threads: Vec<_> = (0..THREADS).map(|_| Magazines::empty()).collect();
    for round in 0..ROUNDS as usize {
        let magazines = &threads[round % THREADS];
        magazines.swap();
        Seat::sit(round % STRIPES);
        for _ in 0..CHECKS {
            assert!(limiter.check(key).is_allowed());
        }
        magazines.swap();
        // The key is never fresh, so all its debt is from charges.
        let wait = debt(key) - LEFT;
        drained += wait;
        limiter.clock().advance(quota.debt_of(wait));
    }
    let used = ROUNDS * CHECKS;
    let unused = drained + debt(key) - used;
    assert!(unused > 1_000, "hardly anything was leased: {unused}");
    let most = used / 16 + used / u64::from(BACKING) + 256 * STRIPES as u64;
    assert!(unused <= most, "{unused} of {used} drained unused");
}

#[test]
fn a_forgotten_key_leaves_no_lease_behind() {
    let quota = Quota::per_second(1).burst(10_000);
    let table = Table::with_lines(2, Tat).unwrap();
    let leases = Leases::striped(100, &Gcra::exact(&quota).unwrap(), STRIPES);
    let limiter = Limiter::for_tests(
        quota,
        ManualClock::new(),
        table,
        leases.map_or(Mode::Word, |leases| Mode::Extended(Extended::Leased(leases))),
    );
    Seat::sit(0);
    for _ in 0..2_000 {
        assert!(limiter.check(key(0)).is_allowed());
    }
    assert!(limiter.leased(key(0)) > 0);
    for other in 1..9 {
        assert!(limiter.check_n(key(other), 5_000).is_allowed());
    }
    assert_eq!(limiter.evicted(), 1);
    assert_eq!(limiter.check(key(0)).remaining(), quota.burst_size() - 1);
    // Only a word that has grown past the lease again could make it count, and never beyond a
    // lease.
    let admitted = 1 + exhaust(&limiter, key(0));
    assert!((10_000..=10_000 + limiter.lease_units()).contains(&admitted), "{admitted}");
}

/// A refund moves the word below leases that are out, and their intervals are charged again. What
/// is admitted less what was refunded keeps to the burst nevertheless.
#[test]
fn refunds_below_a_lease_admit_no_more_than_was_refunded() {
    let quota = Quota::per_second(1).burst(5_000);
    let limiter = limiter(quota, 64);
    let (table, gcra) = limiter.parts();
    let (key, mut random) = (key(0), 1_u64);
    let (mut admitted, mut refunded) = (0, 0);
    for _ in 0..300 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        Seat::sit(random as usize % STRIPES);
        for _ in 0..random % 512 {
            admitted += u64::from(limiter.check(key).is_allowed());
        }
        let units = (random >> 20) % 128;
        if refunded + units <= admitted {
            let lowered = |tat: u64, _| tat.checked_sub(units * gcra.interval());
            let update = table.home(key).update(0, || 0, lowered);
            refunded +=
                units * u64::from(matches!(update, crate::base::word::Update::Written { .. }));
        }
        assert!(admitted - refunded <= 5_000, "{admitted} admitted, {refunded} refunded");
    }
    admitted += exhaust(&limiter, key);
    assert!(admitted - refunded <= 5_000, "{admitted} admitted, {refunded} refunded");
    assert!(refunded > 1_000 && admitted > 5_000);
}

/// A refund reaches into a lease, the key is idle, and is charged again until its word is what it
/// was when the lease was taken. The lease gives back, and admits, no more than was left of it.
#[test]
fn a_lease_that_was_refunded_is_neither_used_nor_returned() {
    for returns in [false, true] {
        let quota = Quota::per_second(1).burst(5_000);
        let limiter = limiter(quota, 64);
        let key = key(0);
        Seat::sit(0);
        while limiter.leased(key) < 16 {
            assert!(limiter.check(key).is_allowed());
        }
        let leased = limiter.leased(key);
        let end = limiter.peek(key).reset_after();
        limiter.refund(key, leased);
        // All that is owed has drained but half of what was leased.
        limiter.clock().advance(end.saturating_sub(quota.debt_of(leased / 2)));
        let mut admitted = 0;
        while limiter.peek(key).reset_after() < quota.debt_of(leased / 2) {
            Seat::sit(1);
            assert!(limiter.check(key).is_allowed());
            admitted += 1;
        }
        Seat::sit(0);
        if returns {
            limiter.return_leases();
        }
        admitted += exhaust(&limiter, key);
        assert_eq!(admitted, 5_000, "returned: {returns}");
    }
}

/// A caller whose time is before that at which a lease was charged is admitted no more of it than
/// fits at its own time.
#[test]
fn an_earlier_time_uses_no_unit_that_did_not_fit_then() {
    let quota = Quota::per_second(1).burst(5_000);
    let limiter = limiter(quota, 64);
    let key = key(0);
    Seat::sit(0);
    limiter.clock().advance(quota.debt_of(1_000));
    let mut used = 0;
    let is_held = || limiter.leases_on().cached(key).is_some_and(|(_, _, block)| block.units > 0);
    while used < 4_500 || !is_held() {
        assert!(limiter.check(key).is_allowed());
        used += 1;
    }
    let early = Timestamp::from_nanos(quota.debt_of(400).as_nanos() as u64);
    assert!(!limiter.check_at(key, 1, early).is_allowed());
    assert!(limiter.check(key).is_allowed());
}

/// A thread that stalls for ever while an entry is busy keeps no other from deciding, from leasing
/// elsewhere or from giving back.
#[test]
fn a_thread_that_stops_while_it_fills_an_entry_stops_no_other() {
    let quota = Quota::per_second(1).burst(5_000);
    let limiter = limiter(quota, 64);
    let leases = limiter.leases_on();
    let entry = leases.stripes[0].entry(key(0));
    let parked = entry.begin(entry.lease().unwrap()).unwrap();
    Seat::sit(1);
    for _ in 0..1_000 {
        assert!(limiter.check(key(0)).is_allowed());
    }
    assert!(limiter.leased(key(0)) > 0);
    Seat::sit(0);
    limiter.return_leases();
    assert!(limiter.check(key(0)).is_allowed());
    assert_eq!(1_001 + exhaust(&limiter, key(0)), 5_000);
    parked.empty();
}
