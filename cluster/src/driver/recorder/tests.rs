use std::cell::RefCell;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::shards::{MAX_SHARD_KEYS, SHARDS};
use super::*;
use crate::protocol::Change;

const LIMIT: u64 = 0;

/// With tables of 1,024 slots.
fn recorder() -> Recorder {
    Recorder::with_tables(Instant::now(), 10, None)
}

/// The same, with room for 256 keys that are used once.
fn with_singles() -> Recorder {
    Recorder::with_tables(Instant::now(), 10, Some(8))
}

pub(super) fn of(key: u64, debt: i64, at: i64) -> Record {
    Record { limit: LIMIT, key, debt, at: Some(at) }
}

fn record(recorder: &Recorder, key: u64) {
    recorder.record(LimitId::INLINE, KeyHash::from_bits(key), 1);
}

pub(super) fn take(recorder: &Recorder) -> Vec<Delta> {
    let mut taken = Vec::new();
    assert!(recorder.take(Nanos::MAX, usize::MAX, &mut taken));
    taken
}

fn sum(taken: &[Delta]) -> i64 {
    taken.iter().map(|one| one.change.debt).sum()
}

/// All that is in a table, by key.
fn drain(table: &Table, reader: &mut Reader) -> Vec<(u64, Change)> {
    let mut taken = Vec::new();
    table.advance();
    table.begin_drain(reader);
    table.drain(reader, usize::MAX, |_, key, debt| taken.push((key, debt)));
    taken
}

async fn is_woken(recorder: &Recorder) -> bool {
    woken(recorder).await.is_some()
}

/// Whether something was recorded for a wake, if there is one.
async fn woken(recorder: &Recorder) -> Option<bool> {
    tokio::select! {
        biased;
        is_new = recorder.filled() => Some(is_new),
        () = std::future::ready(()) => None,
    }
}

/// What is consumed has the date of what its thread recorded first since a drain. What is given
/// back may be what another node consumed meanwhile, and comes after that.
#[test]
fn what_is_given_back_is_dated_when_it_is() {
    const WAIT: Duration = Duration::from_millis(2);
    for recorder in [recorder(), with_singles()] {
        for (key, debt) in [(1, 5), (2, 5), (3, -20), (3, 30)] {
            recorder.record(LimitId::INLINE, KeyHash::from_bits(key), debt);
            std::thread::sleep(WAIT);
        }
        let taken = take(&recorder);
        let date = |key| taken.iter().find(|delta| delta.key == key).unwrap().change.date;
        assert_eq!(date(1), date(2));
        // As one: what was consumed after that comes after it.
        assert!(date(3) >= date(1) + 2 * signed(WAIT) + 20);
    }
}

/// What is dated after the call would seem to be composed with something that was given back.
#[test]
fn dates_are_up_to_the_time_of_the_call() {
    for recorder in [recorder(), with_singles()] {
        for record in [of(1, 5, 100), of(2, 5, 300), of(3, 500, 100), of(3, 5, 200)] {
            recorder.add(record);
        }
        let mut taken = Vec::new();
        assert!(recorder.take(250, usize::MAX, &mut taken));
        let dates = |taken: &[Delta]| taken.iter().map(|one| one.change.date).collect::<Vec<_>>();
        assert_eq!(dates(&taken), [100, 250, 100]);
        // In debt, of which a table knows until when.
        recorder.add(of(3, 5, 300));
        taken.clear();
        assert!(recorder.take(350, usize::MAX, &mut taken));
        assert_eq!(dates(&taken), [if recorder.singles.is_some() { 300 } else { 350 }]);
    }
}

/// Also of one key where both are dated after the call, among enough others that a wrong order
/// would show.
#[test]
fn what_is_given_back_comes_after_what_was_consumed() {
    for recorder in [recorder(), with_singles()] {
        for key in 0..100 {
            recorder.add(of(key, 10, 300));
            recorder.add(of(key, -9, 310));
        }
        let mut taken = Vec::new();
        assert!(recorder.take(250, usize::MAX, &mut taken));
        let changes = taken.iter().map(|one| one.change);
        assert!(changes.eq([Change::new(1, 250); 100]), "{taken:?}");
    }
}

