//! Sets of limits against an exact sequential oracle, and against real threads.

use std::collections::HashMap;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use crate::exact::{Oracle, answer};
use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::observer::ObservedKey;
use tidegate_engine::set::Ask;
use tidegate_engine::{
    Clock, Decision, FixedWindow, LimitSet, Limiter, ManualClock, Observer, Quota,
};

type Manual = Limiter<Quota, ManualClock>;

fn limiter(quota: Quota) -> (Manual, ManualClock) {
    let clock = ManualClock::new();
    (on(quota, &clock), clock)
}

fn on(quota: Quota, clock: &ManualClock) -> Manual {
    Limiter::builder(quota).capacity(13_107).clock(clock.clone()).build().unwrap()
}

fn remaining(limiter: &Manual, key: &str) -> u64 {
    limiter.peek(key).remaining()
}

#[test]
fn the_limit_that_blocks_is_named_with_the_longest_wait() {
    let (minute, clock) = limiter(Quota::per_minute(6).burst(6));
    let second = on(Quota::per_second(1).burst(2), &clock);
    let hour = on(Quota::per_hour(4).burst(100), &clock);
    let ask = |cost| {
        [
            second.ask("s", cost).named("second"),
            minute.ask("m", cost).named("minute"),
            hour.ask("h", 1).named("hour"),
        ]
    };
    let allowed = LimitSet::new(ask(2)).check();
    assert!(allowed.is_allowed() && allowed.blocked().is_none());
    assert_eq!(allowed.retry_after(), Some(Duration::ZERO));
    assert_eq!(allowed.decisions().map(|d| d.remaining()).collect::<Vec<_>>(), [0, 4, 99]);
    assert_eq!(allowed.tightest().unwrap().limit(), 2);

    assert!(minute.check_n("m", 4).is_allowed());
    let denied = LimitSet::new(ask(2)).check();
    let blocked = denied.blocked().unwrap();
    assert_eq!((blocked.index(), blocked.name()), (1, "minute"));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(20)));
    assert_eq!(denied.tightest(), Some(blocked.decision()));
    assert_eq!(
        denied.decisions().map(|d| d.is_allowed()).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert_eq!(remaining(&hour, "h"), 99);

    let never = LimitSet::new(ask(5)).check();
    assert_eq!((never.blocked().unwrap().name(), never.retry_after()), ("second", None));
    // The wait is enough for all.
    clock.advance(denied.retry_after().unwrap());
    assert!(LimitSet::new(ask(2)).check().is_allowed());
}

#[test]
fn limits_of_different_algorithms_make_a_set() {
    let (bucket, clock) = limiter(Quota::per_second(1).burst(5));
    let window = FixedWindow::new(2, Duration::from_mins(1));
    let window = Limiter::builder(window).capacity(1).clock(clock).build().unwrap();
    let check = |cost| LimitSet::new([bucket.ask("key", 1), window.ask("key", cost)]).check();
    assert!(check(2).is_allowed());
    let denied = check(1);
    assert_eq!(denied.retry_after(), Some(Duration::from_mins(1)));
    assert_eq!((denied.blocked().unwrap().index(), remaining(&bucket, "key")), (1, 4));
    assert_eq!(check(3).retry_after(), None);
}

#[test]
fn a_set_can_be_an_array_a_vector_a_slice_or_nothing() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    let asks = [limiter.ask("a", 1), limiter.ask("b", 2)];
    assert!(LimitSet::new(asks.clone()).check().is_allowed());
    assert!(LimitSet::new(asks.to_vec()).check().is_allowed());
    assert!(LimitSet::new(&mut { asks }[..]).check().is_allowed());
    assert_eq!((remaining(&limiter, "a"), remaining(&limiter, "b")), (7, 4));
    let nothing = LimitSet::new([]).check();
    assert!(nothing.is_allowed() && nothing.tightest().is_none());
    assert_eq!(nothing.retry_after(), Some(Duration::ZERO));
}

#[test]
fn a_peek_charges_nothing_and_says_the_same() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(3));
    let asks = [limiter.ask("a", 3), limiter.ask("b", 4)];
    let (peeked, checked) =
        (LimitSet::new(asks.clone()).peek(), LimitSet::new(asks.clone()).check());
    assert_eq!((peeked.is_allowed(), peeked.blocked()), (false, checked.blocked()));
    assert!(LimitSet::new([limiter.ask("a", 3)]).peek().is_allowed());
    assert_eq!((remaining(&limiter, "a"), remaining(&limiter, "b")), (3, 3));
}

