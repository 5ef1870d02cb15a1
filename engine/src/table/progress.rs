//! A thread is stopped, or ends, before each of its atomic operations, and all others still decide
//! within a bounded number of operations of their own.
//!
//! Time stands still, so each key's charges are known exactly in the end.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use crate::base::key::KeyHash;
use crate::base::sync::watched::{bounded, park_before, watch};
use crate::limiter::Limiter;
use crate::rule::gcra::{self, Gcra, Tat};
use crate::rule::quota::Quota;
use crate::time::{Clock, ManualClock, Timestamp};

use super::Table;

mod contest;
mod expiry;
mod lowering;

const BURST: u64 = 3;
/// Operations on atomics that one call may take on a table of two lines while no other thread runs:
/// a fixed number for each slot in each scan, and one scan more after each intent that is met.
const STEPS: u64 = 100;
/// The same while others run, each of whose steps can make a scan start over.
const STEPS_AMONG_OTHERS: u64 = 10 * STEPS;

/// An operation of a thread on the limiter.
#[derive(Clone, Copy, Debug)]
enum Action {
    Check(u64),
    /// A check in a batch, which finds its slot in another way.
    Batch(u64),
    Peek(u64),
    Charge(u64),
    Raise(u64),
    /// Takes a unit back.
    Refund(u64),
    Reset(u64),
    /// Reserves two units and gives one of them back.
    Settle(u64),
    Live,
    /// Time moves until all debt has drained.
    Expire,
}

use Action::{Batch, Charge, Check, Expire, Live, Peek, Raise, Refund, Reset, Settle};

#[derive(Debug)]
struct Scenario {
    name: &'static str,
    lines: usize,
    /// The operations before it.
    before: &'static [Action],
    /// The operation in which a thread ended, before any one of its steps.
    died: Option<Action>,
    /// The operation that is stopped.
    stopped: Action,
    /// Whether all debt drains before the others go on.
    expires: bool,
}

const PLAIN: Scenario =
    Scenario { name: "", lines: 1, before: &[], died: None, stopped: Check(1), expires: false };

/// With one line there are four slots, with two there are eight.
const SCENARIOS: &[Scenario] = &[
    Scenario { name: "claim", lines: 1, before: &[], stopped: Check(1), ..PLAIN },
    Scenario {
        name: "claim in two lines",
        lines: 2,
        before: &[Check(2)],
        stopped: Check(1),
        ..PLAIN
    },
    Scenario { name: "claim with eviction", lines: 1, before: FULL, stopped: Check(1), ..PLAIN },
    Scenario {
        name: "claim of a charge",
        lines: 1,
        before: &[Check(2)],
        stopped: Charge(1),
        ..PLAIN
    },
    Scenario {
        name: "take-over",
        lines: 1,
        before: NEARLY_FULL,
        died: Some(Check(9)),
        stopped: Check(1),
        ..PLAIN
    },
    Scenario {
        name: "take-over by a charge",
        lines: 1,
        before: NEARLY_FULL,
        died: Some(Check(9)),
        stopped: Charge(1),
        ..PLAIN
    },
    Scenario {
        name: "join",
        lines: 1,
        before: NEARLY_FULL,
        died: Some(Check(1)),
        stopped: Check(1),
        ..PLAIN
    },
    Scenario {
        name: "join in two lines",
        lines: 2,
        before: FULL,
        died: Some(Check(1)),
        stopped: Check(1),
        ..PLAIN
    },
    Scenario {
        name: "join by a raise",
        lines: 1,
        before: &[],
        died: Some(Raise(1)),
        stopped: Raise(1),
        ..PLAIN
    },
    Scenario { name: "allowed", lines: 1, before: &[Check(1)], stopped: Check(1), ..PLAIN },
    Scenario { name: "denied", lines: 1, before: EXHAUSTED, stopped: Check(1), ..PLAIN },
    Scenario { name: "charge", lines: 1, before: &[Check(1)], stopped: Charge(1), ..PLAIN },
    Scenario { name: "raise", lines: 1, before: &[Check(1)], stopped: Raise(1), ..PLAIN },
    Scenario { name: "batch", lines: 1, before: &[Check(1)], stopped: Batch(1), ..PLAIN },
    Scenario { name: "batch with a claim", lines: 2, before: FULL, stopped: Batch(1), ..PLAIN },
    Scenario { name: "look", lines: 1, before: EXHAUSTED, stopped: Peek(1), ..PLAIN },
    Scenario { name: "live", lines: 1, before: FULL, died: Some(Check(9)), stopped: Live, ..PLAIN },
];

const FULL: &[Action] = &[Check(2), Check(2), Check(3), Check(4), Check(4), Check(5)];
const NEARLY_FULL: &[Action] = &[Check(2), Check(2), Check(3), Check(4)];
const EXHAUSTED: &[Action] = &[Check(1), Check(1), Check(1), Check(2)];

