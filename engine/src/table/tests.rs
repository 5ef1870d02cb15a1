//! Single-threaded and real-thread tests of the table.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::key::{KeyHash, KeyHasher};
use crate::base::sync::watched::watch;

use super::line::Slot;
use super::lines::{BLOCK, CANDIDATES, LIKELIEST, LIKELY};
use crate::rule::gcra::Tat;

use crate::base::word::Update;

type Table = super::Table<Tat>;

const NOW: u64 = 1_000;

fn keys(count: u64) -> impl Iterator<Item = KeyHash> {
    let hasher = KeyHasher::rapid(7);
    (0..count).map(move |key| hasher.hash_u64(key))
}

fn set(table: &Table, key: KeyHash, value: u64) -> Update {
    table.home(key).update(NOW, || NOW, |_, _| Some(value))
}

fn get(table: &Table, key: KeyHash) -> u64 {
    match table.home(key).update(NOW, || NOW, |_, _| None) {
        Update::Unchanged { found, .. } => found,
        other => unreachable!("a peek did {other:?}"),
    }
}

/// Keys that come back again and again, always after their debt has drained, keep their slots: a
/// new key takes a slot that was never used, else the one of its line that has been vacant the
/// longest. Without evictions a key loses its slot in no other way.
#[test]
fn keys_that_come_back_drained_find_their_slots() {
    // Eighths of the capacity that come back; whether all slots had other keys before; the share of
    // checks that may claim a slot.
    for (share, used, most_moved) in [
        (8, false, 0.1),
        (6, false, 0.02),
        (4, false, 0.0),
        (8, true, 0.3),
        (6, true, 0.15),
        (4, true, 0.05),
        (2, true, 0.01),
    ] {
        let table = Table::new(40_000, Tat).unwrap();
        let mut now = 0;
        if used {
            for key in keys(400_000).skip(40_000) {
                check_drained(&table, key, &mut now);
            }
        }
        let keys: Vec<_> = keys(40_000 * share / 8).collect();
        let mut moved = 0;
        // Strides are primes, so that each round has all keys, in an order of its own.
        let rounds = [7_919, 6_151, 10_007, 4_099, 12_289, 5_003];
        for (round, stride) in rounds.into_iter().enumerate() {
            for step in 0..keys.len() {
                let is_new = check_drained(&table, keys[step * stride % keys.len()], &mut now);
                moved += u32::from(round > 0 && is_new);
            }
        }
        let moved = f64::from(moved) / (5 * keys.len()) as f64;
        assert!(moved <= most_moved, "{moved} of the checks at {share} eighths of the capacity");
    }
}

/// Checks a key after all debt has drained; whether it claimed a slot.
fn check_drained(table: &Table, key: KeyHash, now: &mut u64) -> bool {
    *now += 10;
    let update = table.home(key).update(*now, || *now, |_, now| Some(now + 1));
    update == Update::Written { before: 0, now: *now }
}

/// Most keys are in their home line, which a check probes first, and nearly all in their home
/// block, also after keys have replaced each other at random for long.
#[test]
fn keys_lie_near_their_home() {
    const LONG: u64 = u64::MAX >> 8;
    let table = Table::new(13_000, Tat).unwrap();
    let capacity = table.capacity();
    let mut newcomers = keys(9 * capacity as u64);
    let mut live: Vec<_> = newcomers.by_ref().take(capacity).collect();
    for key in &live {
        set(&table, *key, LONG);
    }
    let [home, block] = shares_near_home(&table, &live);
    assert!((0.80..0.86).contains(&home) && (0.91..0.95).contains(&block), "{home}, {block}");

    let mut random = 1;
    for (step, key) in newcomers.enumerate() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let departing = std::mem::replace(&mut live[random as usize % capacity], key);
        // Each departing key's slot is vacant from its own time on.
        let now = NOW + step as u64;
        for (key, value) in [(departing, now), (key, LONG)] {
            table.home(key).update(now, || now, |_, _| Some(value));
        }
    }
    assert_eq!(table.evicted(), 0);
    let [home, block] = shares_near_home(&table, &live);
    assert!((0.40..0.46).contains(&home) && (0.63..0.69).contains(&block), "{home}, {block}");
}