/// Also with more keys than have room in the threads' tables.
#[test]
fn nothing_is_lost_between_recording_and_taking() {
    const THREADS: i64 = 2;
    const EACH: i64 = 50_000;
    let recorders = [recorder as fn() -> Recorder, with_singles];
    for (keys, recorder) in
        [1, 100, 5_000].into_iter().flat_map(|n| recorders.map(|new| (n, new())))
    {
        let running = AtomicUsize::new(THREADS as usize);
        let mut all = 0;
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for n in 0..EACH {
                        recorder.add(of((n % keys) as u64, 3, n));
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
            while running.load(Ordering::SeqCst) > 0 {
                let mut taken = Vec::new();
                recorder.take(Nanos::MAX, 70, &mut taken);
                assert!(taken.len() <= 70);
                all += sum(&taken);
            }
        });
        // Ends the drain that was begun, and another.
        all += sum(&take(&recorder)) + sum(&take(&recorder));
        assert_eq!(all, THREADS * EACH * 3, "{keys} keys");
        assert_eq!(recorder.dropped(), 0);
    }
}

#[test]
fn keys_come_once_in_order_with_the_dates_of_what_was_consumed() {
    for recorder in [recorder(), with_singles()] {
        keys_come_once(&recorder);
    }
}

fn keys_come_once(recorder: &Recorder) {
    std::thread::sleep(Duration::from_micros(1));
    // First, so that the other thread does not leave its table to this one.
    recorder.add(of(4, -5, 3));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            recorder.add(of(7, 30, 100));
            recorder.add(of(5, 10, 120));
            recorder.add(Record { limit: 1, ..of(2, 1, 1) });
        });
    });
    // After the other one's debt of key 7 has drained, and before.
    recorder.add(of(7, 10, 150));
    recorder.add(of(5, 10, 125));
    recorder.add(of(6, 8, 1));
    recorder.add(of(6, -8, 2));
    let found: Vec<_> = take(recorder)
        .into_iter()
        .map(|one| (one.limit, one.key, one.change.debt, one.change.date))
        .collect();
    let expected = [(0, 4, -5, 3), (0, 5, 20, 120), (0, 7, 40, 120), (1, 2, 1, 1)];
    assert_eq!(found, expected);
    assert_eq!(take(recorder), []);
}

/// A key's first record in an epoch takes no slot, and what follows is dated with it: a key that
/// drains in between, and one that does not.
#[test]
fn a_key_that_is_used_again_gets_a_slot() {
    let table = Table::new(0, Some(2));
    let mut reader = Reader::new(&table);
    let mut drain = || drain(&table, &mut reader);
    let record = |record| table.record(record, || 0);
    assert_eq!(record(of(1, 10, 100)), Outcome::Due);
    assert_eq!(record(of(2, 10, 100)), Outcome::Added);
    assert_eq!(record(of(2, 5, 130)), Outcome::Added);
    assert_eq!(record(of(2, 5, 131)), Outcome::Added);
    let (ring, slot) =
        ([(1, Change::new(10, 100)), (2, Change::new(10, 100))], Change::new(10, 130));
    assert_eq!(drain(), [ring[0], ring[1], (2, slot)]);
    // The ring has room for four, and the slot is key 2's.
    for key in 3..7 {
        assert_eq!(record(of(key, 1, 200)), if key == 3 { Outcome::Due } else { Outcome::Added });
    }
    assert_eq!(record(of(7, 1, 200)), Outcome::NoRoom);
    assert_eq!(drain(), [3, 4, 5, 6].map(|key| (key, Change::new(1, 200))));
}

/// A drain follows a first record, and one more follows that drain, for records that it may have
/// missed.
#[tokio::test]
async fn it_wakes_for_the_first_record_after_taking() {
    let recorder = recorder();
    assert!(!is_woken(&recorder).await);
    for round in 0..3 {
        record(&recorder, 1);
        assert_eq!(woken(&recorder).await, Some(true), "{round}");
        record(&recorder, 2);
        assert_eq!(woken(&recorder).await, None, "{round}");
        assert_eq!(take(&recorder).len(), 2);
        if round == 1 {
            record(&recorder, 1);
            assert_eq!(woken(&recorder).await, Some(true), "it does not only follow the drain");
            assert_eq!(take(&recorder).len(), 1);
        }
        assert_eq!(woken(&recorder).await, Some(false), "{round}");
        assert_eq!(take(&recorder), []);
        assert_eq!(woken(&recorder).await, None, "{round}");
    }
}

/// A drain takes parts from tables and shards, and ends though records follow; what was recorded
/// after it is the next one's.
#[tokio::test]
async fn a_drain_takes_parts() {
    let recorder = recorder();
    // Twice what a table has room for.
    for key in 0..2_048 {
        recorder.add(of(key, 1, 0));
    }
    assert!(recorder.shared() > 1_000);
    assert!(is_woken(&recorder).await);
    let mut calls = 0;
    let mut taken = Vec::new();
    loop {
        let before = taken.len();
        let is_over = recorder.take(Nanos::MAX, 100, &mut taken);
        calls += 1;
        assert!(taken.len() - before <= 100);
        recorder.add(of(5, 1, 0));
        if is_over {
            break;
        }
    }
    assert_eq!(calls, 21);
    assert!(is_woken(&recorder).await, "there is more");
    // It reads slots again of which the drain before did not know whether they were final.
    while !recorder.take(Nanos::MAX, 100, &mut taken) {}
    assert_eq!(sum(&taken), 2_048 + calls);
    assert!(taken.iter().all(|one| (0..2_048).contains(&one.key)));
}

