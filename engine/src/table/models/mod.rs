//! Models of the table: a few threads, a tiny table, every order in which they can run.
//!
//! Each model is explored twice. Under `--cfg loom` with weak memory, within a bound on preemptions
//! ([`weak`]). Under `--cfg interleave` with sequentially consistent memory and without any bound
//! ([`exhaustive`]); there [`Model::always`], and that no key has two live words, is checked in
//! every state. A thread that stalls for ever leaves a state in the middle, so those states are
//! also what crashes leave behind.
//!
//! A line has two slots here. Values are TATs with emission intervals of one unit, so a key's value
//! less `now` is the cost it was charged, or the words of a fixed window ([`windows`]).

mod charges;
mod claims;
mod clocks;
mod handovers;
mod lines;
mod listings;
mod lowering;
mod parked;
mod strikes;
mod windows;

#[cfg(interleave)]
mod exhaustive;
#[cfg(loom)]
mod weak;

use std::sync::Arc;

use crate::base::key::KeyHash;
use crate::base::sync::{AtomicU64, Ordering};
use crate::rule::algorithm::Algorithm as _;
use crate::rule::gcra::{self, Gcra};

use super::Table;
use super::bits::{Generation, Tag, Word};
use crate::base::word::Update;
use crate::table::line::{SLOTS, Slot};
use windows::counting;

const NOW: u64 = 100;

/// loom's bound on preemptions in a run of two threads: all orders in which one thread is stopped,
/// the other runs any number of steps, and so on, up to this many switches.
const PAIR: Option<usize> = Some(5);
/// The same for larger models of two threads.
const LARGE: Option<usize> = Some(4);
/// The same for three threads.
const TRIO: Option<usize> = Some(2);
/// The same for larger models of three threads.
const CROWD: Option<usize> = Some(1);
/// No bound.
const COMPLETE: Option<usize> = None;

/// No thread makes more accesses than this, unless the model says otherwise. No two states of a run
/// are the same, so a run that never ended would pass any bound.
const ACCESSES_MAX: usize = 200;

/// What the threads of a model share.
struct Shared {
    table: Table<Values>,
    /// A clock that is a word, for models in which time moves.
    clock: AtomicU64,
}

/// What the values of a table are.
#[derive(Clone, Copy, Debug)]
enum Values {
    Tats,
    /// Of fixed windows ([`windows`]).
    Windows,
}

impl Values {
    /// The value after one unit more, if that is within the limit.
    fn admit(self, value: u64, now: u64, limit: u64) -> Option<u64> {
        let charged = value.max(now) + 1;
        match self {
            Self::Tats => (charged - now <= limit).then_some(charged),
            Self::Windows => counting(limit).admit(value, now, 1),
        }
    }

    fn refund(self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let quota = crate::Quota::per_second(1_000_000_000).burst(9);
        match self {
            Self::Tats => Gcra::exact(&quota).unwrap().refund(value, now, cost),
            Self::Windows => counting(9).refund(value, now, cost),
        }
    }

    fn reset(self, value: u64, now: u64) -> Option<u64> {
        match self {
            Self::Tats => gcra::reset(value, now),
            Self::Windows => counting(9).reset(value, now),
        }
    }

    /// What a live value was charged.
    fn charged(self, value: u64) -> u64 {
        match self {
            Self::Tats => value - NOW,
            Self::Windows => windows::count_of(value),
        }
    }
}

impl crate::base::word::State for Values {
    fn fresh_from(&self, value: u64) -> u64 {
        match self {
            Self::Tats => value,
            Self::Windows => counting(9).fresh_from(value),
        }
    }
}

impl Shared {
    fn values(&self) -> Values {
        self.table.state
    }

    fn is_live(&self, value: u64) -> bool {
        crate::base::word::State::fresh_from(&self.values(), value) > NOW
    }
}

/// A thread: what it returns is summed, usually the cost it was admitted.
type Thread = Arc<dyn Fn(&Shared) -> u64 + Send + Sync>;
type Setup = Arc<dyn Fn(&Shared) + Send + Sync>;
type Check = Arc<dyn Fn(&State<'_>) + Send + Sync>;

/// A table, what is in it at first, and threads.
#[derive(Clone)]
struct Model {
    lines: usize,
    values: Values,
    setup: Vec<Setup>,
    threads: Vec<Thread>,
    always: Vec<Check>,
    with_homes: bool,
    #[cfg_attr(loom, expect(dead_code, reason = "loom's bound is its own"))]
    large: bool,
    /// No thread makes more accesses than this.
    #[cfg_attr(loom, expect(dead_code, reason = "loom's bound is its own"))]
    accesses: usize,
}

/// A moment of a run.
struct State<'s> {
    shared: &'s Shared,
    /// What each thread returned, if it has.
    results: &'s [Option<u64>],
}