/// The shares of keys in their home line and in their home block.
fn shares_near_home(table: &Table, keys: &[KeyHash]) -> [f64; 2] {
    [1, BLOCK].map(|lines| {
        let is_near = |key: &&KeyHash| {
            let place = table.lines.place(**key);
            let slots = (0..lines).flat_map(|line| &table.lines.line(place, line).slots);
            let is_own = |slot: &Slot| slot.settled(|tag| tag.names(**key));
            slots.filter_map(is_own).any(|(_, value)| value > NOW)
        };
        keys.iter().filter(is_near).count() as f64 / keys.len() as f64
    })
}

#[test]
fn a_keys_lines_all_differ() {
    for lines in [1, 2, 4, 8, 12, 16, 20, 24, 100, 4_096, 5_004] {
        let table = Table::with_lines(lines, Tat).unwrap();
        for key in keys(500) {
            let place = table.lines.place(key);
            let addresses: HashSet<_> = (0..table.lines.candidates())
                .map(|candidate| std::ptr::from_ref(table.lines.line(place, candidate)))
                .collect();
            assert_eq!(addresses.len(), lines.min(CANDIDATES));
        }
    }
}

/// A check is stopped between reading the word and charging it while its slot is reused at one
/// reading of the clock, from one key to the next with equal words. Only after as many claims as a
/// word has generations does it charge another key.
#[test]
fn equal_words_are_distinguished_for_fifteen_hand_overs() {
    for handovers in 1..=16 {
        let table = Table::with_lines(1, Tat).unwrap();
        let all: Vec<_> = keys(4 + handovers).collect();
        for (key, debt) in all.iter().zip([1, 9, 9, 9]) {
            set(&table, *key, NOW + debt);
        }
        let stopped = Cell::new(true);
        let update = table.home(all[0]).update(
            NOW,
            || NOW,
            |value, now| {
                if stopped.take() {
                    for key in &all[4..] {
                        set(&table, *key, NOW + 1);
                    }
                }
                Some(value.max(now) + 1)
            },
        );
        assert_eq!(table.evicted(), handovers + u64::from(handovers < 16));
        let before = if handovers < 16 { 0 } else { NOW + 1 };
        assert_eq!(update, Update::Written { before, now: NOW }, "{handovers} reuses");
    }
}

#[test]
fn entries_give_back_whole_keys() {
    for lines in [1, 4, 8, 12, 100, 4_092, 4_096, 4_100, 6_000, 65_536, 100_004] {
        let table = Table::with_lines(lines, Tat).unwrap();
        let count = (table.capacity() as u64).min(20_000);
        for (index, key) in keys(count).enumerate() {
            set(&table, key, NOW + 1 + index as u64);
        }
        let entries: HashMap<_, _> = table.entries().collect();
        assert_eq!(entries.len() as u64, count);
        for (index, key) in keys(count).enumerate() {
            assert_eq!(entries.get(&key), Some(&(NOW + 1 + index as u64)), "{lines} lines");
        }
        let parts = (0..table.parts()).map(|part| table.entries_of_part(part).collect::<Vec<_>>());
        let parts: Vec<_> = parts.inspect(|part| assert!(part.len() <= 256)).flatten().collect();
        assert_eq!(parts.len() as u64, count, "{lines} lines");
        assert_eq!(parts.into_iter().collect::<HashMap<_, _>>(), entries, "{lines} lines");
        assert_eq!(table.entries_of_part(table.parts()).count(), 0);
    }
}

#[test]
fn a_table_filled_to_its_capacity_does_not_evict() {
    let table = Table::new(400_000, Tat).unwrap();
    let count = table.capacity() as u64;
    for key in keys(count) {
        set(&table, key, NOW + 1);
    }
    assert_eq!(table.evicted(), 0, "of {count}");
}

