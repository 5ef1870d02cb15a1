//! A thread stops for good before any of its accesses to its table: neither the others nor the
//! consumer notice, and what is taken is what was recorded without that record, or with it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::sync_channel;
use std::thread;

use super::table::{Outcome, Reader, Record, Table};
use super::tests::of;
use crate::protocol::Change;
use crate::sync::watched::watch;

/// Accesses of one record in a table of few slots, at most.
const MAX_STEPS: usize = 100;

/// Unwinds a thread that is stopped.
struct Stopped;

/// Runs `act` up to its access `number`; returns whether it ended before.
fn stop_before(number: usize, act: impl FnOnce()) -> bool {
    let left = Cell::new(number);
    let hook = move || match left.get().checked_sub(1) {
        Some(less) => left.set(less),
        None => resume_unwind(Box::new(Stopped)),
    };
    catch_unwind(AssertUnwindSafe(|| watch(hook, act))).is_ok()
}

struct World {
    table: Table,
    reader: Reader,
    taken: Vec<(u64, Change)>,
}

impl World {
    /// Two slots, and records of two keys, of which one was taken.
    fn new() -> Self {
        let table = Table::new(1, None);
        let mut world = Self { reader: Reader::new(&table), table, taken: Vec::new() };
        assert_eq!(world.record(of(1, 10, 100)), Outcome::Due);
        world.drain();
        assert_eq!(world.record(of(2, 20, 100)), Outcome::Due);
        assert_eq!(world.record(of(1, 5, 105)), Outcome::Added);
        world
    }

    fn record(&self, record: Record) -> Outcome {
        self.table.record(record, || 0)
    }

    fn drain(&mut self) {
        self.table.advance();
        let taken = &mut self.taken;
        self.table.begin_drain(&mut self.reader);
        self.table.drain(&mut self.reader, usize::MAX, |_, key, debt| taken.push((key, debt)));
    }

    /// The TAT that an idle key has by what was taken.
    fn tat(&self, key: u64) -> (i64, i64) {
        let debts = self.taken.iter().filter(|(of, _)| *of == key);
        debts.fold((0, 0), |(sum, tat), (_, debt)| (sum + debt.debt, debt.apply(tat)))
    }
}

/// Stops the record `last` before each of its accesses; expected are sums and TATs of both keys,
/// without the record and with it.
fn stop_everywhere(last: Record, expected: [[(i64, i64); 2]; 2]) {
    for number in 0..MAX_STEPS {
        let mut world = World::new();
        let table = &world.table;
        let ended = stop_before(number, || {
            let _ = table.record(last, || 0);
        });
        world.drain();
        let found = [world.tat(1), world.tat(2)];
        assert!(expected.contains(&found), "{number}: {found:?}");
        world.drain();
        assert!(expected.contains(&[world.tat(1), world.tat(2)]), "{number}");
        // The thread goes on, with another record.
        let _ = world.record(of(2, 1, 200));
        world.drain();
        let (sum, tat) = world.tat(2);
        assert_eq!(tat, 201, "{number}");
        assert!(expected.map(|keys| keys[1].0 + 1).contains(&sum), "{number}: {sum}");
        if ended {
            assert!(number > 5, "nothing was stopped");
            assert_eq!(sum, expected[1][1].0 + 1);
            return;
        }
    }
    panic!("a record takes more than {MAX_STEPS} accesses");
}

#[test]
fn a_record_of_a_key_in_debt_is_made_or_not() {
    stop_everywhere(of(1, 3, 108), [[(15, 115), (20, 120)], [(18, 118), (20, 120)]]);
    stop_everywhere(of(2, 3, 108), [[(15, 115), (20, 120)], [(15, 115), (23, 123)]]);
}

/// A drain that begins while a record is made, wherever the record is, is not the last one: the
/// record says that another is due.
#[test]
fn a_record_notices_a_drain_that_begins_meanwhile() {
    for number in 0..MAX_STEPS {
        let world = World::new();
        let (table, (at, reached), (go_on, went_on)) =
            (&world.table, sync_channel::<()>(1), sync_channel::<()>(0));
        let outcome = thread::scope(|scope| {
            let recording = scope.spawn(move || {
                let mut step = 0;
                let hook = move || {
                    if step == number {
                        at.send(()).expect("the test waits");
                        // Returns when the other end is gone.
                        let _ = went_on.recv();
                    }
                    step += 1;
                };
                watch(hook, || table.record(of(1, 3, 108), || 0))
            });
            let was_stopped = reached.recv().is_ok();
            if was_stopped {
                table.advance();
            }
            drop(go_on);
            (recording.join().expect("it ends"), was_stopped)
        });
        if outcome == (Outcome::Added, false) {
            assert!(number > 5, "nothing was stopped");
            return;
        }
        assert_eq!(outcome, (Outcome::Due, true), "{number}");
    }
    panic!("a record takes more than {MAX_STEPS} accesses");
}

/// A `base` without its sum ends the debt before at the record's time, when it has drained.
#[test]
fn a_record_of_a_drained_key_is_made_or_not() {
    for number in 0..MAX_STEPS {
        let mut world = World::new();
        let table = &world.table;
        let ended = stop_before(number, || {
            let _ = table.record(of(2, 3, 150), || 0);
        });
        world.drain();
        let (sum, tat) = world.tat(2);
        match sum {
            20 => assert!(tat <= 150, "{number}: {tat}"),
            23 => assert_eq!(tat, 153, "{number}"),
            _ => panic!("{number}: {sum}"),
        }
        if ended {
            assert_eq!(sum, 23);
            return;
        }
    }
    panic!("a record takes more than {MAX_STEPS} accesses");
}

/// In the world's table both slots are free after two more drains with a record between them.
#[test]
fn a_record_of_another_key_takes_a_slot_or_not() {
    for number in 0..MAX_STEPS {
        let mut world = World::new();
        world.drain();
        let _ = world.record(of(1, 5, 105));
        world.drain();
        let _ = world.record(of(1, 5, 105));
        world.drain();
        let before = [world.tat(1), world.tat(2)];
        let table = &world.table;
        let ended = stop_before(number, || {
            let _ = table.record(of(3, 7, 150), || 0);
        });
        world.drain();
        world.drain();
        assert_eq!([world.tat(1), world.tat(2)], before, "{number}");
        assert!([(0, 0), (7, 157)].contains(&world.tat(3)), "{number}");
        if ended {
            assert_eq!(world.tat(3), (7, 157));
            return;
        }
    }
    panic!("a record takes more than {MAX_STEPS} accesses");
}
