//! loom models of what a limiter does besides checks, on one line of the table. Those of two
//! threads are complete: every order and every value a load may see. Those of three have the stated
//! bound on preemptions a run.
//!
//! The steps are those of the table, which has models of its own; these are about the results of
//! calls. Time does not pass, and a unit is one nanosecond of debt.

use core::time::Duration;

use loom::sync::Arc;
use loom::thread;

use crate::base::key::KeyHasher;
use crate::contract::snapshot::{SavedKey, Snapshot};
use crate::contract::wait::{Turn, Waiters};
use crate::explore::explore;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm as _;
use crate::rule::quota::Quota;
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::rule::window::SlidingWindow;
use crate::table::Table;
use crate::time::{Clock, Timestamp};

use super::{Limiter, Parts};

/// Two threads: no bound.
const COMPLETE: Option<usize> = None;
/// Three threads.
const TRIO: Option<usize> = Some(2);

const NOW: u64 = 100;
const PATIENCE: Duration = Duration::from_nanos(10);

/// Does not advance.
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(NOW)
    }
}

fn limiter<R: Rule>(rule: R) -> Limiter<R, Still> {
    let algorithm = rule.algorithm().expect("the rule can be enforced");
    let table = Table::with_lines(1, algorithm.state()).expect("a line fits");
    Limiter::from_parts(Parts {
        rule,
        algorithm,
        hasher: KeyHasher::rapid(1),
        clock: Still,
        table,
        mode: crate::limiter::mode::Mode::Word,
        observer: (),
        waiters: Waiters::new(8),
    })
}

fn quota(burst: u64) -> Quota {
    Quota::per_second(1_000_000_000).burst(burst)
}

fn spawn<R: Rule, T: 'static>(
    limiter: &Arc<Limiter<R, Still>>,
    run: impl FnOnce(&Limiter<R, Still>) -> T + 'static,
) -> thread::JoinHandle<T>
where
    Limiter<R, Still>: 'static,
{
    let limiter = Arc::clone(limiter);
    thread::spawn(move || run(&limiter))
}

fn owed(limiter: &Limiter<Quota, Still>, key: &str) -> u64 {
    limiter.peek(key).reset_after().as_nanos() as u64
}

/// Gives the key a slot, so that it need not be claimed.
fn know(limiter: &Limiter<Quota, Still>) {
    assert!(limiter.check("key").is_allowed());
    limiter.reset("key");
}

fn wait(limiter: &Limiter<Quota, Still>) -> Turn<'_, Limiter<Quota, Still>> {
    limiter.enqueue("key", 1, PATIENCE).expect("there is room to wait")
}

/// Takes a place on the key and keeps it; returns its start.
fn join(limiter: &Limiter<Quota, Still>) -> u64 {
    wait(limiter).schedule().as_nanos()
}

/// Also of a key whose slot is just being claimed.
#[test]
fn a_start_is_given_once() {
    explore(TRIO, || {
        let limiter = Arc::new(limiter(quota(1)));
        let others = [(); 2].map(|()| spawn(&limiter, join));
        let mut starts = vec![join(&limiter)];
        starts.extend(others.map(|other| other.join().unwrap()));
        starts.sort_unstable();
        assert_eq!(starts, [NOW, NOW + 1, NOW + 2]);
    });
}

/// Of a key that has its slot, and of one whose slot is just being claimed.
#[test]
fn what_fits_is_granted_whole_and_once() {
    for known in [false, true] {
        explore(COMPLETE, move || {
            let limiter = Arc::new(limiter(quota(3)));
            if known {
                know(&limiter);
            }
            let other = spawn(&limiter, |limiter| limiter.check_up_to("key", 2).units());
            let units = limiter.check_up_to("key", 2).units();
            assert_eq!(units + other.join().unwrap(), 3);
            assert_eq!(owed(&limiter, "key"), 3);
        });
    }
}

/// A check takes what there is at once, or nothing: it does not pass waiters.
#[test]
fn a_check_does_not_pass_a_waiter() {
    for known in [false, true] {
        explore(COMPLETE, move || {
            let limiter = Arc::new(limiter(quota(1)));
            if known {
                know(&limiter);
            }
            let other = spawn(&limiter, join);
            let checked = limiter.check("key").is_allowed();
            assert_eq!(other.join().unwrap(), NOW + u64::from(checked));
            assert_eq!(owed(&limiter, "key"), 1 + u64::from(checked));
        });
    }
}

/// A check under a longer burst is charged just before or after a place is taken: the place starts
/// behind it, or keeps it out.
#[test]
fn a_place_behind_a_check_starts_behind_it() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(quota(1)));
        assert!(limiter.check("key").is_allowed());
        let other = spawn(&limiter, join);
        let checked = limiter.check_with("key", 1, &quota(2)).expect("it can be enforced");
        let start = other.join().unwrap();
        assert_eq!(start, NOW + 1 + u64::from(checked.is_allowed()));
    });
}