/// What all others do meanwhile: to the same key, to keys in the same lines, and to new ones that
/// need the same slots.
const OTHERS: &[Action] = &[
    Check(1),
    Batch(1),
    Batch(4),
    Check(2),
    Peek(1),
    Check(6),
    Charge(7),
    Check(9),
    Raise(8),
    Check(1),
    Live,
    Refund(4),
    Settle(5),
    Reset(2),
    Check(5),
    Settle(1),
    Check(1),
    Peek(9),
];

#[test]
fn a_thread_that_stops_anywhere_stops_no_other_thread() {
    stop_everywhere(SCENARIOS);
}

fn stop_everywhere(scenarios: &[Scenario]) {
    for scenario in scenarios {
        let mut stops = 0;
        for ended_before in 1.. {
            let mut more = false;
            for stopped_before in 1.. {
                let run = Run::new(scenario, ended_before);
                more |= run.died;
                if !run.play(scenario, stopped_before) {
                    break;
                }
                stops += 1;
            }
            // The thread completed instead, or there was none.
            if !more {
                break;
            }
        }
        assert!(stops > 3, "{}: only {stops} stops", scenario.name);
    }
}

/// What was charged and given back, by key.
type Ledger = HashMap<u64, Account>;

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Checks that were allowed.
    admitted: u64,
    /// Charged unconditionally.
    charged: u64,
    /// Raised to at least this; never after it was lowered, so that this counts once.
    raised: u64,
    /// Units of reservations, given back if they were still owed then.
    settled: u64,
    /// Given back by refunds and resets, as they reported.
    lowered: u64,
    resets: u64,
}

struct Run {
    limiter: Limiter<Quota, ManualClock>,
    ledger: Ledger,
    died: bool,
    /// The key that the thread that ended may or may not have charged.
    doubtful: Option<u64>,
}

impl Run {
    /// A limiter after all operations that precede the stop.
    fn new(scenario: &Scenario, ended_before: u64) -> Self {
        let limiter = limiter(scenario.lines);
        let mut ledger = Ledger::new();
        for action in scenario.before {
            act(&limiter, *action, &mut ledger);
        }
        let (mut died, mut doubtful) = (false, None);
        if let Some(action) = scenario.died {
            let mut steps = 0;
            let end = move || {
                steps += 1;
                if steps == ended_before {
                    // Unwinds without a panic message.
                    resume_unwind(Box::new(()));
                }
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                watch(end, || act(&limiter, action, &mut ledger));
            }));
            died = outcome.is_err();
            doubtful = died.then_some(action.key());
        }
        Self { limiter, ledger, died, doubtful }
    }

    /// Stops a thread before its `stopped_before`th operation while others act; `false` if it ended
    /// before that.
    fn play(self, scenario: &Scenario, stopped_before: u64) -> bool {
        let name = format!("{}, stopped before operation {stopped_before}", scenario.name);
        let Self { limiter, mut ledger, died, mut doubtful } = self;
        let stopped = || {
            let mut ledger = Ledger::new();
            act(&limiter, scenario.stopped, &mut ledger);
            ledger
        };
        let others = || {
            if scenario.expires {
                act(&limiter, Expire, &mut ledger);
            }
            ledger.add(&act_bounded(&limiter, OTHERS, STEPS, &name));
            let ledgers = thread::scope(|scope| {
                let others = [0, 5].map(|first| {
                    let (mut actions, name, limiter) = (OTHERS.to_vec(), &name, &limiter);
                    actions.rotate_left(first);
                    scope.spawn(move || act_bounded(limiter, &actions, STEPS_AMONG_OTHERS, name))
                });
                others.map(|other| other.join().expect("others get through"))
            });
            for other in &ledgers {
                ledger.add(other);
            }
        };
        let (own, was_stopped) = park_before(stopped_before, STEPS_AMONG_OTHERS, stopped, others);
        if scenario.expires && was_stopped {
            // What it was charged may have drained, or not.
            doubtful = Some(scenario.stopped.key());
        } else {
            ledger.add(&own);
        }
        Self { limiter, ledger, died, doubtful }.audit(&name);
        was_stopped
    }

    /// Asserts that each key has at most one live word; that it owes what it was charged less what
    /// was reported as given back, except where live keys were evicted; and that no key was
    /// admitted more than that and a burst for each life.
    fn audit(&self, name: &str) {
        // A thread that ended between evicting a key and counting it did not count it.
        let evicted = self.limiter.evicted() + u64::from(self.died);
        let mut live = HashMap::new();
        for (key, debt) in self.limiter.live() {
            let twice = live.insert(key.tag(), debt.as_nanos() as u64);
            assert_eq!(twice, None, "{name}: {key:?} has two live words");
        }
        let mut forgotten = 0;
        for (key, account) in &self.ledger {
            let Account { admitted, charged, raised, settled, lowered, resets } = *account;
            let lives = 1 + evicted;
            assert!(
                admitted <= BURST * lives + lowered,
                "{name}: key {key} was admitted {admitted}"
            );
            let debt = live.remove(key).unwrap_or(0);
            let doubtful = if self.doubtful == Some(*key) { BURST } else { 0 };
            // A reset gives back reserved units too, and leaves nothing to settle.
            let in_vain = if resets == 0 { 0 } else { settled };
            assert!(
                debt + lowered <= admitted + charged + raised + doubtful + in_vain,
                "{name}: key {key} owes {debt}, and {lowered} were given back of {account:?}"
            );
            let owed = (admitted + charged).max(raised);
            forgotten += u64::from(debt + lowered < owed);
        }
        live.retain(|key, _| self.doubtful != Some(*key));
        assert!(live.is_empty(), "{name}: {live:?} owe more than they were charged");
        assert!(
            forgotten <= evicted,
            "{name}: {forgotten} keys owe too little, {evicted} were evicted"
        );
    }
}