#[test]
fn a_cost_of_nothing_takes_nothing_and_blocks_where_a_peek_is_denied() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(3));
    let asks = [limiter.ask("a", 3), limiter.ask("b", 0)];
    assert!(limiter.check_n("b", 3).is_allowed());
    assert!(LimitSet::new(asks.clone()).check().is_allowed());
    let _ = limiter.charge("b", 1);
    limiter.reset("a");
    let denied = LimitSet::new(asks.clone()).check();
    assert_eq!(denied.blocked().unwrap().index(), 1);
    assert_eq!(remaining(&limiter, "a"), 3);
}

#[test]
fn a_reservation_of_several_limits_is_settled_on_each() {
    let (requests, clock) = limiter(Quota::per_minute(1).burst(10));
    let tokens = on(Quota::per_minute(1).burst(1_000), &clock);
    let asks = [requests.ask("user", 1), tokens.ask("user", 400)];
    let left = LimitSet::new(asks.clone()).reserve().unwrap().commit([1, 150]).unwrap();
    assert_eq!((left.limit(), left.remaining()), (10, 9));
    assert_eq!((remaining(&requests, "user"), remaining(&tokens, "user")), (9, 850));
    drop(LimitSet::new(asks.clone()).reserve().unwrap());
    LimitSet::new(asks.clone()).reserve().unwrap().cancel();
    assert_eq!((remaining(&requests, "user"), remaining(&tokens, "user")), (9, 850));
    let kept = LimitSet::new(asks.clone()).reserve().unwrap().keep();
    assert_eq!(kept.unwrap().remaining(), 8);
    let denied = LimitSet::new([requests.ask("user", 1), tokens.ask("user", 451)]).reserve();
    assert_eq!(denied.unwrap_err().blocked().unwrap().index(), 1);
    let debt = LimitSet::new(asks.clone()).reserve().unwrap().commit([1, 451]).unwrap();
    assert_eq!((debt.is_allowed(), debt.limit()), (false, 1_000));
}

#[test]
fn asks_in_a_vector_are_settled_by_place_or_name() {
    let (limiter, _) = limiter(Quota::per_minute(1).burst(1_000));
    let asks = vec![limiter.ask("a", 10).named("first"), limiter.ask("b", 400)];
    let reserved = LimitSet::new(asks).reserve().unwrap();
    let left = reserved.commit_with(|index, ask| match (index, ask.name()) {
        (0, "first") => ask.cost(),
        (1, "") => 150,
        other => panic!("{other:?}"),
    });
    assert_eq!(left.unwrap().remaining(), 850);
    assert_eq!((remaining(&limiter, "a"), remaining(&limiter, "b")), (990, 850));
    assert_eq!(LimitSet::new(Vec::new()).reserve().unwrap().keep(), None);
}

#[test]
fn what_a_panic_has_left_unsettled_is_given_back() {
    let (limiter, _) = limiter(Quota::per_minute(1).burst(10));
    let asks = ["a", "b", "c"].map(|key| limiter.ask(key, 4));
    let reserved = LimitSet::new(asks).reserve().unwrap();
    let settle = || reserved.commit_with(|index, _| if index == 1 { panic!("b") } else { 3 });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(settle)).is_err());
    assert_eq!(["a", "b", "c"].map(|key| remaining(&limiter, key)), [10, 10, 7]);
}

/// Asks of one key are one charge: what later asks settled on is kept.
#[test]
fn a_panic_between_two_asks_of_a_key_keeps_what_the_later_one_used() {
    let (limiter, clock) = limiter(Quota::per_minute(1).burst(10));
    let asks = [1, 2, 3].map(|cost| limiter.ask("key", cost));
    let checked = LimitSet::new(asks.clone()).check();
    assert!(checked.decisions().all(|decision| decision.remaining() == 4));
    limiter.reset("key");
    let reserved = LimitSet::new(asks.clone()).reserve().unwrap();
    let settle = || reserved.commit_with(|index, _| if index == 1 { panic!() } else { 2 });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(settle)).is_err());
    assert_eq!(remaining(&limiter, "key"), 8);
    limiter.reset("key");
    // Of six, three have drained, and four were used.
    let reserved = LimitSet::new(asks).reserve().unwrap();
    clock.advance(Duration::from_mins(3));
    assert_eq!(reserved.commit([0, 2, 2]).unwrap().remaining(), 9);
}

