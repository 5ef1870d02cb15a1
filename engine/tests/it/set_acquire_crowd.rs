//! Many sets that wait for the same limits, and give up: no limit is exceeded, and little of the
//! tightest is lost.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::set::{Ask, SetDecision};
use tidegate_engine::{Clock, FixedWindow, LimitSet, Limiter, ManualClock, Quota};

use crate::set_acquire::{limiter, run};
use crate::waiting::{ManualTimer, Task};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

type Bucket = Limiter<Quota, ManualClock>;

/// Limits, and what was admitted of each.
struct World {
    timer: ManualTimer,
    quotas: Vec<Quota>,
    limits: Vec<Bucket>,
    admitted: Vec<Vec<(Timestamp, u64)>>,
}

/// A caller that acquires again and again: which limits, at what cost, and when it gives up.
#[derive(Clone, Debug)]
struct Caller {
    asks: Vec<usize>,
    cost: u64,
    patience: Duration,
    wait: Duration,
}

struct Call<'w> {
    task: Task<'w, SetDecision<'w, Vec<Ask<'w>>>>,
    since: Timestamp,
}

impl World {
    fn new(quotas: &[Quota]) -> Self {
        let timer = ManualTimer::new();
        let limits = quotas.iter().map(|quota| limiter(*quota, &timer)).collect();
        Self { timer, quotas: quotas.to_vec(), limits, admitted: vec![Vec::new(); quotas.len()] }
    }

    /// Lets the callers go on for `steps` milliseconds; the wakes and the calls of all.
    fn run(&mut self, callers: &[Caller], steps: u32) -> (u64, u64) {
        let Self { timer, limits, admitted, .. } = self;
        let (mut wakes, mut count) = (0, 0);
        let mut calls: Vec<Option<Call<'_>>> = callers.iter().map(|_| None).collect();
        for _ in 0..steps {
            let now = timer.clock.now();
            // Until none is woken any more: a caller that moves up may start at once.
            let mut begin = true;
            for turn in 0.. {
                assert!(turn < 1_000, "they wake each other for ever");
                for (caller, call) in callers.iter().zip(&mut calls) {
                    let mut done = None;
                    if let Some(Call { task, since }) = call {
                        done = task.poll_if_woken();
                        if done.is_some() || now.since(*since) >= caller.patience {
                            wakes += task.wakes();
                            *call = None;
                        }
                    }
                    if call.is_none() && done.is_none() && begin {
                        let ask = |limit: &usize| limits[*limit].ask("k", caller.cost);
                        let set = LimitSet::new(caller.asks.iter().map(ask).collect::<Vec<_>>());
                        let mut task = Task::new(set.acquire_on(&*timer, caller.wait));
                        count += 1;
                        done = task.poll();
                        if done.is_none() {
                            *call = Some(Call { task, since: now });
                        }
                    }
                    if done.is_some_and(|decision| decision.is_allowed()) {
                        for limit in &caller.asks {
                            admitted[*limit].push((now, caller.cost));
                        }
                    }
                }
                begin = false;
                if !calls.iter().flatten().any(|call| call.task.is_woken()) {
                    break;
                }
            }
            timer.advance(MILLISECOND);
        }
        drop(calls);
        assert!(limits.iter().all(|limit| limit.waiters() == 0));
        (wakes, count)
    }

    /// The bound on what starts in any interval.
    fn keeps(&self) {
        for (limit, (quota, admitted)) in self.quotas.iter().zip(&self.admitted).enumerate() {
            let interval = quota.debt_of(1).as_nanos() as u64;
            let mut tat = 0;
            for (start, cost) in admitted {
                tat = tat.max(start.as_nanos()) + cost * interval;
                let debt = tat - start.as_nanos();
                assert!(debt <= quota.burst_size() * interval, "limit {limit} at {start:?}");
            }
        }
    }

    fn units(&self, limit: usize) -> u64 {
        self.admitted[limit].iter().map(|(_, cost)| cost).sum()
    }
}

fn every(millis: u64, burst: u64) -> Quota {
    Quota::new(1, Duration::from_millis(millis)).burst(burst)
}

/// The tightest of three limits is used as far as it can be, whichever caller hangs up.
#[test]
fn the_tightest_limit_is_used_up() {
    let mut lost = Vec::new();
    for bursts in [[1, 1, 1], [10, 10, 10], [1, 5, 30], [5, 1, 1]] {
        for patience in [20, 50, 100, 150, 300, 700] {
            let [host, account, in_all] = bursts;
            let mut world = World::new(&[every(10, host), every(8, account), every(5, in_all)]);
            let caller = |index: usize| Caller {
                asks: [[0, 1, 2], [2, 1, 0], [1, 0, 2]][index % 3].to_vec(),
                cost: 1,
                patience: Duration::from_millis(patience),
                wait: SECOND,
            };
            let callers: Vec<_> = (0..60).map(caller).collect();
            world.run(&callers, 3_000);
            world.keeps();
            let units = world.units(0);
            lost.extend(
                (units < 285).then(|| format!("{units} of 300, bursts {bursts:?}, {patience} ms")),
            );
        }
    }
    assert!(lost.is_empty(), "{lost:?}");
}