/// A place that is given up is taken back, and one behind it moves up; it lapses if that one is
/// fixed already.
#[test]
fn a_place_given_up_is_given_to_one_waiter_once() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(quota(1)));
        assert_eq!(join(&limiter), NOW);
        let other = spawn(&limiter, join);
        let turn = wait(&limiter);
        let start = turn.start().as_nanos();
        let freed = turn.cancel();
        let joined = other.join().unwrap();
        let behind = u64::from(!freed && start == NOW + 1);
        assert_eq!(joined, NOW + 1 + behind);
        // What lapses stays charged.
        assert_eq!(owed(&limiter, "key"), 2 + u64::from(!freed));
        assert_eq!(limiter.waiters(), 0);
    });
}

/// Two of three that wait give up at the same time: the third has the first place, whatever their
/// order was, and the next call the second one.
#[test]
fn places_given_up_together_are_all_taken_back() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(quota(1)));
        assert_eq!(join(&limiter), NOW);
        let other = spawn(&limiter, |limiter| wait(limiter).cancel());
        let [mine, stays] = [(); 2].map(|()| wait(&limiter));
        assert!(mine.cancel() && other.join().unwrap());
        assert_eq!(stays.start().as_nanos(), NOW + 1);
        assert_eq!(join(&limiter), NOW + 2);
        assert_eq!(stays.schedule().as_nanos(), NOW + 1);
        assert_eq!(owed(&limiter, "key"), 3);
    });
}

/// A reservation is given back while another thread takes a place behind it: the place after that
/// starts later.
#[test]
fn a_reservation_given_back_moves_no_start() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(quota(1)));
        let reserved = limiter.reserve("key", 1).expect("nothing is charged yet");
        let other = spawn(&limiter, join);
        reserved.cancel();
        let start = other.join().unwrap();
        assert!(join(&limiter) > start);
    });
}

/// A debt of two units is restored to a key during checks of it: nothing is lost, and what was
/// admitted before the restore is not added to it.
#[test]
fn a_restore_during_a_check_loses_neither() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(quota(3)));
        know(&limiter);
        let other = spawn(&limiter, |limiter| restore(limiter, "key", 2));
        let checked = [(); 3].map(|()| u64::from(limiter.check("key").is_allowed()));
        other.join().unwrap();
        assert_eq!(checked[0], 1);
        let owed = owed(&limiter, "key");
        let checked: u64 = checked.iter().sum();
        assert!((2..=3).contains(&owed) && owed >= checked, "{owed} of {checked}");
    });
}

/// Two keys find their slots in the one line.
#[test]
fn a_restore_during_the_claim_of_another_key_loses_neither() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(quota(3)));
        let other = spawn(&limiter, |limiter| restore(limiter, "restored", 2));
        assert!(limiter.check("key").is_allowed());
        other.join().unwrap();
        assert_eq!((owed(&limiter, "key"), owed(&limiter, "restored")), (1, 2));
    });
}

/// Two threads restore the same, as a node that receives it twice.
#[test]
fn a_snapshot_that_is_applied_twice_counts_once() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(quota(3)));
        let other = spawn(&limiter, |limiter| restore(limiter, "key", 2));
        restore(&limiter, "key", 2);
        other.join().unwrap();
        assert_eq!(owed(&limiter, "key"), 2);
    });
}

fn restore(limiter: &Limiter<Quota, Still>, key: &str, debt: u64) {
    let saved =
        SavedKey { key: limiter.hash(key), state: SavedState::Debt(Duration::from_nanos(debt)) };
    let snapshot = Snapshot::new(limiter.hasher.fingerprint(), SnapshotKind::Debts, [saved]);
    let restored = limiter.restore(snapshot, Duration::ZERO).expect("it is of this limiter");
    assert_eq!(restored.evicted, 0);
}

/// Units of a sliding window are given back during checks: as many are counted as are held.
#[test]
fn no_refund_of_a_sliding_window_is_lost() {
    explore(COMPLETE, || {
        let limiter = Arc::new(limiter(SlidingWindow::new(2, Duration::from_nanos(10 * NOW))));
        let other = spawn(&limiter, |limiter| {
            let admitted = limiter.check("key").is_allowed();
            limiter.refund("key", u64::from(admitted));
        });
        let admitted = [(); 2].map(|()| u64::from(limiter.check("key").is_allowed()));
        other.join().unwrap();
        let admitted: u64 = admitted.iter().sum();
        assert!(admitted >= 1);
        assert_eq!(limiter.peek("key").remaining(), 2 - admitted);
    });
}