/// The later ask is settled first, so its result is not the final remainder.
#[test]
fn a_key_that_stands_twice_is_settled_on_both_costs() {
    let (limiter, clock) = limiter(Quota::per_minute(1).burst(10));
    let other = on(Quota::per_minute(1).burst(7), &clock);
    let asks = [limiter.ask("key", 4), other.ask("key", 1), limiter.ask("key", 4)];
    let left = LimitSet::new(asks.clone()).reserve().unwrap().commit([0, 0, 1]).unwrap();
    assert_eq!((left.limit(), left.remaining()), (7, 7));
    assert_eq!(remaining(&limiter, "key"), 9);
    let debt = LimitSet::new(asks.clone()).reserve().unwrap().commit([0, 1, 20]).unwrap();
    assert_eq!((debt.is_allowed(), debt.limit()), (false, 10));
    limiter.reset("key");
    let paid = LimitSet::new(asks.clone()).reserve().unwrap().commit([2, 0, 11]).unwrap();
    assert!(!paid.is_allowed());
    limiter.reset("key");
    let paid = LimitSet::new(asks.clone()).reserve().unwrap().commit([0, 0, 8]).unwrap();
    assert_eq!((paid.is_allowed(), paid.remaining()), (true, 2));
}

#[test]
fn observers_hear_of_denials_and_of_what_was_charged() {
    #[derive(Default)]
    struct Ears(Mutex<Vec<(u64, bool)>>);
    impl Observer for &Ears {
        fn on_decision(&self, _: ObservedKey<'_>, cost: u64, decision: &Decision) {
            self.0.lock().unwrap().push((cost, decision.is_allowed()));
        }
    }
    let (wide, narrow) = (Ears::default(), Ears::default());
    let build = |burst, ears| {
        let builder = Limiter::builder(Quota::per_hour(1).burst(burst)).capacity(1);
        builder.clock(ManualClock::new()).observer(ears).build().unwrap()
    };
    let limits = (build(10, &wide), build(3, &narrow));
    let set = || LimitSet::new([limits.0.ask("", 2), limits.1.ask("", 2)]);
    assert!(set().check().is_allowed());
    assert!(!set().check().is_allowed());
    assert!(!set().peek().is_allowed());
    assert_eq!(*wide.0.lock().unwrap(), [(2, true), (0, true), (0, true)]);
    assert_eq!(*narrow.0.lock().unwrap(), [(2, true), (2, false), (0, false)]);
}

/// A word that had been written and given back would be debt to a caller with an earlier time.
#[test]
fn a_set_that_is_denied_by_the_look_writes_nothing() {
    let clock = ManualClock::new();
    let limiters = [(); 3].map(|()| on(Quota::per_second(1).burst(5), &clock));
    clock.advance(Duration::from_secs(10));
    for blocked in 0..3 {
        let key = format!("key {blocked}");
        assert!(limiters[blocked].check_n(&key, 5).is_allowed());
        let asks = [0, 1, 2].map(|limit: usize| limiters[limit].ask(&key, 1));
        assert!(!LimitSet::new(asks).check().is_allowed());
        for other in (0..3).filter(|other| *other != blocked) {
            let earlier = limiters[other].check_at(&key, 0, Timestamp::ORIGIN);
            assert_eq!(earlier.reset_after(), Duration::ZERO, "{blocked}, {other}");
        }
    }
}

/// Which limit, which key, how much.
type Asked = (usize, u8, u64);

const LIMITS: usize = 4;

fn quotas() -> impl Strategy<Value = Vec<Quota>> {
    // Whole nanoseconds, so every figure is exact.
    let count = prop::sample::select(vec![1_u64, 5, 100, 40_000, 1_000_000_000]);
    let quota = (count, 1_u64..30)
        .prop_map(|(count, burst)| Quota::new(count, Duration::from_secs(1)).burst(burst));
    prop::collection::vec(quota, LIMITS)
}