/// Two accounts behind one host, all three with lines: none starves.
#[test]
fn sets_that_share_one_of_their_limits_all_start() {
    for bursts in [[1, 1, 1], [10, 10, 10], [20, 1, 1], [1, 5, 5]] {
        let [host, one, other] = bursts;
        let mut world = World::new(&[every(10, host), every(25, one), every(15, other)]);
        let caller = |index: usize| Caller {
            asks: [vec![0, 1], vec![2, 0], vec![0]][index % 3].clone(),
            cost: 1,
            patience: SECOND,
            wait: SECOND,
        };
        let callers: Vec<_> = (0..60).map(caller).collect();
        world.run(&callers, 5_000);
        world.keeps();
        let units = [0, 1, 2].map(|limit| world.units(limit));
        assert!(units[0] >= 475 && units[1] >= 150 && units[2] >= 150, "{units:?}, {bursts:?}");
    }
}

fn quota() -> impl Strategy<Value = Quota> {
    (prop::sample::select(vec![1, 2, 5, 10, 20, 50]), 1_u64..8)
        .prop_map(|(millis, burst)| every(millis, burst))
}

fn callers() -> impl Strategy<Value = Vec<Caller>> {
    let asks = prop::sample::subsequence(vec![0_usize, 1, 2], 1..=3).prop_shuffle();
    let caller =
        (asks, 1_u64..4, 1_u64..400, 0_u64..500).prop_map(|(asks, cost, patience, wait)| {
            let [patience, wait] = [patience, wait].map(Duration::from_millis);
            Caller { asks, cost, patience, wait }
        });
    prop::collection::vec(caller, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever sets ask for, wait and give up, no limit admits more than it states, and nothing is
    /// left of what they held.
    #[test]
    fn no_limit_is_exceeded_by_sets_that_wait(
        quotas in prop::collection::vec(quota(), 3),
        callers in callers(),
    ) {
        let mut world = World::new(&quotas);
        world.run(&callers, 600);
        world.keeps();
        // Every place has been given up: what is owed is at most a burst.
        for (limit, quota) in world.limits.iter().zip(&quotas) {
            let burst = quota.debt_of(quota.burst_size());
            prop_assert!(limit.peek("k").reset_after() <= burst);
        }
    }

    /// The same, with a window that has no line.
    #[test]
    fn a_window_is_not_exceeded_by_sets_that_wait(
        (millis, limit) in (1_u64..100, 1_u64..6),
        quota in quota(),
        waits in prop::collection::vec((1_u64..300, 0_u64..300), 1..12),
    ) {
        let timer = ManualTimer::new();
        let bucket = limiter(quota, &timer);
        let width = Duration::from_millis(millis);
        let window = Limiter::builder(FixedWindow::new(limit, width)).capacity(1);
        let window = window.clock(timer.clock.clone()).build().unwrap();
        let mut tasks: Vec<_> = waits.iter().map(|_| None).collect();
        let mut admitted = std::collections::BTreeMap::<u64, u64>::new();
        for step in 0..400_u64 {
            for ((patience, wait), slot) in waits.iter().zip(&mut tasks) {
                if slot.as_ref().is_none_or(|(_, since)| step - since >= *patience) {
                    let asks = [window.ask("k", 1), bucket.ask("k", 1)];
                    let wait = Duration::from_millis(*wait);
                    *slot = Some((Task::new(LimitSet::new(asks).acquire_on(&timer, wait)), step));
                }
                let Some((task, since)) = slot else { continue };
                let polled = if *since == step { task.poll() } else { task.poll_if_woken() };
                let Some(decision) = polled else { continue };
                *slot = None;
                if decision.is_allowed() {
                    let number = timer.clock.now().as_nanos() / width.as_nanos() as u64;
                    *admitted.entry(number).or_default() += 1;
                }
            }
            timer.advance(MILLISECOND);
        }
        prop_assert!(admitted.values().all(|units| *units <= limit), "{admitted:?}");
        drop(tasks);
        prop_assert_eq!(bucket.waiters(), 0);
    }
}

/// The start of a place has come, and it was not looked at since, because the set still waits
/// for another: what is given back in front of it moves it up.
#[test]
fn units_given_back_before_a_place_that_has_started_are_not_admitted_twice() {
    let timer = ManualTimer::new();
    let early = limiter(Quota::per_second(10), &timer);
    let late = limiter(Quota::new(1, 900 * MILLISECOND).burst(1), &timer);
    assert!(late.check("k").is_allowed());
    let reserved = early.reserve("k", 5).unwrap();
    assert!(early.check_n("k", 5).is_allowed());
    let set = LimitSet::new([early.ask("k", 1), late.ask("k", 1)]);
    let mut task = Task::begun(set.acquire_on(&timer, 5 * SECOND));
    timer.advance(200 * MILLISECOND);
    reserved.cancel();
    timer.advance(690 * MILLISECOND);
    let others = (0..20).filter(|_| early.check("k").is_allowed()).count() as u32;
    let (decision, passed) = run(&timer, MILLISECOND, &mut task);
    assert!(decision.is_allowed());
    // In an interval of `passed`: the others and the set.
    let most = 10 + passed.as_millis() as u32 / 100;
    assert!(others < most, "{} in {passed:?}", others + 1);
}