impl Action {
    fn key(self) -> u64 {
        match self {
            Check(key) | Batch(key) | Peek(key) | Charge(key) | Raise(key) | Refund(key)
            | Reset(key) | Settle(key) => key,
            Live | Expire => 0,
        }
    }
}

trait Add {
    fn add(&mut self, other: &Self);
}

impl Add for Ledger {
    fn add(&mut self, other: &Self) {
        for (key, account) in other {
            let sum = self.entry(*key).or_default();
            sum.admitted += account.admitted;
            sum.charged += account.charged;
            sum.raised = sum.raised.max(account.raised);
            sum.settled += account.settled;
            sum.lowered += account.lowered;
            sum.resets += account.resets;
        }
    }
}

/// An emission interval of one nanosecond, so that debts are costs.
fn limiter(lines: usize) -> Limiter<Quota, ManualClock> {
    let quota = Quota::new(1, Duration::from_nanos(1)).burst(BURST);
    let clock = ManualClock::new();
    clock.set(Timestamp::from_nanos(1_000));
    let table = Table::with_lines(lines, Tat).expect("there is memory");
    Limiter::for_tests(quota, clock, table, crate::limiter::mode::Mode::Word)
}

fn act(limiter: &Limiter<Quota, ManualClock>, action: Action, ledger: &mut Ledger) {
    let key = KeyHash::from_parts(0, action.key());
    match action {
        Check(_) => {
            let allowed = limiter.check(key).is_allowed();
            ledger.entry(action.key()).or_default().admitted += u64::from(allowed);
        }
        Batch(_) => {
            let mut decisions = Vec::new();
            limiter.check_many(&[key], &mut decisions);
            let allowed = decisions[0].is_allowed();
            ledger.entry(action.key()).or_default().admitted += u64::from(allowed);
        }
        Peek(_) => {
            let _ = limiter.peek(key);
        }
        Charge(_) => {
            limiter.charge_debt(key, Duration::from_nanos(2), limiter.clock().now());
            ledger.entry(action.key()).or_default().charged += 2;
        }
        Raise(_) => {
            limiter.raise_debt(key, Duration::from_nanos(2));
            let account = ledger.entry(action.key()).or_default();
            account.raised = account.raised.max(2);
        }
        Refund(_) => {
            let lowered = lower(limiter, key, |gcra, tat, now| gcra.refund(tat, now, 1));
            ledger.entry(action.key()).or_default().lowered += lowered;
        }
        Reset(_) => {
            let lowered = lower(limiter, key, |_, tat, now| gcra::reset(tat, now));
            let account = ledger.entry(action.key()).or_default();
            account.lowered += lowered;
            account.resets += 1;
        }
        Settle(_) => {
            if let Ok(reserved) = limiter.reserve(key, 2) {
                let _ = reserved.commit(1);
                let account = ledger.entry(action.key()).or_default();
                account.admitted += 1;
                account.settled += 1;
            }
        }
        Live => {
            limiter.live().count();
        }
        Expire => {
            limiter.clock().advance(Duration::from_micros(1));
            ledger.clear();
        }
    }
}

/// Lowers a key's word as a refund or a reset does; by how much this call lowered it.
fn lower(
    limiter: &Limiter<Quota, ManualClock>,
    key: KeyHash,
    decide: impl Fn(&Gcra, u64, u64) -> Option<u64>,
) -> u64 {
    let by = Cell::new(0);
    limiter.lower(key, |tat, now| {
        let lowered = decide(limiter.parts().1, tat, now);
        by.set(lowered.map_or(0, |lowered| tat - lowered));
        lowered
    });
    by.get()
}

/// Runs the actions one by one, each in at most `bound` operations on atomics.
fn act_bounded(
    limiter: &Limiter<Quota, ManualClock>,
    actions: &[Action],
    bound: u64,
    name: &str,
) -> Ledger {
    let mut ledger = Ledger::new();
    for action in actions {
        bounded(bound, format!("{name}: {action:?}"), || act(limiter, *action, &mut ledger));
    }
    ledger
}
