//! loom models of sets and reservations on limiters of one line. Those of two threads are complete:
//! every order and every value a load may see. Those of three have the stated bound on preemptions
//! a run.
//!
//! The steps are those of the table, which has models of its own; the subject here is what threads
//! see of each other between them. Time stands still, and a unit is one nanosecond of debt.

use core::time::Duration;

use loom::sync::Arc;
use loom::thread;

use crate::base::key::KeyHasher;
use crate::contract::wait::Waiters;
use crate::direct::counter::SubWindowCounter;
use crate::direct::limiter::DirectLimiter;
use crate::explore::explore;
use crate::limiter::mode::{Extended, Mode};
use crate::limiter::models::Still;
use crate::limiter::{Limiter, Parts};
use crate::rule::gcra::{Gcra, Tat};
use crate::rule::quota::Quota;
use crate::table::Table;

use super::LimitSet;

/// Two threads: no bound.
const COMPLETE: Option<usize> = None;
/// Three threads.
const TRIO: Option<usize> = Some(3);

const BURST: u64 = 3;

type Limiters<const N: usize> = [Limiter<Quota, Still>; N];

/// A limiter whose key "key" has this debt.
fn limiter(owed: u64) -> Limiter<Quota, Still> {
    limiter_with(owed, Mode::Word)
}

/// The same, charging denied checks up to a burst beyond the burst.
fn charging(owed: u64) -> Limiter<Quota, Still> {
    limiter_with(owed, Mode::Extended(Extended::ChargedDenials(1)))
}

fn limiter_with(owed: u64, mode: Mode) -> Limiter<Quota, Still> {
    let rule = Quota::per_second(1_000_000_000).burst(BURST);
    let limiter = Limiter::from_parts(Parts {
        rule,
        algorithm: Gcra::exact(&rule).unwrap(),
        hasher: KeyHasher::rapid(1),
        clock: Still,
        table: Table::with_lines(1, Tat).unwrap(),
        mode,
        observer: (),
        waiters: Waiters::new(0),
    });
    if owed > 0 {
        assert!(limiter.check_n("key", owed).is_allowed());
    }
    limiter
}

fn owed(limiter: &Limiter<Quota, Still>) -> u64 {
    limiter.peek("key").reset_after().as_nanos() as u64
}

/// Whether a set of one unit of each limiter, named in this order, is admitted.
fn set<const N: usize>(limiters: &Limiters<N>, order: [usize; 2]) -> bool {
    let asks = order.map(|limiter| limiters[limiter].ask("key", 1));
    LimitSet::new(asks).check().is_allowed()
}

/// Each limiter has one unit left, and each thread needs both.
#[test]
fn two_sets_in_opposite_order_take_last_units_once() {
    explore(COMPLETE, || {
        let limiters: Arc<Limiters<2>> = Arc::new([BURST - 1; 2].map(limiter));
        let other = {
            let limiters = Arc::clone(&limiters);
            thread::spawn(move || set(&limiters, [1, 0]))
        };
        let admitted = set(&limiters, [0, 1]);
        assert_ne!(admitted, other.join().unwrap());
        assert!(limiters.iter().all(|limiter| owed(limiter) == BURST));
    });
}

/// Two units are left, and each set asks for both of them one by one.
#[test]
fn two_sets_that_ask_a_key_twice_take_last_units_once() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(BURST - 2));
        let twice = |limiter: &Limiter<Quota, Still>| {
            LimitSet::new([limiter.ask("key", 1), limiter.ask("key", 1)]).check().is_allowed()
        };
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || twice(&limiter))
        };
        let admitted = twice(&limiter);
        assert_ne!(admitted, other.join().unwrap());
        assert_eq!(owed(&limiter), BURST);
    });
}

/// Three sets form a ring, in which each shares a last unit with each of the others: exactly one of
/// them is admitted and charged for.
#[test]
fn of_three_sets_in_a_ring_one_is_admitted() {
    explore(TRIO, || {
        let limiters: Arc<Limiters<3>> = Arc::new([BURST - 1; 3].map(limiter));
        let spawn = |order| {
            let limiters = Arc::clone(&limiters);
            thread::spawn(move || set(&limiters, order))
        };
        let others = [[1, 2], [2, 0]].map(spawn);
        let admitted = u64::from(set(&limiters, [0, 1]));
        let admitted =
            others.into_iter().fold(admitted, |sum, other| sum + u64::from(other.join().unwrap()));
        assert_eq!(admitted, 1);
        let charged: u64 = limiters.iter().map(|limiter| owed(limiter) - (BURST - 1)).sum();
        assert_eq!(charged, 2);
    });
}