/// Tables of a few lines, each filled with many different sets of keys.
#[test]
fn a_small_table_filled_to_its_capacity_evicts_less_than_one_key_in_ten_thousand() {
    for capacity in [1, 2, 12, 13, 25, 38, 39, 51, 64, 100, 200, 400, 1_000, 3_000, 10_000] {
        let (mut inserted, mut evicted) = (0, 0);
        for seed in 0..40_000_u64.div_ceil(capacity) {
            let table = Table::new(capacity as usize, Tat).unwrap();
            let (hasher, count) = (KeyHasher::rapid(seed), table.capacity() as u64);
            for key in 0..count {
                set(&table, hasher.hash_u64(key), NOW + 1);
            }
            (inserted, evicted) = (inserted + count, evicted + table.evicted());
        }
        assert!(evicted * 10_000 < inserted, "{capacity}: {evicted} of {inserted}");
    }
}

/// Small tables take memory for home bits as well.
#[test]
fn more_keys_never_take_less_memory() {
    let mut most = 0;
    for keys in (1..13_200).step_by(31).chain([8_729, 8_730, 13_103, 13_104, 13_107, 13_108]) {
        let memory = |keys| Table::new(keys, Tat).unwrap().memory_bytes();
        let (bytes, next) = (memory(keys), memory(keys + 1));
        assert!(bytes <= next, "{keys}: {bytes} {next}");
        if keys <= 13_107 {
            most = most.max(bytes);
        }
    }
    assert_eq!((most, Table::new(8_729, Tat).unwrap().memory_bytes()), (262_144, 261_888));
}

#[test]
fn a_table_has_at_least_the_capacity_asked_for() {
    for keys in
        [1, 9, 12, 13, 64, 13_103, 13_104, 13_105, 13_107, 13_108, 20_000, 99_999, 1_000_000]
    {
        assert!(Table::new(keys, Tat).unwrap().capacity() >= keys, "{keys}");
    }
}

#[test]
fn an_expired_key_makes_room_and_a_live_one_does_not() {
    let table = Table::with_lines(8, Tat).unwrap();
    let all: Vec<_> = keys(32).collect();
    for key in &all {
        set(&table, *key, NOW);
    }
    assert_eq!(table.evicted(), 0);
    for key in keys(64).skip(32) {
        set(&table, key, NOW + 1);
    }
    assert_eq!(table.evicted(), 0, "only expired slots were reused");
    assert!(all.iter().all(|key| get(&table, *key) == 0));
}

#[test]
fn the_key_nearest_to_fresh_gives_way() {
    let table = Table::with_lines(1, Tat).unwrap();
    let all: Vec<_> = keys(5).collect();
    for (key, debt) in all.iter().zip([40, 10, 30, 20]) {
        set(&table, *key, NOW + debt);
    }
    set(&table, all[4], NOW + 25);
    assert_eq!(table.evicted(), 1);
    let left: Vec<_> = all.iter().map(|key| get(&table, *key)).collect();
    assert_eq!(left, [NOW + 40, 0, NOW + 30, NOW + 20, NOW + 25]);
}

#[test]
fn looking_and_refusing_take_no_place() {
    let table = Table::with_lines(1, Tat).unwrap();
    for key in keys(1_000) {
        assert_eq!(get(&table, key), 0);
    }
    assert_eq!(table.entries().count(), 0);
}

/// Keys that threads check in a tiny table, whose slots they reuse, with a ledger that adds up what
/// was written to each key. Time moves on its own, one unit in `TURNS_A_UNIT` checks. Two halves of
/// the keys are checked alternately, each more often than is admitted, with a pause in which all
/// debt drains.
struct Handovers {
    table: Table,
    time: AtomicU64,
    keys: Vec<KeyHash>,
    admitted: Vec<AtomicU64>,
    /// Charges of threads that were stopped until the pause or the other half's window.
    strays: AtomicU64,
}

impl Handovers {
    const TURNS: u64 = 250_000;
    const TURNS_A_UNIT: u64 = 32;
    const KEYS: u64 = 12;
    const BURST: u64 = 3;
    /// How long one half of the keys is checked, and how much of that is a pause.
    const WINDOW: u64 = 16;
    const PAUSE: u64 = Self::BURST + 1;

    fn new() -> Self {
        Self {
            table: Table::with_lines(2, Tat).unwrap(),
            time: AtomicU64::new(1),
            keys: keys(Self::KEYS).collect(),
            admitted: (0..Self::KEYS).map(|_| AtomicU64::new(0)).collect(),
            strays: AtomicU64::new(0),
        }
    }