fn requests() -> impl Strategy<Value = Vec<(u64, Vec<Asked>)>> {
    let cost = prop_oneof![8 => 0_u64..5, 2 => 0_u64..40, 1 => any::<u64>()];
    let asked = prop::collection::vec((0..LIMITS, 0_u8..2, cost), 0..6);
    let gap = prop_oneof![4 => 0_u64..3, 3 => 0_u64..30_000_000, 3 => 0_u64..2_000_000_000];
    prop::collection::vec((gap, asked), 1..80)
}

/// What each ask of a set lacks, after those before it, and whether it can ever fit.
fn missing(
    oracles: &HashMap<(usize, u8), Oracle>,
    quotas: &[Quota],
    now: u64,
    asked: &[Asked],
) -> Vec<(bool, Option<Duration>)> {
    let lacks = |(index, &(limit, key, _)): (usize, &Asked)| {
        let same = asked[..=index].iter().filter(|other| (other.0, other.1) == (limit, key));
        let cost = same.fold(0_u64, |sum, other| sum.saturating_add(other.2));
        let fresh = Oracle::new(&quotas[limit]);
        let oracle = oracles.get(&(limit, key)).unwrap_or(&fresh);
        let missing = oracle.missing(now, cost);
        let nanos = u64::try_from((missing.max(0) + oracle.count - 1) / oracle.count);
        let never = cost > quotas[limit].burst_size();
        (missing <= 0, (!never).then(|| Duration::from_nanos(nanos.unwrap())))
    };
    asked.iter().enumerate().map(lacks).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn all_is_charged_or_nothing(quotas in quotas(), requests in requests()) {
        let clock = ManualClock::new();
        let limiters: Vec<_> = quotas.iter().map(|quota| on(*quota, &clock)).collect();
        let mut oracles: HashMap<(usize, u8), Oracle> = HashMap::new();
        for (gap, asked) in requests {
            clock.advance(Duration::from_nanos(gap));
            let now = clock.now().as_nanos();
            let lacking = missing(&oracles, &quotas, now, &asked);
            let asks: Vec<Ask<'_>> =
                asked.iter().map(|&(limit, key, cost)| limiters[limit].ask(key, cost)).collect();
            let decision = LimitSet::new(asks).check();

            let allowed: Vec<_> = decision.decisions().map(|each| each.is_allowed()).collect();
            prop_assert_eq!(&allowed, &lacking.iter().map(|lacks| lacks.0).collect::<Vec<_>>());
            prop_assert_eq!(decision.is_allowed(), lacking.iter().all(|lacks| lacks.0));
            let waits = lacking.iter().filter(|lacks| !lacks.0).map(|lacks| lacks.1);
            let longest = waits.max_by_key(|wait| wait.unwrap_or(Duration::MAX));
            prop_assert_eq!(decision.retry_after(), longest.unwrap_or(Some(Duration::ZERO)));
            if let Some(blocked) = decision.blocked() {
                let first = lacking.iter().position(|lacks| !lacks.0 && Some(lacks.1) == longest);
                prop_assert_eq!(Some(blocked.index()), first);
            } else {
                for &(limit, key, cost) in asked.iter().filter(|asked| asked.2 > 0) {
                    let oracle = oracles.entry((limit, key));
                    oracle.or_insert_with(|| Oracle::new(&quotas[limit])).admit(now, cost);
                }
            }
            for (limit, limiter) in limiters.iter().enumerate() {
                for key in 0..2_u8 {
                    let mut fresh = Oracle::new(&quotas[limit]);
                    let oracle = oracles.get_mut(&(limit, key)).unwrap_or(&mut fresh);
                    prop_assert_eq!(answer(&limiter.peek(key)), oracle.check(now, 0));
                }
            }
        }
    }
}

