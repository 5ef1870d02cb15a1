//! A thread is stalled before each of its atomic operations, one run each, while it uses, takes,
//! returns or trims leases, and all others still decide within a bounded number of operations of
//! their own, by the word where an entry is busy.
//!
//! Time does not pass, so what a key was charged can be read in the end.

use std::thread;
use std::time::Duration;

use crate::base::key::KeyHash;
use crate::base::sync::watched::{bounded, park_before};
use crate::limiter::Limiter;
use crate::limiter::mode::{Extended, Mode};
use crate::rule::gcra::{Gcra, Tat};
use crate::rule::quota::Quota;
use crate::table::Table;
use crate::time::{Clock as _, ManualClock};

use super::{ENTRIES, Leases, SHARE, Seat};

const BURST: u64 = 512;
const STRIPES: usize = 2;
/// Units of the largest lease.
const UNITS: u64 = 8;
/// What the keys of a limiter can have leased at once.
const LEASED_MOST: u64 = BURST / SHARE;
/// Operations on atomics that one call may take while no other thread runs: a read of all entries
/// of a stripe, and for each lease that is found there a read of the word and a step on it.
const STEPS: u64 = 4 * ENTRIES as u64;
/// The same while others run, each of whose steps can make a read start over.
const STEPS_AMONG_OTHERS: u64 = 10 * STEPS;

/// What a thread does to the limiter.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Checks of a key and their number, one by one.
    Check(u64, u64),
    Peek(u64),
    /// The units that are leased of a key.
    Count(u64),
    /// Takes all that is left of a key's burst besides its leases.
    Exhaust(u64),
    Return,
    /// Gives units of a key back.
    Refund(u64, u64),
    /// Reserves two units and gives one of them back.
    Settle(u64),
    Reset(u64),
}

use Action::{Check, Count, Exhaust, Peek, Refund, Reset, Return, Settle};

struct Scenario {
    name: &'static str,
    /// What the stalled thread did before, at the first stripe.
    before: &'static [Action],
    /// The units that are leased of the first key then, where nothing is cached.
    leased: u64,
    /// Where the thread is stalled.
    seat: usize,
    stopped: Action,
    /// The units that are leased of both keys if it was not stalled, where nothing is cached.
    after: [u64; 2],
}

/// As many admitted checks of one stripe as back the least lease: the next check takes it.
const HOT: Action = Check(1, 64);
/// Both keys share one entry, in which the second one has outvoted the first by then, and its next
/// check takes a lease.
const OTHER_HOT: Action = Check(2, 132);

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "take",
        before: &[HOT],
        leased: 0,
        seat: 0,
        stopped: Check(1, 1),
        after: [4, 0],
    },
    Scenario {
        name: "use",
        before: &[HOT, Check(1, 1)],
        leased: 4,
        seat: 0,
        stopped: Check(1, 1),
        after: [3, 0],
    },
    Scenario {
        name: "use the last and take",
        before: &[HOT, Check(1, 4)],
        leased: 1,
        seat: 0,
        stopped: Check(1, 2),
        after: [4, 0],
    },
    Scenario {
        name: "use another's",
        before: &[HOT, Check(1, 1), Exhaust(1)],
        leased: 4,
        seat: 1,
        stopped: Check(1, 1),
        after: [3, 0],
    },
    Scenario {
        name: "take for another key",
        before: &[HOT, Check(1, 1), OTHER_HOT],
        leased: 4,
        seat: 0,
        stopped: Check(2, 1),
        after: [0, 4],
    },
    Scenario {
        name: "look",
        before: &[HOT, Check(1, 1)],
        leased: 4,
        seat: 0,
        stopped: Peek(1),
        after: [4, 0],
    },
    Scenario {
        name: "count",
        before: &[HOT, Check(1, 1)],
        leased: 4,
        seat: 1,
        stopped: Count(1),
        after: [4, 0],
    },
    Scenario {
        name: "return",
        before: &[HOT, Check(1, 1)],
        leased: 4,
        seat: 0,
        stopped: Return,
        after: [0, 0],
    },
    Scenario {
        name: "return in vain",
        before: &[HOT, Check(1, 1), Exhaust(1)],
        leased: 4,
        seat: 0,
        stopped: Return,
        after: [4, 0],
    },
    Scenario {
        name: "refund",
        before: &[HOT, Check(1, 1)],
        leased: 4,
        seat: 1,
        stopped: Refund(1, 2),
        after: [0, 0],
    },
    Scenario {
        name: "refund of all leases",
        before: &[HOT, Check(1, 1)],
        leased: 4,
        seat: 0,
        stopped: Refund(1, 20),
        after: [0, 0],
    },
    Scenario {
        name: "settle",
        before: &[HOT, Check(1, 1)],
        leased: 4,
        seat: 1,
        stopped: Settle(1),
        after: [4, 0],
    },
    Scenario {
        name: "reset",
        before: &[HOT, Check(1, 1)],
        leased: 4,
        seat: 1,
        stopped: Reset(1),
        after: [0, 0],
    },
];