/// A record that is made while a drain runs wakes the recorder too, though it is not the first in
/// its epoch.
#[tokio::test]
async fn a_record_during_a_drain_wakes() {
    let recorder = recorder();
    record(&recorder, 1);
    let table = recorder.tables().next().unwrap().1;
    while is_woken(&recorder).await {
        take(&recorder);
    }
    record(&recorder, 1);
    assert!(is_woken(&recorder).await);
    take(&recorder);
    // What the drain does first, between the record's two looks at the epoch.
    let mut clock_is_read = false;
    let outcome = table.record(of(1, 1, 0), || {
        clock_is_read = true;
        0
    });
    assert!(clock_is_read);
    assert_eq!(outcome, Outcome::Due);
    assert_eq!(table.record(of(1, 1, 0), || unreachable!("not the first")), Outcome::Added);
}

#[test]
fn a_table_is_used_again_after_its_thread() {
    let recorder = recorder();
    for key in 1..=3 * MAX_THREADS as u64 {
        std::thread::scope(|scope| scope.spawn(|| record(&recorder, key)).join().unwrap());
    }
    assert_eq!(recorder.tables().count(), 1);
    assert_eq!(recorder.shared(), 0);
    assert_eq!(take(&recorder).len(), 3 * MAX_THREADS);
}

fn has_first_seat(recorder: &Recorder) -> bool {
    recorder.first_table().is_some()
}

/// A service may end its node, drop what it has of it, and start another one as often as it likes.
#[test]
fn the_next_recorder_of_a_thread_is_as_quick_as_its_first() {
    for _ in 0..3 {
        let recorder = recorder();
        record(&recorder, 1);
        assert!(has_first_seat(&recorder));
        assert_eq!(sum(&take(&recorder)), 1);
    }
}

/// Also while the thread that has used them is idle.
#[test]
fn tables_are_freed_with_their_recorder() {
    let recorder = recorder();
    record(&recorder, 1);
    let tables = Arc::downgrade(&recorder.tables);
    assert_eq!(tables.strong_count(), 1);
    drop(recorder);
    assert_eq!(tables.strong_count(), 0);
}

/// Each has a table of its own, and the one that the thread has used first is the quick one. When
/// that is gone, the other one is, which had a seat already.
#[test]
fn a_thread_uses_two_recorders() {
    let (first, second) = (recorder(), recorder());
    for _ in 0..3 {
        record(&first, 1);
        record(&second, 1);
        assert!(has_first_seat(&first) && !has_first_seat(&second));
    }
    assert_eq!([first.tables().count(), second.tables().count()], [1, 1]);
    assert_eq!([sum(&take(&first)), sum(&take(&second))], [3, 3]);
    drop(first);
    record(&second, 1);
    assert!(has_first_seat(&second));
    record(&second, 1);
    assert_eq!((second.tables().count(), second.shared(), sum(&take(&second))), (1, 0, 2));
}

/// What a thread records while its local storage is being destroyed does not go to the table that
/// it has given back.
#[test]
fn a_thread_that_ends_leaves_its_first_seat() {
    struct AtEnd(Arc<Recorder>, SyncSender<bool>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            record(&self.0, 2);
            let _ = self.1.send(has_first_seat(&self.0));
        }
    }
    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    let recorder = Arc::new(recorder());
    let (sender, had_seat) = sync_channel(2);
    for is_first in [true, false] {
        let end = AtEnd(Arc::clone(&recorder), sender.clone());
        let both = move || {
            if is_first {
                record(&end.0, 1);
            }
            let recorder = Arc::clone(&end.0);
            AT_END.set(Some(end));
            record(&recorder, 1);
        };
        std::thread::spawn(both).join().unwrap();
    }
    // One of the two finds the seats destroyed, in whichever order that is done.
    let had_seat: Vec<_> = had_seat.try_iter().collect();
    assert!(had_seat.contains(&false), "{had_seat:?}");
    assert_eq!(had_seat.len(), 2);
    assert_eq!(sum(&take(&recorder)), 5);
    assert!(recorder.tables().all(|(_, table)| table.claim()));
}