/// The clock stands still, so each key owes what its admitted sets took, and never more than its
/// burst.
#[test]
fn sets_of_many_threads_add_up_on_every_limit() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 20_000;
    const KEYS: usize = 2;

    let clock = ManualClock::new();
    let bursts = [3_000, 4_000, 50_000];
    let limiters = bursts.map(|burst| on(Quota::per_second(1).burst(burst), &clock));
    let start = Barrier::new(THREADS as usize);
    let work = |thread: u64| {
        let (mut ledger, mut random) = ([[0; KEYS]; 3], thread + 1);
        start.wait();
        for _ in 0..TURNS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let asked = |place: u64| {
                let bits = random >> (place * 8);
                (bits as usize % 3, (bits >> 2) as usize % KEYS, bits >> 4 & 3)
            };
            let asked = [asked(0), asked(1), asked(2)];
            let asks = asked.map(|(limit, key, cost)| limiters[limit].ask(key, cost));
            let taken = if random & (1 << 40) == 0 {
                LimitSet::new(asks).check().is_allowed()
            } else if let Ok(reserved) = LimitSet::new(asks).reserve() {
                let used = random & (1 << 41) == 0;
                let _ = if used { reserved.keep() } else { reserved.commit([0; 3]) };
                used
            } else {
                false
            };
            for (limit, key, cost) in asked.into_iter().filter(|_| taken) {
                ledger[limit][key] += cost;
            }
        }
        ledger
    };
    let ledgers: Vec<_> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (limit, burst) in bursts.into_iter().enumerate() {
        for key in 0..KEYS {
            let taken: u64 = ledgers.iter().map(|ledger| ledger[limit][key]).sum();
            let owed = limiters[limit].peek(key).reset_after().as_secs();
            assert_eq!(owed, taken, "limit {limit}, key {key}");
            assert!(taken <= burst && taken > 0);
        }
    }
}

/// Of sets that compete for the last units one gets them, in whatever order they name the limits.
#[test]
fn of_sets_that_compete_for_last_units_one_is_admitted() {
    const ROUNDS: usize = 2_000;
    let clock = ManualClock::new();
    let limiters = [(); 2].map(|()| on(Quota::per_second(1).burst(1), &clock));
    let round = Barrier::new(2);
    let work = |order: [usize; 2]| {
        let compete = |key| {
            round.wait();
            let asks = order.map(|limit| limiters[limit].ask(key, 1));
            LimitSet::new(asks).check().is_allowed()
        };
        (0..ROUNDS).map(compete).collect::<Vec<_>>()
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| work([1, 0]));
        (work([0, 1]), second.join().unwrap())
    });
    for (key, admitted) in first.into_iter().zip(second).enumerate() {
        assert!(admitted.0 != admitted.1, "key {key}: {admitted:?}");
        assert!(limiters.iter().all(|limiter| limiter.peek(key).remaining() == 0));
    }
}

/// A clock that does something once when it is read.
#[derive(Default)]
struct Sly<'a>(Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>);

impl Clock for Sly<'_> {
    fn now(&self) -> Timestamp {
        let act = self.0.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
        Timestamp::ORIGIN
    }
}

/// A limit runs out between the first check and the charge: what was taken is given back, and the
/// answer is what the limits say then. With either of two limits, so that in one case it is not the
/// first one charged.
#[test]
fn trap_composite_limits_leak_tokens_when_a_later_one_denies() {
    for (runs_out, cost) in [(0, 3), (1, 3), (0, 1), (1, 1)] {
        let limiters = [(); 2].map(|()| on(Quota::per_second(1).burst(5), &ManualClock::new()));
        let (exhausted, other) = (&limiters[runs_out], &limiters[1 - runs_out]);
        let sly = Sly::default();
        let last = Limiter::builder(Quota::per_second(1).burst(5)).capacity(1).clock(&sly);
        let last = last.build().unwrap();
        *sly.0.lock().unwrap() =
            Some(Box::new(|| assert!(exhausted.check_n("key", 3).is_allowed())));
        // An ask admitted before: that charge is not part of this set, which must not give it back.
        let admitted = LimitSet::new([other.ask("key", 2)]).check();
        assert!(admitted.is_allowed());
        let decision = LimitSet::new([
            admitted.asks()[0].clone(),
            exhausted.ask("key", cost),
            exhausted.ask("key", 2),
            last.ask("key", 5),
        ])
        .check();
        // Two are left, and the second ask needs two in addition to the first one's.
        let blocked = decision.blocked().unwrap();
        assert_eq!(blocked.index(), 2);
        assert_eq!(decision.retry_after(), Some(Duration::from_secs(cost)));
        assert_eq!(exhausted.peek("key").remaining(), 2);
        assert_eq!((other.peek("key").remaining(), last.peek("key").remaining()), (3, 5));
    }
}