/// Limits of three kinds, each with one unit left, which two threads need all of.
#[test]
fn a_set_of_mixed_kinds_takes_last_units_once() {
    struct Mixed {
        keyed: Limiter<Quota, Still>,
        single: DirectLimiter<Quota, Still>,
        counter: SubWindowCounter<Still>,
    }
    impl Mixed {
        fn check(&self, order: [usize; 3]) -> bool {
            let asks = [self.keyed.ask("key", 1), self.single.ask(1), self.counter.ask(1)];
            LimitSet::new(order.map(|place| asks[place].clone())).check().is_allowed()
        }

        fn left(&self) -> [u64; 3] {
            [self.keyed.peek("key"), self.single.peek(), self.counter.peek()]
                .map(|decision| decision.remaining())
        }
    }
    explore(COMPLETE, || {
        let second = Duration::from_secs(1);
        let single = DirectLimiter::builder(Quota::new(1, second).burst(1)).clock(Still);
        let mixed = Arc::new(Mixed {
            keyed: limiter(BURST - 1),
            single: single.build().unwrap(),
            counter: SubWindowCounter::with_sub_windows(1, second, 2, Still).unwrap(),
        });
        assert_eq!(mixed.left(), [1; 3]);
        let other = {
            let mixed = Arc::clone(&mixed);
            thread::spawn(move || mixed.check([2, 1, 0]))
        };
        let admitted = mixed.check([0, 1, 2]);
        assert_ne!(admitted, other.join().unwrap());
        assert_eq!(mixed.left(), [0; 3]);
    });
}

/// A check takes the last unit of either limiter, perhaps between the peek and the charge: what the
/// set took of the other one is given back.
#[test]
fn a_set_during_a_check_charges_all_or_nothing() {
    for contested in [0, 1] {
        explore(COMPLETE, move || {
            let limiters: Arc<Limiters<2>> = Arc::new([BURST - 1; 2].map(limiter));
            let check = {
                let limiters = Arc::clone(&limiters);
                thread::spawn(move || limiters[contested].check("key").is_allowed())
            };
            let admitted = set(&limiters, [0, 1]);
            assert_ne!(admitted, check.join().unwrap());
            assert_eq!(owed(&limiters[contested]), BURST);
            assert_eq!(owed(&limiters[1 - contested]), BURST - 1 + u64::from(admitted));
        });
    }
}

/// The same where the other thread wants both units by checks: it may be denied by what the set
/// gives back, but no caller is charged for nothing, nor admitted beyond the burst.
#[test]
fn a_check_may_be_denied_by_what_a_set_gives_back() {
    explore(COMPLETE, || {
        let limiters: Arc<Limiters<2>> = Arc::new([BURST - 1; 2].map(limiter));
        let checks = {
            let limiters = Arc::clone(&limiters);
            thread::spawn(move || {
                [1, 0].map(|index: usize| u64::from(limiters[index].check("key").is_allowed()))
            })
        };
        let admitted = u64::from(set(&limiters, [0, 1]));
        let [second, first] = checks.join().unwrap();
        assert!(admitted + second == 1 && admitted + first <= 1);
        assert_eq!(owed(&limiters[0]), BURST - 1 + admitted + first);
        assert_eq!(owed(&limiters[1]), BURST - 1 + admitted + second);
    });
}

/// Each denial is charged once, to the limit that has no room.
#[test]
fn denied_sets_charge_the_limit_without_room() {
    explore(COMPLETE, || {
        let limiters: Arc<Limiters<2>> = Arc::new([charging(BURST), limiter(0)]);
        let other = {
            let limiters = Arc::clone(&limiters);
            thread::spawn(move || set(&limiters, [1, 0]))
        };
        assert!(!set(&limiters, [0, 1]) && !other.join().unwrap());
        assert_eq!((owed(&limiters[0]), owed(&limiters[1])), (BURST + 2, 0));
    });
}

/// Also of a key that is only being claimed.
#[test]
fn a_cancelled_reservation_leaves_what_a_check_took() {
    for before in [0, BURST - 1] {
        explore(COMPLETE, move || {
            let limiter = Arc::new(limiter(before));
            let check = {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || u64::from(limiter.check("key").is_allowed()))
            };
            if let Ok(reserved) = limiter.reserve("key", 1) {
                assert!(owed(&limiter) > before);
                reserved.cancel();
            }
            let checked = check.join().unwrap();
            assert!(before > 0 || checked == 1);
            assert_eq!(owed(&limiter), before + checked);
        });
    }
}

/// What one gives back of its reservation is not taken from that of the other.
#[test]
fn two_reservations_settle_on_what_was_used() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(1));
        let settle = |limiter: &Limiter<Quota, Still>, actual| {
            limiter.reserve("key", 1).map_or(0, |reserved| {
                let _ = reserved.commit(actual);
                actual
            })
        };
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || settle(&limiter, 2))
        };
        let used = settle(&limiter, 0) + other.join().unwrap();
        assert_eq!(owed(&limiter), 1 + used);
    });
}