impl Model {
    /// A table of `lines` lines and no keys.
    fn of(lines: usize) -> Self {
        Self {
            lines,
            values: Values::Tats,
            setup: Vec::new(),
            threads: Vec::new(),
            always: Vec::new(),
            with_homes: false,
            large: false,
            accesses: ACCESSES_MAX,
        }
    }

    /// The same with other values.
    fn of_values(self, values: Values) -> Self {
        Self { values, ..self }
    }

    fn setup(mut self, setup: impl Fn(&Shared) + Send + Sync + 'static) -> Self {
        self.setup.push(Arc::new(setup));
        self
    }

    /// A key that is there at first, wherever the table puts it.
    fn given(self, key: KeyHash, value: u64) -> Self {
        self.setup(move |shared| {
            shared.table.home(key).update(0, || 0, |_, _| Some(value));
        })
    }

    /// A key that is there at first, in a slot of one of its lines.
    fn given_in(self, key: KeyHash, candidate: usize, slot: usize, value: u64) -> Self {
        self.setup(move |shared| {
            settle(slot_of(shared, key, candidate, slot), key, candidate, value);
        })
    }

    /// Other keys in every slot of the key's lines but the `vacant` ones, given as line and slot.
    fn filled(self, key: KeyHash, vacant: &[(usize, usize)], value: u64) -> Self {
        let places = (0..self.lines).flat_map(|line| (0..SLOTS).map(move |slot| (line, slot)));
        let full = places.filter(|place| !vacant.contains(place));
        full.fold(self, |model, (line, slot)| {
            let filler = KeyHash::from_parts(0, 100 + (line * SLOTS + slot) as u64);
            model.setup(move |shared| {
                settle(slot_of(shared, key, line, slot), filler, line, value);
            })
        })
    }

    /// A vacancy in each of two lines: a thread that finds `departing`, which has the given value,
    /// expired takes its slot in the first; one that does not, a slot in the second, of a key that
    /// expired long ago. All other slots have the value `live`. So threads with different `now`s
    /// choose different slots.
    fn divided(self, departing: (KeyHash, u64), departed: u64, live: u64) -> Self {
        debug_assert_eq!(self.lines, 2);
        let (departing, value) = departing;
        let model = self.filled(departing, &[(0, 0), (1, 0)], live);
        model.given_in(departing, 0, 0, value).given_in(key(99), 1, 0, departed)
    }

    fn thread(mut self, thread: impl Fn(&Shared) -> u64 + Send + Sync + 'static) -> Self {
        self.threads.push(Arc::new(thread));
        self
    }

    /// A thread that asks for one unit at [`NOW`].
    fn checks(self, key: KeyHash, burst: u64) -> Self {
        self.thread(move |shared| check(shared, key, burst))
    }

    /// As [`Model::checks`], for several threads. They are interchangeable, which the exhaustive
    /// search makes use of; so only the sum of their results has a meaning ([`State::admitted`]).
    fn check_together(mut self, threads: usize, key: KeyHash, burst: u64) -> Self {
        let thread: Thread = Arc::new(move |shared| check(shared, key, burst));
        self.threads.extend(std::iter::repeat_n(thread, threads));
        self
    }

