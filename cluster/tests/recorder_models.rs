//! loom models of the recorder's tables: every interleaving, and every value that weak memory may
//! return, within a bound on preemptions.
//!
//! This crate includes the files that it explores, with loom's atomics in place of the module that
//! they take them from. So neither the cluster nor what it depends on is built for loom.
//!
//! The spawned thread is the one that only loads the other's words first; loom runs the parent
//! first, and otherwise misses orders in which the loads precede all writes of the parent.

#[allow(dead_code, reason = "the recorder uses the rest")]
#[path = "../src/driver/recorder/singles.rs"]
mod singles;
#[allow(dead_code, reason = "the recorder uses the rest")]
#[path = "../src/driver/recorder/table.rs"]
mod table;

/// In place of `cluster/src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

    /// For compilers only.
    pub(crate) fn compiler_fence(_: Ordering) {}
}

#[expect(dead_code, reason = "of which recording needs a part")]
#[path = "../src/protocol/change.rs"]
mod change;

mod protocol {
    pub(crate) use super::change::Change;
}

use std::sync::atomic::AtomicU64 as Tally;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use protocol::Change;
use singles::Singles;
use table::{Outcome, Reader, Record, Table};

/// `full` for the bounds that models state; otherwise less.
const MODELS: &str = "TIDEGATE_MODELS";
/// The most steps of a run; one that never ended would exceed it.
const MAX_STEPS: usize = 10_000;

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    explore_by(preemptions, 1, model);
}

/// With this many preemptions less than `full`, unless that is asked for.
fn explore_by(full: usize, less: usize, model: impl Fn() + Send + Sync + 'static) {
    let is_full = std::env::var(MODELS).is_ok_and(|models| models == "full");
    let bound = if is_full { full } else { full - less };
    let mut builder = loom::model::Builder::new();
    (builder.max_permutations, builder.max_duration) = (None, None);
    builder.max_branches = MAX_STEPS;
    builder.preemption_bound = Some(bound);
    let runs = std::sync::Arc::new(Tally::new(0));
    let counted = std::sync::Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    println!("{bound} preemptions: complete after {} runs", runs.load(Relaxed));
}

/// What the consumer has taken, in order: key and delta.
type Taken = Vec<(u64, Change)>;

struct Consumer {
    table: Arc<Table>,
    reader: Reader,
    taken: Taken,
}

impl Consumer {
    fn new(table: &Arc<Table>) -> Self {
        Self { table: Arc::clone(table), reader: Reader::new(table), taken: Taken::new() }
    }

    fn drain(&mut self) {
        self.table.advance();
        let taken = &mut self.taken;
        self.table.begin_drain(&mut self.reader);
        // One slot at a time, so that records are made in between.
        let mut take = |limit, key, debt| {
            assert_eq!(limit, key + 100, "a label of two keys");
            taken.push((key, debt));
        };
        while self.table.drain(&mut self.reader, 1, &mut take) > 0 {}
    }

    /// On a thread of its own.
    fn drains(mut self, times: usize) -> JoinHandle<Self> {
        thread::spawn(move || {
            for _ in 0..times {
                self.drain();
            }
            self
        })
    }

    fn sum(&self, key: u64) -> i64 {
        self.taken.iter().filter(|(of, _)| *of == key).map(|(_, debt)| debt.debt).sum()
    }
}

/// Each key's limit is its own, so that a label of two keys shows.
fn record(table: &Table, key: u64, debt: i64, at: i64) -> bool {
    let record = Record { limit: key + 100, key, debt, at: Some(at) };
    table.record(record, || at) != Outcome::NoRoom
}

/// Records of two keys while two drains run, of which one is not touched again: each is taken once.
#[test]
fn each_record_is_taken_once() {
    explore(4, || {
        let table = Arc::new(Table::new(1, None));
        let consumer = Consumer::new(&table).drains(2);
        for (key, debt) in [(1, 1), (1, 2), (2, 4)] {
            assert!(record(&table, key, debt, 0));
        }
        let mut consumer = consumer.join().unwrap();
        consumer.drain();
        assert_eq!([consumer.sum(1), consumer.sum(2)], [3, 4]);
    });
}

/// Records of keys that are used once come round in their ring while drains run: each is taken
/// once, as it was made.
#[test]
fn a_ring_of_singles_comes_round() {
    explore(4, || {
        let singles = Arc::new(Singles::new(Some(1)));
        let consumer = Arc::clone(&singles);
        let consumer = thread::spawn(move || {
            let (mut taken, mut found) = (singles::DrainRange::default(), Vec::new());
            for _ in 0..2 {
                consumer.begin_drain(&mut taken);
                let mut take = |limit, key, change| found.push((limit, key, change));
                while consumer.drain(&mut taken, 1, &mut take) > 0 {}
            }
            (taken, found)
        });
        let mut made = Vec::new();
        for key in 1..=4 {
            let change = Change::new(key as i64, 10 * key as i64);
            if singles.push(1, (key + 100, key), change) {
                made.push((key + 100, key, change));
            }
        }
        let (mut taken, mut found) = consumer.join().unwrap();
        singles.begin_drain(&mut taken);
        singles
            .drain(&mut taken, usize::MAX, |limit, key, change| found.push((limit, key, change)));
        assert_eq!(found, made);
    });
}

