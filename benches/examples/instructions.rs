//! Instruction counts of the hot paths, under callgrind.
//!
//! Each benchmark performs [`OPERATIONS`] operations on a limiter whose hasher, keys and time are
//! fixed, so that every run executes the same instructions. Counts include the loop over the keys
//! and storing the whole decision, ten to twenty instructions per operation. After each run an
//! audit verifies the outcome that the benchmark is named after.
//!
//! Counts compare versions of this program built by one compiler for one architecture. They do not
//! predict time, least of all where it is bound by memory. The program is optimized as a whole:
//! another benchmark in it can change what the compiler inlines into the others.
//!
//! `.ci/instructions` runs this and compares with the recorded counts.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::iter::repeat_n;

use gungraun::prelude::*;
use gungraun::{Callgrind, LibraryBenchmarkConfig};
use tidegate_benches::draw::write_key;
use tidegate_engine::clock::{MAX_UPKEEP_INTERVAL, RecentClock, Timestamp, TscClock};
use tidegate_engine::{Clock, Decision, KeyHash, KeyHasher, Limiter, ManualClock, Quota};

/// Operations per benchmark: dividing a count by it turns the last three digits into decimals.
const OPERATIONS: usize = 1_000;
/// Distinct keys, checked in sequence.
const KEYS: usize = 1_024;
/// Keys per call of `check_many`.
const BATCH: usize = 32;
/// More than is ever checked, so nothing is denied by accident.
const BURST: u64 = 1 << 20;
/// Units of a lease: few enough to be the same for any number of processors.
const LEASE: u64 = 64;

/// A limiter, its requests, and their outcome. Boxed, so that moving it costs nothing that depends
/// on the system's libraries.
struct Scene {
    limiter: Limiter<Quota, ManualClock>,
    keys: Vec<String>,
    hashes: Vec<KeyHash>,
    /// Room for the decisions of a batch.
    decisions: Vec<Decision>,
    /// Live keys expected at the end.
    live: usize,
    /// Decisions expected to be allowed.
    expected: usize,
    allowed: usize,
}

#[derive(Clone, Copy)]
enum Hash {
    Rapid,
    Sip,
}

impl Hash {
    fn hasher(self) -> KeyHasher {
        match self {
            Self::Rapid => KeyHasher::rapid(20_261_121),
            Self::Sip => KeyHasher::siphash(*b"a fixed 128 bits"),
        }
    }
}

impl Scene {
    /// A limiter without debt, on a stopped clock.
    fn new(hash: Hash, quota: Quota) -> Box<Self> {
        Self::leasing(hash, quota, 0)
    }

    /// As [`Scene::new`], with leases of `leases` units.
    fn leasing(hash: Hash, quota: Quota, leases: u64) -> Box<Self> {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(1 << 40));
        let limiter = Limiter::builder(quota).capacity(13_107).hasher(hash.hasher()).clock(clock);
        let limiter = limiter.lease_units(leases);
        Box::new(Self {
            limiter: limiter.build().expect("a small table"),
            keys: Vec::new(),
            hashes: Vec::new(),
            decisions: Vec::with_capacity(BATCH),
            live: 0,
            expected: OPERATIONS,
            allowed: 0,
        })
    }

    /// Checks every key below `live` once.
    fn fill(mut self: Box<Self>, live: usize) -> Box<Self> {
        for key in (0..live).map(key) {
            assert!(self.limiter.check(&key).is_allowed());
        }
        self.live = live;
        self
    }

    /// Sets the keys to check.
    fn ask(mut self: Box<Self>, keys: impl Iterator<Item = usize>) -> Box<Self> {
        self.keys = keys.map(key).collect();
        self.hashes = self.keys.iter().map(|key| self.limiter.hash(key)).collect();
        assert_eq!(self.keys.len(), KEYS);
        self
    }

    /// Performs `operation` with each key.
    #[inline]
    fn each(
        mut self: Box<Self>,
        operation: impl Fn(&Limiter<Quota, ManualClock>, &String) -> Decision,
    ) -> Box<Self> {
        for key in &self.keys[..OPERATIONS] {
            let decision = black_box(operation(black_box(&self.limiter), black_box(key)));
            self.allowed += usize::from(decision.is_allowed());
        }
        self
    }
}

fn key(index: usize) -> String {
    let mut key = String::new();
    write_key(&mut key, index as u32);
    key
}

fn plenty() -> Quota {
    Quota::per_second(100).burst(BURST)
}

fn hot(hash: Hash) -> Box<Scene> {
    Scene::new(hash, plenty()).fill(1).ask(repeat_n(0, KEYS))
}