    /// What holds in every state, however far the threads have come. loom checks only the last one.
    fn always(mut self, check: impl Fn(&State<'_>) + Send + Sync + 'static) -> Self {
        self.always.push(Arc::new(check));
        self
    }

    /// The home bits of all keys are kept, as in every small table that is not a model's.
    fn with_homes(self) -> Self {
        Self { with_homes: true, ..self }
    }

    /// Too large for the exhaustive search to complete in a test run: the states of the fewest
    /// steps are visited, and more in runs by hand.
    fn large(self) -> Self {
        Self { large: true, ..self }
    }

    /// Replaces [`ACCESSES_MAX`]: by less, so that a search of runs that do not end fails before it
    /// is out of memory, or by more, where the key has many slots.
    fn within(self, accesses: usize) -> Self {
        Self { accesses, ..self }
    }

    fn shared(&self) -> Shared {
        let mut table = Table::with_lines(self.lines, self.values).unwrap();
        if self.with_homes {
            table.lines = table.lines.with_homes();
        }
        let shared = Shared { table, clock: AtomicU64::new(NOW) };
        self.setup.iter().for_each(|setup| setup(&shared));
        shared
    }

    /// Explores all orders, under loom those within the bound on preemptions; `end` is checked when
    /// all threads have ended.
    #[cfg(loom)]
    fn explore(self, preemptions: Option<usize>, end: impl Fn(&State<'_>) + Send + Sync + 'static) {
        weak::explore(self, preemptions, Arc::new(end));
    }

    #[cfg(interleave)]
    fn explore(self, _: Option<usize>, end: impl Fn(&State<'_>) + Send + Sync + 'static) {
        exhaustive::explore(&self, &end);
    }
}

impl State<'_> {
    /// The sum of what the ended threads returned.
    fn admitted(&self) -> u64 {
        self.results.iter().flatten().sum()
    }

    /// What a thread that has ended returned.
    fn result(&self, thread: usize) -> u64 {
        self.results[thread].unwrap()
    }

    /// The live values of a key, one for each slot that has one.
    fn live(&self, key: KeyHash) -> Vec<u64> {
        let entries = self.shared.table.entries();
        let values = entries.filter(|(other, _)| other.tag() == key.tag());
        values.map(|(_, value)| value).filter(|value| self.shared.is_live(*value)).collect()
    }

    /// The cost charged to a key, which has at most one live word.
    fn charged(&self, key: KeyHash) -> u64 {
        let live = self.live(key);
        assert!(live.len() <= 1, "{key:?} has {} live words", live.len());
        live.first().map_or(0, |value| self.shared.values().charged(*value))
    }

    /// No slot is left claimed.
    fn nothing_left_behind(&self) {
        for slot in self.shared.table.lines.all().iter().flat_map(|line| &line.slots) {
            let word = Word(slot.word.load(Ordering::Relaxed));
            assert!(!word.is_claimed() || word.is_free(), "an intent is left behind");
        }
    }

    fn evicted(&self) -> u64 {
        self.shared.table.evicted()
    }
}

/// A key whose home is line 0.
fn key(name: u64) -> KeyHash {
    KeyHash::from_parts(0, name)
}

fn check(shared: &Shared, key: KeyHash, burst: u64) -> u64 {
    check_at(shared, key, burst, NOW, NOW)
}

fn check_at(shared: &Shared, key: KeyHash, burst: u64, now: u64, reread: u64) -> u64 {
    let values = shared.values();
    update(shared, key, now, || reread, |value, now| values.admit(value, now, burst))
}

/// Gives back `cost`; returns 0.
fn refund(shared: &Shared, key: KeyHash, cost: u64) -> u64 {
    let values = shared.values();
    update(shared, key, NOW, || NOW, |value, now| values.refund(value, now, cost));
    0
}

/// Forgets the key's debt; returns 0.
fn reset(shared: &Shared, key: KeyHash) -> u64 {
    let values = shared.values();
    update(shared, key, NOW, || NOW, |value, now| values.reset(value, now));
    0
}

/// Claims a slot for the key and withdraws the claim, as when a restored debt has drained by the
/// time the clock is read again; returns 0.
fn give_up(shared: &Shared, key: KeyHash) -> u64 {
    update(shared, key, NOW, || NOW + 1, |_, now| (now == NOW).then_some(NOW + 1))
}

/// Whether something was written, as a number.
fn update(
    shared: &Shared,
    key: KeyHash,
    now: u64,
    reread: impl Fn() -> u64,
    decide: impl Fn(u64, u64) -> Option<u64>,
) -> u64 {
    let update = shared.table.home(key).update(now, reread, decide);
    u64::from(matches!(update, Update::Written { .. }))
}

fn slot_of(shared: &Shared, key: KeyHash, candidate: usize, slot: usize) -> &Slot {
    let lines = &shared.table.lines;
    &lines.line(lines.place(key), candidate).slots[slot]
}

/// Makes a slot the key's, as if it had always been.
fn settle(slot: &Slot, key: KeyHash, candidate: usize, value: u64) {
    let generation = Generation::default();
    slot.tag.store(Tag::new(key, candidate, generation).0, Ordering::Relaxed);
    slot.word.store(Word::intent(key, generation).settled(value).0, Ordering::Relaxed);
}