#[test]
fn threads_without_a_table_record_too() {
    let recorder = recorder();
    let tables: Vec<_> = std::iter::from_fn(|| recorder.claim()).collect();
    assert_eq!(tables.len(), MAX_THREADS);
    record(&recorder, 1);
    record(&recorder, 1);
    assert_eq!(recorder.shared(), 2);
    assert_eq!(sum(&take(&recorder)), 2);
    // A thread that ends gives way to one that goes on.
    recorder.table(tables[7]).unwrap().give_back();
    while recorder.shared() < 10_000 && !has_first_seat(&recorder) {
        record(&recorder, 1);
    }
    let shared = recorder.shared();
    assert!(shared < 10_000);
    record(&recorder, 1);
    assert_eq!(recorder.shared(), shared);
}

#[test]
fn what_does_not_fit_is_counted() {
    let recorder = recorder();
    let tables: Vec<_> = std::iter::from_fn(|| recorder.claim()).collect();
    let keys = (SHARDS * MAX_SHARD_KEYS) as u64;
    for key in 1..=keys + 5 {
        recorder.add(of(key, 1, 0));
    }
    assert_eq!(recorder.dropped(), 5);
    assert_eq!(take(&recorder).len(), keys as usize);
    drop(tables);
}

#[test]
fn what_no_drain_follows_is_kept_in_no_map() {
    let recorder = recorder();
    let tables: Vec<_> = std::iter::from_fn(|| recorder.claim()).collect();
    record(&recorder, 1);
    recorder.close();
    record(&recorder, 2);
    assert_eq!((recorder.shared(), take(&recorder).len()), (1, 1));
    recorder.table(tables[7]).unwrap().give_back();
    assert!(recorder.claim().is_none());
}

/// A slot with debt of its first key gives the second one its own date.
#[test]
fn a_slot_forgets_the_key_before() {
    let table = Table::new(0, None);
    let mut reader = Reader::new(&table);
    let mut drain = || drain(&table, &mut reader);
    let record = |record| table.record(record, || 0);
    assert_eq!(record(of(1, 1_000, 100)), Outcome::Due);
    assert_eq!(drain(), [(1, Change::new(1_000, 100))]);
    assert_eq!(record(of(1, 1, 100)), Outcome::Due);
    assert_eq!(record(of(2, 1, 101)), Outcome::NoRoom);
    drain();
    // Records of the first key, and the label that is in its slot, are those of two epochs ago.
    assert_eq!(record(of(2, 1, 102)), Outcome::NoRoom);
    drain();
    assert_eq!(record(of(2, 5, 150)), Outcome::Due);
    assert_eq!(drain(), [(2, Change::new(5, 150))]);
}

/// While no thread drains.
#[test]
fn a_full_journal_has_no_room() {
    let table = Table::new(0, None);
    for _ in 0..2 {
        assert_eq!(table.record(of(1, 1, 0), || 0), Outcome::Due);
        table.advance();
    }
    assert_eq!(table.record(of(1, 1, 0), || 0), Outcome::NoRoom);
    let (mut reader, mut sum) = (Reader::new(&table), 0);
    table.begin_drain(&mut reader);
    table.drain(&mut reader, usize::MAX, |_, _, debt| sum += debt.debt);
    assert_eq!(sum, 2);
    assert_eq!(table.record(of(1, 1, 0), || 0), Outcome::Added);
}

/// A debt that a sum could not hold goes where sums saturate.
#[test]
fn nothing_wraps() {
    let recorder = recorder();
    for _ in 0..100 {
        recorder.add(of(1, i64::MAX / 8, 0));
        recorder.add(of(2, i64::MAX, 0));
        recorder.add(of(3, i64::MIN, 0));
    }
    let debts: Vec<_> = take(&recorder).iter().map(|one| one.change.debt).collect();
    assert_eq!(debts, [i64::MAX, i64::MAX, i64::MIN]);
}

/// No thread waits for a lock: with all of them taken a record is dropped, with all but one it goes
/// there; and a drain leaves what is locked to the next one.
#[test]
fn locks_are_only_tried() {
    let recorder = recorder();
    let _tables: Vec<_> = std::iter::from_fn(|| recorder.claim()).collect();
    recorder.add(of(3, 1, 0));
    let mut held: Vec<_> = (0..SHARDS).map(|index| recorder.shards.hold(index)).collect();
    recorder.add(of(3, 1, 0));
    assert_eq!(recorder.dropped(), 1);
    assert_eq!(take(&recorder), []);
    drop(held.remove(17));
    recorder.add(of(3, 1, 0));
    assert_eq!(recorder.dropped(), 1);
    assert_eq!(sum(&take(&recorder)), 1);
    drop(held);
    assert_eq!(sum(&take(&recorder)), 1);
}