/// As [`hot`], under a quota whose emission interval is not a whole number of nanoseconds.
fn fractional(hash: Hash) -> Box<Scene> {
    Scene::new(hash, Quota::per_second(3).burst(BURST)).fill(1).ask(repeat_n(0, KEYS))
}

/// As [`hot`], with nothing left.
fn exhausted(hash: Hash) -> Box<Scene> {
    let mut scene = hot(hash);
    assert!(scene.limiter.check_n(&scene.keys[0], BURST - 1).is_allowed());
    scene.expected = 0;
    scene
}

/// Few enough keys that nearly all are in their home buckets.
fn at_home(hash: Hash) -> Box<Scene> {
    Scene::new(hash, plenty()).fill(KEYS).ask(0..KEYS)
}

/// As many live keys as the table's capacity; about a quarter of them are outside their home
/// buckets, and so of the checked keys, which were inserted at even distances.
fn filled(hash: Hash) -> Box<Scene> {
    let scene = Scene::new(hash, plenty());
    let live = scene.limiter.capacity();
    scene.fill(live).ask((0..KEYS).map(|index| index * live / KEYS))
}

/// Keys that are not in the table, which starts empty.
fn unseen(hash: Hash) -> Box<Scene> {
    let mut scene = Scene::new(hash, plenty()).ask(0..KEYS);
    scene.live = OPERATIONS;
    scene
}

/// Keys that are not in the table, which they fill to its capacity.
fn unseen_filled(hash: Hash) -> Box<Scene> {
    let scene = Scene::new(hash, plenty());
    let live = scene.limiter.capacity();
    let filled = live - OPERATIONS;
    let mut scene = scene.fill(filled).ask(filled..filled + KEYS);
    scene.live = live;
    scene
}

/// As [`hot`], by leases, once the key is recognised as hot.
fn leased(hash: Hash) -> Box<Scene> {
    let scene = Scene::leasing(hash, plenty(), LEASE).fill(1);
    assert_eq!(scene.limiter.lease_units(), LEASE);
    for _ in 0..64 * LEASE {
        assert!(scene.limiter.check(key(0)).is_allowed());
    }
    scene.ask(repeat_n(0, KEYS))
}

/// Keys that are not in the table, of which every slot is live: each evicts another key.
fn unseen_crowded(hash: Hash) -> Box<Scene> {
    let scene = Scene::new(hash, plenty());
    let checked = 4 * scene.limiter.capacity();
    let mut scene = scene.fill(checked).ask(checked..checked + KEYS);
    scene.live = scene.limiter.live().count();
    scene
}

/// As [`exhausted`], in a table that has run out of room and so counts denials.
fn exhausted_crowded(hash: Hash) -> Box<Scene> {
    let mut scene = unseen_crowded(hash).ask(repeat_n(0, KEYS));
    let spent = BURST - scene.limiter.peek(&scene.keys[0]).remaining();
    assert!(scene.limiter.check_n(&scene.keys[0], BURST - spent).is_allowed());
    scene.live = scene.limiter.live().count();
    scene.expected = 0;
    scene
}

fn batches(mut scene: Box<Scene>) -> Box<Scene> {
    scene.expected = OPERATIONS * BATCH;
    scene
}

/// Verifies the outcome that the benchmark is named after.
#[expect(clippy::needless_pass_by_value, reason = "what a benchmark returns is handed over")]
fn audit(scene: Box<Scene>) {
    assert_eq!(scene.allowed, scene.expected, "allowed");
    assert_eq!(scene.limiter.live().count(), scene.live, "live keys");
    assert_eq!(scene.limiter.evicted(), 0, "evicted keys");
}

/// As [`audit`], for a table that has run out of room.
#[expect(clippy::needless_pass_by_value, reason = "what a benchmark returns is handed over")]
fn audit_crowded(scene: Box<Scene>) {
    assert_eq!(scene.allowed, scene.expected, "allowed");
    assert_eq!(scene.limiter.live().count(), scene.live, "live keys");
    assert!(scene.limiter.evicted() > OPERATIONS as u64, "evicted keys");
}

/// As [`audit`], and that nothing was charged.
fn audit_untouched(scene: Box<Scene>) {
    assert_eq!(scene.limiter.peek(&scene.keys[0]).remaining(), BURST - 1, "remaining");
    audit(scene);
}

