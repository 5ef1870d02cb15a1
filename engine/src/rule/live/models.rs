//! loom models of whole checks during a change of the quota: through the table of a limiter with
//! one line, at a fixed time.

use core::time::Duration;

use loom::sync::Arc;
use loom::thread;

use crate::base::key::{KeyHash, KeyHasher};
use crate::contract::wait::Waiters;
use crate::explore;
use crate::limiter::{Limiter, Parts};
use crate::rule::Rule as _;
use crate::rule::algorithm::Algorithm as _;
use crate::rule::gcra::ring::RING;
use crate::rule::quota::Quota;
use crate::table::Table;
use crate::time::{Clock, Timestamp};

use super::{Inheritance, LiveQuota};

/// A clock that shows one time.
#[derive(Clone, Copy, Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(100)
    }
}

type Live = Limiter<LiveQuota, Stopped>;

/// Preemptions a run where a thread takes two steps during the change.
const TWICE: usize = 3;

const KEY: KeyHash = KeyHash::from_bits(0x5eed_5eed_5eed);

/// `burst` units at once, one each `interval` ns.
fn quota(burst: u64, interval: u64) -> Quota {
    Quota::new(1, Duration::from_nanos(interval)).burst(burst)
}

fn limiter(quota: Quota) -> Live {
    let rule = LiveQuota::new(quota);
    let algorithm = rule.algorithm().expect("it can be enforced");
    Limiter::from_parts(Parts {
        rule,
        table: Table::with_lines(1, algorithm.state()).expect("a small table"),
        algorithm,
        hasher: KeyHasher::rapid(1),
        clock: Stopped,
        mode: crate::limiter::mode::Mode::Word,
        observer: (),
        waiters: Waiters::new(0),
    })
}

fn ask(limiter: &Live) -> u64 {
    u64::from(limiter.check(KEY).is_allowed())
}

/// Explores what `during` does to a key that owes one unit of the first quota, during a change to
/// the second: every interleaving, or those with at most `preemptions` preemptions a run. `end` is
/// given the total admitted, including a check after the change, and what remains.
fn explore(
    quotas: [Quota; 2],
    how: Inheritance,
    during: fn(&Live) -> u64,
    preemptions: Option<usize>,
    end: fn(u64, u64),
) {
    explore_from(ask, quotas, how, during, preemptions, end);
}

/// As [`explore`], after what `before` does and is admitted.
fn explore_from(
    before: fn(&Live) -> u64,
    quotas: [Quota; 2],
    how: Inheritance,
    during: fn(&Live) -> u64,
    preemptions: Option<usize>,
    end: fn(u64, u64),
) {
    explore::explore(preemptions, move || {
        let limiter = Arc::new(limiter(quotas[0]));
        let before = before(&limiter);
        let other = Arc::clone(&limiter);
        let asking = thread::spawn(move || during(&other));
        limiter.set_quota(quotas[1], how).expect("it can be enforced");
        let after = ask(&limiter);
        let admitted = before + asking.join().unwrap() + after;
        end(admitted, limiter.peek(KEY).remaining());
    });
}

/// Consumed units stay consumed, whatever was in flight: what was admitted and what remains are the
/// new burst. A check during the change and one after it are admitted, since both quotas have room.
/// Every interleaving.
#[test]
fn no_charge_is_lost_during_a_raise() {
    explore([quota(2, 10), quota(4, 3)], Inheritance::Proportional, ask, None, |admitted, left| {
        assert_eq!((admitted, left), (3, 1));
    });
}

/// As before, with two checks during the change: one of them is denied if it comes before it.
/// Within 3 preemptions.
#[test]
fn no_more_is_denied_than_by_either_quota() {
    let twice = |limiter: &Live| ask(limiter) + ask(limiter);
    let quotas = [quota(2, 10), quota(4, 3)];
    explore(quotas, Inheritance::Proportional, twice, Some(TWICE), |admitted, left| {
        assert!((3..=4).contains(&admitted), "{admitted}");
        assert_eq!(admitted + left, 4);
    });
}

/// Debt kept as a duration, at the same interval: never more than the larger burst. Within 3
/// preemptions.
#[test]
fn no_more_than_the_larger_burst_during_a_lowering() {
    let twice = |limiter: &Live| ask(limiter) + ask(limiter);
    let quotas = [quota(3, 10), quota(2, 10)];
    explore(quotas, Inheritance::Keep, twice, Some(TWICE), |admitted, left| {
        assert!((2..=3).contains(&admitted), "{admitted}");
        assert_eq!(left, 2_u64.saturating_sub(admitted));
    });
}

/// A reservation made and cancelled during a change gives back the time it took, under either
/// quota: the first unit is owed at 10 ns and the last one at 30. Within 3 preemptions.
#[test]
fn a_reservation_gives_back_what_it_took_during_a_change() {
    let borrow = |limiter: &Live| {
        limiter.reserve(KEY, 1).expect("there is room").cancel();
        0
    };
    let quotas = [quota(6, 10), quota(4, 30)];
    explore(quotas, Inheritance::Keep, borrow, Some(TWICE), |admitted, left| {
        assert_eq!((admitted, left), (2, 2));
    });
}

/// Two threads that check once each: neither is denied, also where one reads what the other has
/// charged under the new quota before the sweep. Within 2 preemptions.
#[test]
fn two_threads_during_a_raise() {
    explore::explore(Some(2), || {
        let limiter = Arc::new(limiter(quota(3, 10)));
        assert_eq!(ask(&limiter), 1);
        let asking = [(); 2].map(|()| {
            let other = Arc::clone(&limiter);
            thread::spawn(move || ask(&other))
        });
        limiter.set_quota(quota(4, 3), Inheritance::Proportional).expect("it can be enforced");
        assert_eq!(asking.map(|asking| asking.join().unwrap()), [1, 1]);
        assert_eq!(limiter.peek(KEY).remaining(), 1);
    });
}

/// A change that goes round the ring: another key owes an amount by which its values before and
/// after are on different sides of where the ring begins. Within 3 preemptions.
#[test]
fn no_charge_is_lost_during_a_change_that_goes_round() {
    // The first three changes lead to its last quarter.
    const OWED: u64 = RING / 4;
    explore::explore(Some(TWICE), || {
        let limiter = Arc::new(limiter(quota(2, 10)));
        let another = KeyHash::from_bits(0x0dd);
        limiter.raise_debt(another, Duration::from_nanos(OWED));
        let change = |burst| {
            limiter.set_quota(quota(burst, 10), Inheritance::Keep).expect("it can be enforced");
        };
        for _ in 0..3 {
            change(2);
        }
        assert_eq!(ask(&limiter), 1);
        let other = Arc::clone(&limiter);
        let asking = thread::spawn(move || ask(&other));
        change(4);
        assert_eq!(asking.join().unwrap(), 1);
        assert_eq!(limiter.peek(KEY).remaining(), 2);
        assert_eq!(limiter.peek(another).reset_after(), Duration::from_nanos(OWED));
    });
}

/// The first check of a key, whose claim the change may withdraw: no slot keeps a value that was
/// decided on before. Within 3 preemptions.
#[test]
fn a_first_check_during_a_change_is_of_either_quota() {
    let quotas = [quota(2, 10), quota(4, 10)];
    explore_from(
        |_| 0,
        quotas,
        Inheritance::Keep,
        ask,
        Some(TWICE),
        |admitted, left| {
            assert_eq!((admitted, left), (2, 2));
        },
    );
}
