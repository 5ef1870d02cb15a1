//! The worst schedule for threads that steal each other's intents: each is stopped after publishing
//! one and before confirming it, for as long as any other can run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::base::key::KeyHash;
use crate::base::sync::Ordering;
use crate::base::sync::watched::watch;
use crate::base::word::Update;
use crate::rule::gcra::Tat;
use crate::table::Table;
use crate::table::bits::Word;
use crate::table::line::SLOTS;
use crate::table::overflow::OverflowPolicy;

use super::STEPS_AMONG_OTHERS;

const NOW: u64 = 1_000;

const POLICIES: [OverflowPolicy; 3] =
    [OverflowPolicy::EvictLeastDebt, OverflowPolicy::Deny, OverflowPolicy::Allow];

const WRITTEN: Update = Update::Written { before: 0, now: NOW };

/// Some slots hold live keys, all others intents of threads that have ended. As long as there are
/// enough of these, each key gets one, and no live key is evicted.
#[test]
fn threads_of_different_keys_do_not_take_one_slot_from_each_other_for_ever() {
    for (others, policy) in (0..SLOTS).flat_map(|others| POLICIES.map(|policy| (others, policy))) {
        for keys in 1..=SLOTS - others {
            let (table, updates) = contest(others, keys, policy);
            let name = format!("{keys} keys among {others} live ones, {policy:?}");
            assert!(updates.iter().all(|update| *update == WRITTEN), "{name}: {updates:?}");
            assert_eq!((live(&table), table.evicted()), (others + keys, 0), "{name}");
        }
    }
}

/// More keys than slots, and no live one: the policy decides for those that get none.
#[test]
fn each_of_too_many_keys_is_decided() {
    for keys in SLOTS + 1..=SLOTS + 4 {
        for policy in POLICIES {
            let (table, updates) = contest(0, keys, policy);
            let name = format!("{keys} keys, {policy:?}: {updates:?}");
            let admitted = policy == OverflowPolicy::Allow;
            let full = Update::Full { fresh_from: NOW + 1, now: NOW, admitted };
            let written = updates.iter().filter(|update| **update == WRITTEN).count();
            let full = updates.iter().filter(|update| **update == full).count();
            assert_eq!(written + full, keys, "{name}");
            let evicted = table.evicted() as usize;
            assert_eq!(live(&table) + evicted, written, "{name}");
            let evicts = policy == OverflowPolicy::EvictLeastDebt;
            assert_eq!((evicted > 0, full > 0), (evicts, !evicts), "{name}");
        }
    }
}

/// What a thread reports.
enum Report {
    /// It has published an intent, and confirms it next.
    Claimed,
    Decided(Update),
}

/// Checks each key in a thread of its own, on a line of `others` live keys and abandoned intents.
fn contest(others: usize, keys: usize, policy: OverflowPolicy) -> (Table<Tat>, Vec<Update>) {
    let table = Table::with_lines(1, Tat).expect("there is memory").with_policy(policy);
    for other in (0..others).map(|number| key(200 + number)) {
        table.home(other).update(NOW, || NOW, |_, now| Some(now + 9));
    }
    let abandoned = (others..SLOTS).map(|number| key(100 + number));
    abandoned.clone().for_each(|key| end_while_claiming(&table, key));
    assert!(abandoned.into_iter().all(|key| is_claiming(&table, key)));
    let mut updates = vec![None; keys];
    thread::scope(|scope| {
        let threads: Vec<_> = (0..keys)
            .map(|number| {
                let ((go_on, went_on), (report, reported)) = (sync_channel(1), sync_channel(1));
                let table = &table;
                scope.spawn(move || check(table, key(number), &went_on, &report));
                (go_on, reported)
            })
            .collect();
        for steps in 0.. {
            assert!(steps <= keys * 2 * SLOTS, "{keys} keys are not decided, {policy:?}");
            let mut undecided = (0..keys).filter(|number| updates[*number].is_none());
            let first = undecided.clone().next();
            let next = undecided.find(|number| !is_claiming(&table, key(*number)));
            let Some(number) = next.or(first) else { break };
            let (go_on, reported) = &threads[number];
            go_on.send(()).expect("the thread waits for it");
            if let Report::Decided(update) = reported.recv().expect("the thread reports") {
                updates[number] = Some(update);
            }
        }
        // If an assertion above fails, the senders end here too, and with them the threads.
    });
    (table, updates.into_iter().flatten().collect())
}

/// Checks a key; stops at each claim until `went_on` receives.
fn check(table: &Table<Tat>, key: KeyHash, went_on: &Receiver<()>, report: &SyncSender<Report>) {
    // Receives nothing if the test has failed.
    let _ = went_on.recv();
    let reread = || {
        let _ = report.send(Report::Claimed);
        let _ = went_on.recv();
        NOW
    };
    let mut steps = 0;
    let hook = move || {
        steps += 1;
        assert!(steps <= STEPS_AMONG_OTHERS, "a thread does not get through");
    };
    let update = watch(hook, || table.home(key).update(NOW, reread, |_, now| Some(now + 1)));
    let _ = report.send(Report::Decided(update));
}

/// Ends between label and confirm.
fn end_while_claiming(table: &Table<Tat>, key: KeyHash) {
    let end = || resume_unwind(Box::new(()));
    let claim = || table.home(key).update(NOW, end, |_, now| Some(now + 1));
    assert!(catch_unwind(AssertUnwindSafe(claim)).is_err());
}

fn is_claiming(table: &Table<Tat>, key: KeyHash) -> bool {
    let mut words = table.lines.all()[0].slots.iter().map(|slot| slot.word.load(Ordering::Relaxed));
    words.any(|word| Word(word).is_intent_of(key))
}

fn live(table: &Table<Tat>) -> usize {
    table.entries().filter(|(_, value)| *value > NOW).count()
}

fn key(number: usize) -> KeyHash {
    KeyHash::from_parts(0, 1 + number as u64)
}