/// What all other threads do meanwhile.
const OTHERS: &[Action] = &[
    Check(1, 3),
    Peek(1),
    Count(1),
    Refund(1, 1),
    Check(2, 2),
    Return,
    Check(1, 70),
    Settle(1),
    Count(2),
    Reset(2),
    Check(2, 70),
    Refund(1, 9),
    Check(1, 3),
    Exhaust(2),
    Check(2, 1),
    Return,
];

#[test]
fn a_thread_that_stops_with_a_lease_stops_no_other_thread() {
    stop_everywhere(OTHERS);
}

/// Also with a reset at each step, after which less is known of what was charged.
#[test]
fn a_thread_that_stops_with_a_lease_outlives_a_reset() {
    let mut others = OTHERS.to_vec();
    others.insert(4, Reset(1));
    stop_everywhere(&others);
}

fn stop_everywhere(others: &[Action]) {
    for scenario in SCENARIOS {
        let numbers = 1..=STEPS_AMONG_OTHERS;
        for max_cached in [0, 2] {
            let stopped = |number: &u64| play(scenario, *number, max_cached, others);
            let stops = numbers.clone().take_while(stopped).count();
            assert!(stops > 3, "{}: only {stops} stops", scenario.name);
        }
    }
}

/// Keys that meet in one entry.
fn key(number: u64) -> KeyHash {
    KeyHash::from_bits(1 + number * ENTRIES as u64)
}

/// What was admitted and given back of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    admitted: u64,
    refunded: u64,
    resets: u64,
}

/// By the number of a key.
type Ledger = [Account; 3];

/// Stalls a thread before its `number`th operation while others act, all of which may hold
/// `max_cached` units of a lease in their magazines; `false` if it got to its end before.
fn play(scenario: &Scenario, number: u64, max_cached: u64, others: &[Action]) -> bool {
    let name =
        format!("{}, holding {max_cached}, stopped before operation {number}", scenario.name);
    let quota = Quota::new(1, Duration::from_nanos(1)).burst(BURST);
    let table = Table::with_lines(1, Tat).expect("there is memory");
    let leases = Leases::striped(UNITS, &Gcra::exact(&quota).unwrap(), STRIPES)
        .map(|leases| Leases { max_cached, backing: 0, ..leases });
    let limiter = &Limiter::for_tests(
        quota,
        ManualClock::new(),
        table,
        leases.map_or(Mode::Word, |leases| Mode::Extended(Extended::Leased(leases))),
    );
    let mut ledger = act(limiter, 0, scenario.before, u64::MAX, &name);
    if max_cached == 0 {
        assert_eq!(limiter.leased(key(1)), scenario.leased, "{name}");
    }

    let stopped = || {
        Seat::sit(scenario.seat);
        let mut ledger = Ledger::default();
        act_once(limiter, scenario.stopped, &mut ledger);
        ledger
    };
    let mut theirs = Vec::new();
    let meanwhile = || {
        // Alone at each stripe, then three threads at once.
        theirs.extend([0, 1].map(|seat| act(limiter, seat, others, STEPS, &name)));
        thread::scope(|scope| {
            let threads = [(0, 0), (1, 3), (0, 6)].map(|(seat, first)| {
                let (mut actions, name) = (others.to_vec(), &name);
                actions.rotate_left(first);
                scope.spawn(move || act(limiter, seat, &actions, STEPS_AMONG_OTHERS, name))
            });
            theirs.extend(threads.map(|thread| thread.join().expect("others get through")));
        });
    };
    let (own, was_stopped) = park_before(number, STEPS_AMONG_OTHERS, stopped, meanwhile);
    for account in theirs.iter().chain([&own]) {
        add(&mut ledger, account);
    }
    if !was_stopped && max_cached == 0 {
        assert_eq!([1, 2].map(|number| limiter.leased(key(number))), scenario.after, "{name}");
    }
    audit(limiter, &ledger, &name);
    works_again(limiter, &name);
    was_stopped
}

