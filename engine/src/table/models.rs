//! loom models of the table: every interleaving within the stated bounds.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p tidegate-engine --lib models`. A line
//! has two slots here. All models use emission intervals of one unit, so a key's value less
//! `now` is the cost it was charged.
//!
//! What loom can not see: it weakens sequentially consistent accesses (fences are modelled; this
//! protocol uses no such access), it does not model load buffering, and generations never wrap
//! in runs this short.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::key::KeyHash;

use super::claim::Scan;
use crate::gcra::Tat;

use super::Update;

type Table = super::Table<Tat>;

const NOW: u64 = 100;

/// Preemptions a run of models of two threads: all orders in which one thread is stopped, the other
/// runs any number of steps, and so on, up to so many changes.
const PAIR: usize = 5;
/// The same for three threads.
const TRIO: usize = 2;

/// Explores `model`: completely, or within so many preemptions a run.
fn explore(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// A key whose home is line `home` of two (or the only line).
fn key(home: u64, name: u64) -> KeyHash {
    KeyHash::from_parts(home * 0x7ff, name)
}

fn table(lines: usize) -> Arc<Table> {
    Arc::new(Table::with_lines(lines, Tat).unwrap())
}

fn check_at(table: &Table, key: KeyHash, burst: u64, now: u64, reread: u64) -> bool {
    let update = table.home(key).update(
        now,
        || reread,
        |value, now| {
            let charged = value.max(now) + 1;
            (charged - now <= burst).then_some(charged)
        },
    );
    matches!(update, Update::Written { .. })
}

fn check(table: &Table, key: KeyHash, burst: u64) -> bool {
    check_at(table, key, burst, NOW, NOW)
}

/// Sets a key's value, whatever it was.
fn set(table: &Table, key: KeyHash, value: u64) {
    table.home(key).update(0, || 0, |_, _| Some(value));
}

/// The live values of a key, one for each slot that has one.
fn live(table: &Table, key: KeyHash) -> Vec<u64> {
    let values = table.entries().filter(|(other, _)| other.tag() == key.tag());
    values.map(|(_, value)| value).filter(|value| *value > NOW).collect()
}

/// The cost charged to a key, which has at most one live word.
fn charged(table: &Table, key: KeyHash) -> u64 {
    let live = live(table, key);
    assert!(live.len() <= 1, "{key:?} has {} live words", live.len());
    live.first().map_or(0, |value| value - NOW)
}

/// Publishes an intent for `key` and stops for ever, as a thread parked there would.
fn abandon_claim(table: &Table, key: KeyHash) {
    let place = table.lines.place(key);
    if let Scan::Absent(absent) = table.scan(key, place, NOW) {
        let _ = table.claim(key, &absent, &mut 0);
    }
}

fn spawn(table: &Arc<Table>, check: impl Fn(&Table) -> bool + 'static) -> thread::JoinHandle<bool> {
    let table = Arc::clone(table);
    thread::spawn(move || check(&table))
}

fn admitted(threads: Vec<thread::JoinHandle<bool>>) -> u64 {
    threads.into_iter().map(|thread| u64::from(thread.join().unwrap())).sum()
}

#[test]
fn charges_to_one_word_are_never_lost() {
    for burst in [1, 2, 3] {
        explore(None, move || {
            let table = table(1);
            let key = key(0, 1);
            set(&table, key, NOW);
            let threads = (0..2).map(|_| spawn(&table, move |t| check(t, key, burst))).collect();
            let admitted = admitted(threads);
            assert_eq!(admitted, burst.min(2));
            assert_eq!(charged(&table, key), admitted);
        });
    }
}

#[test]
fn first_checks_of_one_key_admit_one_burst() {
    for (lines, burst) in [(1, 1), (1, 2), (2, 1)] {
        explore(Some(PAIR), move || {
            let table = table(lines);
            let key = key(0, 1);
            let threads = (0..2).map(|_| spawn(&table, move |t| check(t, key, burst))).collect();
            let admitted = admitted(threads);
            assert_eq!(admitted, burst.min(2));
            assert_eq!(charged(&table, key), admitted);
        });
    }
}

/// Only one slot is to be had, so a claimer that mistook its own key's word for another's would
/// evict it.
#[test]
fn first_checks_beside_a_live_key_admit_one_burst() {
    explore(Some(PAIR), || {
        let table = table(1);
        let (key, live_key) = (key(0, 1), key(0, 2));
        set(&table, live_key, NOW + 9);
        let threads = (0..2).map(|_| spawn(&table, move |t| check(t, key, 1))).collect();
        assert_eq!(admitted(threads), 1);
        assert_eq!((charged(&table, key), charged(&table, live_key)), (1, 9));
    });
}

/// The home line fills up or frees between the two claimers' scans, so they choose slots in
/// different lines.
#[test]
fn claimers_of_one_key_in_different_lines_settle_on_one() {
    explore(Some(TRIO), || {
        let table = table(2);
        let (key, other, last) = (key(0, 1), key(0, 2), key(0, 3));
        set(&table, other, NOW + 5);
        let filler = spawn(&table, move |t| check(t, last, 1));
        let threads = (0..2).map(|_| spawn(&table, move |t| check(t, key, 1))).collect();
        assert_eq!(admitted(threads), 1);
        assert!(filler.join().unwrap());
        assert_eq!(charged(&table, key), 1);
        assert_eq!(charged(&table, last), 1);
        assert_eq!(charged(&table, other), 5);
    });
}

#[test]
fn three_first_checks_of_one_key_admit_one_burst() {
    for burst in [1, 2] {
        explore(Some(TRIO), move || {
            let table = table(1);
            let key = key(0, 1);
            let threads = (0..3).map(|_| spawn(&table, move |t| check(t, key, burst))).collect();
            assert_eq!(admitted(threads), burst);
            assert_eq!(charged(&table, key), burst);
        });
    }
}

#[test]
fn different_keys_that_want_one_slot_both_find_a_place() {
    explore(Some(PAIR), || {
        let table = table(1);
        let (left, right) = (key(0, 1), key(0, 2));
        let threads = [left, right].map(|key| spawn(&table, move |t| check(t, key, 1)));
        assert_eq!(admitted(threads.into()), 2);
        assert_eq!((charged(&table, left), charged(&table, right)), (1, 1));
    });
}

/// The departing key's word has expired; it is checked again while another key takes its slot.
#[test]
fn a_claim_and_a_check_of_the_departing_key_charge_their_own() {
    explore(Some(PAIR), || {
        let table = table(1);
        let (departing, live_key, coming) = (key(0, 1), key(0, 2), key(0, 3));
        set(&table, departing, NOW - 1);
        set(&table, live_key, NOW + 9);
        let threads = [departing, coming].map(|key| spawn(&table, move |t| check(t, key, 1)));
        let admitted = admitted(threads.into());
        assert_eq!(admitted, 2);
        // Three keys for two slots: whoever came second evicted one, and nobody was charged for it.
        let charges = [departing, live_key, coming].map(|key| charged(&table, key));
        let evicted = table.evicted();
        assert_eq!(evicted, 1, "{charges:?}");
        assert!(charges[0] <= 1 && charges[2] <= 1 && [0, 9].contains(&charges[1]));
        assert_eq!(charges.iter().filter(|charge| **charge == 0).count(), 1, "{charges:?}");
    });
}

/// A live key is evicted while it is being charged: the charge is on its word or it is gone with
/// it, never on the newcomer.
#[test]
fn an_evicted_keys_charge_never_lands_on_the_newcomer() {
    explore(Some(PAIR), || {
        let table = table(1);
        let (victim, live_key, coming) = (key(0, 1), key(0, 2), key(0, 3));
        set(&table, victim, NOW + 1);
        set(&table, live_key, NOW + 9);
        let checker = spawn(&table, move |t| check(t, victim, 2));
        let newcomer = spawn(&table, move |t| check(t, coming, 3));
        assert!(checker.join().unwrap() && newcomer.join().unwrap());
        assert!(charged(&table, coming) <= 1);
        assert!(charged(&table, victim) <= 2);
        assert_eq!(charged(&table, live_key) % 9, 0);
    });
}

/// A key takes the slot of one that is deep in debt while another thread checks it: the
/// predecessor's debt denies nobody else.
#[test]
fn a_newcomer_is_not_denied_by_its_predecessors_debt() {
    explore(Some(PAIR), || {
        let table = table(1);
        let (victim, live_key, coming) = (key(0, 1), key(0, 2), key(0, 3));
        set(&table, victim, NOW + 5);
        set(&table, live_key, NOW + 9);
        let threads = (0..2).map(|_| spawn(&table, move |t| check(t, coming, 2))).collect();
        assert_eq!(admitted(threads), 2);
        assert_eq!(charged(&table, coming), 2);
        assert_eq!(charged(&table, live_key), 9);
    });
}

/// The slot goes from the first key to a second and back while a check of the first is under way.
/// The check's charge and the charges of the key's second life add up or are evicted, and the
/// second key is charged for itself alone.
#[test]
fn a_delayed_check_is_not_fooled_by_a_slot_that_came_back() {
    explore(Some(PAIR - 1), || {
        let table = table(1);
        let (first, second, third) = (key(0, 1), key(0, 2), key(0, 3));
        set(&table, first, NOW + 1);
        set(&table, third, NOW + 9);
        let delayed = spawn(&table, move |t| check(t, first, 2));
        let mover = spawn(&table, move |t| check(t, second, 1) && check(t, first, 2));
        assert!(mover.join().unwrap());
        let _ = delayed.join().unwrap();
        assert!(charged(&table, second) <= 1);
        assert!(charged(&table, first) <= 2);
    });
}

/// A later `now` takes over as expired what is live at an earlier one: a thread with the earlier
/// `now` that finds its key gone is decided at the later time, because it reads the clock again.
#[test]
fn a_late_thread_reads_the_clock_again() {
    explore(Some(PAIR), || {
        let table = table(1);
        let (departing, coming) = (key(0, 1), key(0, 2));
        set(&table, departing, NOW - 1);
        let taker = spawn(&table, move |t| check(t, coming, 1));
        // At NOW - 2 one unit of debt is left, so a burst of one is used up.
        let late = spawn(&table, move |t| check_at(t, departing, 1, NOW - 2, NOW));
        assert!(taker.join().unwrap());
        let admitted = late.join().unwrap();
        assert_eq!(charged(&table, departing), u64::from(admitted));
        assert_eq!(charged(&table, coming), 1);
    });
}

/// The clock is a shared word, as [`RecentClock`](crate::RecentClock)'s is, and one thread sees it
/// move before the other does: what that thread took as expired, the other can not find fresh
/// at the earlier time.
#[test]
fn a_hand_over_carries_the_time_it_was_decided_at() {
    explore(Some(PAIR - 1), || {
        let table = table(1);
        let (departing, coming) = (key(0, 1), key(0, 2));
        set(&table, departing, NOW - 1);
        let clock = Arc::new(AtomicU64::new(NOW - 2));
        let ours = Arc::clone(&clock);
        let taker = spawn(&table, move |t| {
            ours.store(NOW, Ordering::Relaxed);
            let now = ours.load(Ordering::Relaxed);
            check_at(t, coming, 1, now, now)
        });
        let late = spawn(&table, move |t| {
            let now = clock.load(Ordering::Relaxed);
            let update = t.home(departing).update(
                now,
                || clock.load(Ordering::Relaxed),
                |value, now| (value.max(now) < now + 1).then_some(value.max(now) + 1),
            );
            matches!(update, Update::Written { .. })
        });
        assert!(taker.join().unwrap());
        let admitted = late.join().unwrap();
        assert_eq!(charged(&table, departing), u64::from(admitted));
    });
}

/// Two claimers of one key choose different slots, because the first slot has expired for one
/// and not yet for the other.
#[test]
fn claimers_with_different_nows_settle_on_one() {
    for (lines, burst) in [(1, 1), (1, 2)] {
        explore(Some(PAIR), move || {
            let table = table(lines);
            let (departed, key) = (key(0, 1), key(0, 2));
            set(&table, departed, NOW - 1);
            let early = spawn(&table, move |t| check_at(t, key, burst, NOW - 2, NOW));
            let late = spawn(&table, move |t| check(t, key, burst));
            let admitted = admitted(vec![early, late]);
            // At NOW - 2 a key that was charged at NOW is deeper in debt.
            assert!(admitted == burst || admitted == 1, "{admitted}");
            assert_eq!(charged(&table, key), admitted);
        });
    }
}

/// A peek and a denial write nothing, so a key's charges do not depend on who looks.
#[test]
fn looking_changes_nothing() {
    explore(None, || {
        let table = table(1);
        let key = key(0, 1);
        let looker = spawn(&table, move |t| {
            matches!(t.home(key).update(NOW, || NOW, |_, _| None), Update::Written { .. })
        });
        let checker = spawn(&table, move |t| check(t, key, 1));
        assert!(!looker.join().unwrap() && checker.join().unwrap());
        assert_eq!(charged(&table, key), 1);
    });
}

/// A claimer is parked for ever after publishing its intent: whoever wants the same key carries
/// the intent through, and whoever wants its slot gets it without evicting a live key.
#[test]
fn an_abandoned_claim_stops_nobody_and_costs_no_slot() {
    for same_key in [true, false] {
        explore(Some(PAIR), move || {
            let table = table(1);
            let (parked, live_key, coming) = (key(0, 1), key(0, 2), key(0, 3));
            set(&table, live_key, NOW + 9);
            let stopper = spawn(&table, move |t| {
                abandon_claim(t, parked);
                true
            });
            let wanted = if same_key { parked } else { coming };
            let checker = spawn(&table, move |t| check(t, wanted, 1));
            assert!(stopper.join().unwrap() && checker.join().unwrap());
            assert!(check(&table, wanted, 2), "the slot is lost");
            assert_eq!(charged(&table, live_key), 9);
        });
    }
}
