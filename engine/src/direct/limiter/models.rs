//! loom models of one word: complete, unless a bound is given.

use core::time::Duration;

use loom::sync::Arc;
use loom::thread;

use crate::explore;
use crate::rule::live::{Inheritance, LiveQuota};
use crate::rule::quota::Quota;
use crate::time::{Clock, Timestamp};

use super::DirectLimiter;

/// A clock that stands still, just after its origin.
#[derive(Clone, Copy, Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(100)
    }
}

type Limiter = DirectLimiter<Quota, Stopped>;

fn explore(burst: u64, threads: &[fn(&Limiter) -> i64], bound: Option<usize>) {
    let threads = threads.to_vec();
    explore::explore(bound, move || {
        let quota = Quota::new(1, Duration::from_nanos(10)).burst(burst);
        let limiter =
            DirectLimiter::builder(quota).clock(Stopped).build().expect("it can be enforced");
        let limiter = Arc::new(limiter);
        let threads: Vec<_> = threads
            .iter()
            .map(|&run| {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || run(&limiter))
            })
            .collect();
        let charged: i64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        let left = limiter.peek();
        let admitted = burst.saturating_sub(left.remaining()).cast_signed();
        assert!(charged <= burst.cast_signed(), "{charged} of a burst of {burst}");
        assert_eq!(admitted, charged);
    });
}

/// Explores a check concurrent with a change from a burst of 2 to one of 4, with one unit owed
/// before: complete. No charge is lost, and neither that check nor one after the change is denied,
/// since each of the quotas has room.
#[test]
fn no_charge_is_lost_during_a_change() {
    let quota = |burst, interval| Quota::new(1, Duration::from_nanos(interval)).burst(burst);
    explore::explore(None, move || {
        let rule = LiveQuota::new(quota(2, 10));
        let limiter =
            Arc::new(DirectLimiter::builder(rule).clock(Stopped).build().expect("it can be"));
        assert!(limiter.check().is_allowed());
        let other = Arc::clone(&limiter);
        let asking = thread::spawn(move || other.check().is_allowed());
        limiter.set_quota(quota(4, 3), Inheritance::Proportional).expect("it can be enforced");
        assert!(limiter.check().is_allowed());
        assert!(asking.join().expect("no panic"));
        assert_eq!(limiter.peek().remaining(), 1);
    });
}

/// Two threads that check once each during a change, under quotas with room for both: within 3
/// preemptions. Neither is denied, also where one reads what the other has charged under the new
/// quota before the change has rewritten the word.
#[test]
fn two_threads_during_a_change() {
    let quota = |burst, interval| Quota::new(1, Duration::from_nanos(interval)).burst(burst);
    explore::explore(Some(3), move || {
        let rule = LiveQuota::new(quota(3, 10));
        let limiter =
            Arc::new(DirectLimiter::builder(rule).clock(Stopped).build().expect("it can be"));
        let asking = [(); 2].map(|()| {
            let other = Arc::clone(&limiter);
            thread::spawn(move || other.check().is_allowed())
        });
        limiter.set_quota(quota(4, 3), Inheritance::Proportional).expect("it can be enforced");
        assert_eq!(asking.map(|asking| asking.join().expect("no panic")), [true; 2]);
        assert_eq!(limiter.peek().remaining(), 2);
    });
}

fn ask(limiter: &Limiter, cost: u64) -> i64 {
    if limiter.check_n(cost).is_allowed() { cost.cast_signed() } else { 0 }
}

/// Three threads and a burst of two: complete.
#[test]
fn checks_never_admit_more_than_the_burst() {
    let one = |limiter: &Limiter| ask(limiter, 1);
    explore(2, &[one, one, one], None);
}

/// Two threads that ask twice, for different costs: complete.
#[test]
fn no_charge_is_lost() {
    explore(
        3,
        &[|limiter| ask(limiter, 1) + ask(limiter, 2), |limiter| ask(limiter, 2) + ask(limiter, 1)],
        None,
    );
}

/// Two threads that take as much as fits: all of it is taken, once. Complete.
#[test]
fn what_fits_is_granted_whole_and_once() {
    explore::explore(None, || {
        let quota = Quota::new(1, Duration::from_nanos(10)).burst(3);
        let limiter = DirectLimiter::builder(quota).clock(Stopped).build().expect("it can be");
        let limiter = Arc::new(limiter);
        let other = Arc::clone(&limiter);
        let other = thread::spawn(move || other.check_up_to(2).units());
        let units = limiter.check_up_to(2).units();
        assert_eq!(units + other.join().expect("no panic"), 3);
        assert_eq!(limiter.peek().remaining(), 0);
    });
}

/// What fits concurrently with a change from a burst of 4 to one of 2, with one unit owed before,
/// is what one of the quotas leaves: within 3 preemptions.
#[test]
fn a_grant_is_of_one_quota() {
    let quota = |burst, interval| Quota::new(1, Duration::from_nanos(interval)).burst(burst);
    explore::explore(Some(3), move || {
        let rule = LiveQuota::new(quota(4, 10));
        let limiter =
            Arc::new(DirectLimiter::builder(rule).clock(Stopped).build().expect("it can be"));
        assert!(limiter.check().is_allowed());
        let other = Arc::clone(&limiter);
        let asking = thread::spawn(move || other.check_up_to(9).units());
        limiter.set_quota(quota(2, 30), Inheritance::Proportional).expect("it can be enforced");
        let units = asking.join().expect("no panic");
        assert!(units == 3 || units == 1, "{units}");
        assert_eq!(limiter.peek().remaining(), 0);
    });
}

/// Refunds of what was admitted, concurrent with a check: within 3 preemptions.
#[test]
fn no_refund_is_lost() {
    let borrows = |limiter: &Limiter| {
        let admitted = ask(limiter, 1);
        limiter.refund(admitted.cast_unsigned());
        0
    };
    explore(2, &[borrows, borrows, |limiter| ask(limiter, 1)], Some(3));
}