/// Demands that each key owes what it took, and that no more was taken than a burst and what was
/// given back. A thread that stalls between lowering a word and trimming the leases lets at most
/// these be used twice.
fn audit(limiter: &Limiter<Quota, ManualClock>, ledger: &Ledger, name: &str) {
    let lowerings = u64::from(ledger.iter().any(|account| account.refunded + account.resets > 0));
    for number in 1..ledger.len() as u64 {
        let Account { admitted, refunded, resets } = ledger[number as usize];
        let twice = lowerings * LEASED_MOST * (1 + resets);
        assert!(
            admitted <= BURST * (1 + resets) + refunded + twice,
            "{name}: key {number} took {admitted}, {refunded} were refunded"
        );
        let debt = debt(limiter, number);
        assert!(
            resets > 0 || debt + refunded + twice >= admitted,
            "{name}: key {number} owes {debt}, took {admitted}, {refunded} were refunded"
        );
    }
}

/// The debt in a key's word, in units.
fn debt(limiter: &Limiter<Quota, ManualClock>, number: u64) -> u64 {
    let (table, gcra) = limiter.parts();
    let now = gcra.scale().instant(limiter.clock().now());
    super::tat_of(table, key(number), now).saturating_sub(now)
}

/// Demands that no entry was left busy: a key that gets hot again takes a lease at each stripe.
fn works_again(limiter: &Limiter<Quota, ManualClock>, name: &str) {
    for seat in 0..STRIPES {
        limiter.reset(key(1));
        let taken = (0..BURST).any(|_| {
            Seat::sit(seat);
            let _ = limiter.check(key(1));
            limiter.leased(key(1)) > 0
        });
        assert!(taken, "{name}: nothing can be leased at stripe {seat}");
    }
}

/// Runs actions one by one at a stripe, each in at most `most` operations on atomics.
fn act(
    limiter: &Limiter<Quota, ManualClock>,
    seat: usize,
    actions: &[Action],
    most: u64,
    name: &str,
) -> Ledger {
    let mut ledger = Ledger::default();
    for action in actions {
        let (times, once) = match *action {
            Check(key, times) => (times, Check(key, 1)),
            other => (1, other),
        };
        for _ in 0..times {
            // A thread that meets another one moves on.
            Seat::sit(seat);
            bounded(most, format!("{name}: {action:?}"), || act_once(limiter, once, &mut ledger));
        }
    }
    ledger
}

fn act_once(limiter: &Limiter<Quota, ManualClock>, action: Action, ledger: &mut Ledger) {
    match action {
        Check(number, times) => {
            for _ in 0..times {
                let allowed = limiter.check(key(number)).is_allowed();
                ledger[number as usize].admitted += u64::from(allowed);
            }
        }
        Peek(number) => {
            let _ = limiter.peek(key(number));
        }
        Count(number) => {
            let leased = limiter.leased(key(number));
            assert!(leased <= LEASED_MOST, "{leased} are leased");
        }
        Exhaust(number) => {
            let left = BURST.saturating_sub(debt(limiter, number));
            if left > 0 && limiter.check_n(key(number), left).is_allowed() {
                ledger[number as usize].admitted += left;
            }
        }
        Return => limiter.return_leases(),
        Refund(number, units) => {
            limiter.refund(key(number), units);
            ledger[number as usize].refunded += units;
        }
        Settle(number) => {
            if let Ok(reserved) = limiter.reserve(key(number), 2) {
                let _ = reserved.commit(1);
                ledger[number as usize].admitted += 1;
            }
        }
        Reset(number) => {
            limiter.reset(key(number));
            ledger[number as usize].resets += 1;
        }
    }
}

fn add(ledger: &mut Ledger, other: &Ledger) {
    for (sum, account) in ledger.iter_mut().zip(other) {
        sum.admitted += account.admitted;
        sum.refunded += account.refunded;
        sum.resets += account.resets;
    }
}