    /// The checks of one thread.
    fn check(&self, mut random: u64) {
        for _ in 0..Self::TURNS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random % Self::TURNS_A_UNIT == 0 {
                self.time.fetch_add(1, Ordering::SeqCst);
            }
            let clock = || self.time.load(Ordering::SeqCst);
            let asked = clock();
            if asked % Self::WINDOW < Self::PAUSE {
                continue;
            }
            let half = asked / Self::WINDOW % 2;
            let key = (half * Self::KEYS / 2 + (random >> 8) % (Self::KEYS / 2)) as usize;
            let update = self.table.home(self.keys[key]).update(asked, clock, |value, now| {
                let charged = value.max(now) + 1;
                (charged - now <= Self::BURST).then_some(charged)
            });
            if !matches!(update, Update::Written { .. }) {
                continue;
            }
            if clock() / Self::WINDOW == asked / Self::WINDOW {
                self.admitted[key].fetch_add(1, Ordering::Relaxed);
            } else {
                self.strays.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Each key was admitted what fits into its windows.
    fn verify_admitted(&self, elapsed: u64) {
        let windows = elapsed.div_ceil(2 * Self::WINDOW);
        // All keys of one half fit, so only strays evict or are evicted.
        let (strays, evicted) = (self.strays.load(Ordering::Relaxed), self.table.evicted());
        let refilled = Self::WINDOW - Self::PAUSE;
        let most = windows * (refilled + Self::BURST) + Self::BURST * evicted;
        let least = (windows - 1) * refilled / 2;
        for (key, admitted) in self.admitted.iter().enumerate() {
            let admitted = admitted.load(Ordering::Relaxed);
            assert!(admitted <= most, "key {key}: {admitted} of {most}, {evicted} evicted");
            assert!(
                admitted + strays >= least,
                "key {key}: {admitted} of at least {least}, {strays} strays"
            );
        }
    }
}

/// Slots are reused, and a key that is admitted too much shows that its words have lost charges.
#[test]
fn slots_that_change_hands_lose_and_invent_nothing() {
    const THREADS: u64 = 4;
    let (run, start) = (Handovers::new(), Barrier::new(THREADS as usize));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (run, start) = (&run, &start);
            scope.spawn(move || {
                start.wait();
                run.check(thread + 1);
            });
        }
    });
    let elapsed = run.time.load(Ordering::Relaxed);
    run.verify_admitted(elapsed);
    assert!(elapsed / 2 / Handovers::WINDOW > 100, "slots were hardly reused");
    let live = run.table.entries().filter(|(_, value)| *value > elapsed);
    let mut seen = HashSet::new();
    for (key, value) in live {
        assert!(seen.insert(key), "{key:?} has two live words");
        assert!(value <= elapsed + Handovers::BURST, "{key:?} was charged for another");
    }
}

/// A limiter that cleans up its whole map inside a request stalls that request. Here the table is
/// full of expired keys, then of live ones: a check takes a bounded number of steps.
#[test]
fn trap_whole_map_cleanup_inside_a_request() {
    const STEPS_BOUND: u64 = 1_000;
    let table = Table::with_lines(1_024, Tat).unwrap();
    // Different new keys for the expired table and for the full one.
    let capacity = table.capacity();
    for (value, newcomers) in [(NOW, 4 * capacity), (NOW + 5, 5 * capacity)] {
        for key in keys(4 * capacity as u64) {
            set(&table, key, value);
        }
        for key in keys(u64::MAX).skip(newcomers).take(1_000) {
            let steps = Rc::new(Cell::new(0));
            let counted = Rc::clone(&steps);
            watch(move || counted.set(counted.get() + 1), || set(&table, key, NOW + 6));
            assert!((100..=STEPS_BOUND).contains(&steps.get()), "{} steps", steps.get());
        }
    }
    assert!(table.evicted() > 0);
}

#[test]
fn the_likeliest_lines_are_all_lines_with_home_first() {
    let mut sorted = LIKELIEST;
    assert_eq!(sorted[0], 0);
    assert_eq!(sorted[..LIKELY], [0, 1, 4, 8, 2]);
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..CANDIDATES));
}