#[library_benchmark(teardown = audit)]
#[bench::hot_allowed_rapid(hot(Hash::Rapid))]
#[bench::hot_allowed_siphash(hot(Hash::Sip))]
#[bench::hot_fractional_rapid(fractional(Hash::Rapid))]
#[bench::hot_denied_rapid(exhausted(Hash::Rapid))]
#[bench::hot_denied_siphash(exhausted(Hash::Sip))]
#[bench::at_home_rapid(at_home(Hash::Rapid))]
#[bench::at_home_siphash(at_home(Hash::Sip))]
#[bench::filled_rapid(filled(Hash::Rapid))]
#[bench::filled_siphash(filled(Hash::Sip))]
#[bench::first_rapid(unseen(Hash::Rapid))]
#[bench::first_siphash(unseen(Hash::Sip))]
#[bench::first_filled_rapid(unseen_filled(Hash::Rapid))]
#[bench::first_filled_siphash(unseen_filled(Hash::Sip))]
#[bench::leased_rapid(leased(Hash::Rapid))]
fn check(scene: Box<Scene>) -> Box<Scene> {
    scene.each(|limiter, key| limiter.check(key))
}

#[library_benchmark(teardown = audit_crowded)]
#[bench::first_rapid(unseen_crowded(Hash::Rapid))]
#[bench::hot_denied_rapid(exhausted_crowded(Hash::Rapid))]
fn check_crowded(scene: Box<Scene>) -> Box<Scene> {
    scene.each(|limiter, key| limiter.check(key))
}

#[library_benchmark(teardown = audit)]
#[bench::rapid(hot(Hash::Rapid))]
#[bench::siphash(hot(Hash::Sip))]
fn check_n(scene: Box<Scene>) -> Box<Scene> {
    scene.each(|limiter, key| limiter.check_n(key, black_box(3)))
}

#[library_benchmark(teardown = audit)]
#[bench::rapid(hot(Hash::Rapid))]
#[bench::siphash(hot(Hash::Sip))]
fn check_with(scene: Box<Scene>) -> Box<Scene> {
    let quota = plenty();
    scene.each(|limiter, key| match limiter.check_with(key, 1, black_box(&quota)) {
        Ok(decision) => decision,
        Err(error) => panic!("{error}"),
    })
}

#[library_benchmark(teardown = audit_untouched)]
#[bench::rapid(hot(Hash::Rapid))]
#[bench::siphash(hot(Hash::Sip))]
fn peek(scene: Box<Scene>) -> Box<Scene> {
    scene.each(|limiter, key| limiter.peek(key))
}

#[library_benchmark(teardown = audit)]
#[bench::prehashed(hot(Hash::Rapid))]
fn check_at(mut scene: Box<Scene>) -> Box<Scene> {
    let now = scene.limiter.clock().now();
    for hash in &scene.hashes[..OPERATIONS] {
        let limiter = black_box(&scene.limiter);
        let decision = black_box(limiter.check_at(black_box(*hash), 1, black_box(now)));
        scene.allowed += usize::from(decision.is_allowed());
    }
    scene
}

// An operation is a batch.
#[library_benchmark(teardown = audit)]
#[bench::at_home_rapid(batches(at_home(Hash::Rapid)))]
#[bench::at_home_siphash(batches(at_home(Hash::Sip)))]
#[bench::filled_rapid(batches(filled(Hash::Rapid)))]
#[bench::filled_siphash(batches(filled(Hash::Sip)))]
fn check_many_32(mut scene: Box<Scene>) -> Box<Scene> {
    let Scene { limiter, keys, decisions, allowed, .. } = &mut *scene;
    for keys in keys.chunks(BATCH).cycle().take(OPERATIONS) {
        black_box(&*limiter).check_many(black_box(keys), decisions);
        *allowed += black_box(&*decisions).iter().filter(|it| it.is_allowed()).count();
    }
    scene
}

#[library_benchmark]
#[bench::now(TscClock::new())]
fn tsc_clock(clock: TscClock) -> TscClock {
    for _ in 0..OPERATIONS {
        black_box(black_box(&clock).now());
    }
    clock
}

/// With an upkeep thread that sleeps meanwhile.
fn upkept() -> RecentClock {
    RecentClock::start(MAX_UPKEEP_INTERVAL).expect("a thread")
}

#[library_benchmark]
#[bench::now(upkept())]
fn recent_clock(clock: RecentClock) -> RecentClock {
    for _ in 0..OPERATIONS {
        black_box(black_box(&clock).now());
    }
    clock
}

library_benchmark_group!(
    name = limiter,
    benchmarks = [check, check_crowded, check_n, check_with, peek, check_at, check_many_32]
);

library_benchmark_group!(name = clock, benchmarks = [tsc_clock, recent_clock]);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = [limiter, clock]
);