/// Charges and refunds that cancel, so that a sum comes back to what was taken.
#[test]
fn a_sum_that_comes_back_is_no_loss() {
    explore(3, || {
        let table = Arc::new(Table::new(1, None));
        let consumer = Consumer::new(&table).drains(2);
        for debt in [3, -3, 3, 5] {
            assert!(record(&table, 1, debt, 0));
        }
        let mut consumer = consumer.join().unwrap();
        consumer.drain();
        assert_eq!(consumer.sum(1), 8);
    });
}

/// A slot that is free goes to another key, and back, while drains run: no debt is lost, and none
/// reaches the other key.
#[test]
fn a_slot_changes_hands() {
    // Three preemptions take as long as all other models together.
    explore_by(4, 2, || {
        let table = Arc::new(Table::new(0, None));
        let mut consumer = Consumer::new(&table);
        assert!(record(&table, 1, 1, 0));
        consumer.drain();
        let consumer = consumer.drains(3);
        let mut sums = [0, 1, 0];
        for (key, debt) in [(1, 2), (2, 4), (1, 8), (2, 16)] {
            if record(&table, key, debt, 0) {
                sums[key as usize] += debt;
            }
        }
        let mut consumer = consumer.join().unwrap();
        consumer.drain();
        assert_eq!([0, consumer.sum(1), consumer.sum(2)], sums);
    });
}

/// Two slots and three keys: the journal comes round, and one drain reads several entries.
#[test]
fn a_journal_comes_round() {
    explore(3, || {
        let table = Arc::new(Table::new(1, None));
        let mut consumer = Consumer::new(&table);
        let mut sums = [0; 4];
        let mut put = |key: u64, debt| {
            if record(&table, key, debt, 0) {
                sums[key as usize] += debt;
            }
        };
        for debt in [1, 2] {
            put(1, debt);
            put(2, debt);
            consumer.drain();
        }
        let consumer = consumer.drains(2);
        put(1, 4);
        put(2, 4);
        put(3, 4);
        put(1, 8);
        let mut consumer = consumer.join().unwrap();
        consumer.drain();
        assert_eq!([0, consumer.sum(1), consumer.sum(2), consumer.sum(3)], sums);
    });
}

/// What is taken of a key that drains between records is, at the present and from then on, no less
/// than the records whose debt it contains, and at the end exactly all of them.
#[test]
fn a_delta_is_dated_as_its_records() {
    const RECORDS: [(i64, i64); 3] = [(10, 0), (4, 100), (3, 102)];
    const NOW: i64 = 102;
    explore(4, || {
        let table = Arc::new(Table::new(1, None));
        let consumer = Consumer::new(&table).drains(2);
        for (debt, at) in RECORDS {
            assert!(record(&table, 1, debt, at));
        }
        let mut consumer = consumer.join().unwrap();
        consumer.drain();
        for start in [0, 95, 99, 105, 200] {
            let (mut sum, mut tat) = (0, start);
            for (_, debt) in &consumer.taken {
                (sum, tat) = (sum + debt.debt, debt.apply(tat));
                let (mut of, mut exact) = (0, start);
                for (debt, at) in RECORDS {
                    if of < sum {
                        (of, exact) = (of + debt, Change::new(debt, at).apply(exact));
                    }
                }
                assert_eq!(of, sum, "the debt of whole records");
                assert_eq!(tat.max(NOW), exact.max(NOW), "from {start}, {:?}", consumer.taken);
            }
            assert_eq!(sum, 17);
            let all = consumer.taken.iter().map(|(_, debt)| *debt).reduce(Change::then);
            assert_eq!(all.unwrap().apply(start), tat);
        }
    });
}

/// A thread gives its table back, and another one records on: it continues the sums.
#[test]
fn a_table_changes_its_thread() {
    explore(4, || {
        let table = Arc::new(Table::new(1, None));
        let mut consumer = Consumer::new(&table);
        let next = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let is_mine = table.claim();
                if is_mine {
                    assert!(record(&table, 1, 4, 0));
                    table.give_back();
                }
                is_mine
            })
        };
        assert!(record(&table, 1, 1, 0));
        assert!(record(&table, 1, 2, 0));
        table.give_back();
        consumer.drain();
        let was_claimed = next.join().unwrap();
        consumer.drain();
        assert_eq!(consumer.sum(1), if was_claimed { 7 } else { 3 });
    });
}
