use core::time::Duration;

use super::*;
use crate::base::key::KeyHasher;
use crate::rule::quota::Quota;
use crate::time::ManualClock;

/// More than fit into home lines, so that keys are in every line they may have.
const KEYS: u64 = 14_000;
const BURST: u64 = 2;

fn limiter() -> Limiter<Quota, ManualClock> {
    let quota = Quota::new(1, Duration::from_secs(1)).burst(BURST);
    Limiter::builder_with(quota, ManualClock::new(), KeyHasher::rapid(7))
        .capacity(KEYS as usize)
        .build()
        .unwrap()
}

/// Counts the readings of a clock that does not advance.
#[derive(Default)]
struct Counted(core::cell::Cell<u64>);

impl Clock for Counted {
    fn now(&self) -> Timestamp {
        self.0.set(self.0.get() + 1);
        Timestamp::ORIGIN
    }
}

/// Checks `keys` together and one by one, on twins.
fn check_both(
    together: &Limiter<Quota, ManualClock>,
    single: &Limiter<Quota, ManualClock>,
    keys: &[u64],
) {
    let mut decisions = Vec::new();
    together.check_many(keys, &mut decisions);
    assert_eq!(decisions.len(), keys.len());
    for (key, decision) in keys.iter().zip(decisions) {
        assert_eq!(decision, single.check(*key), "key {key} of a batch of {}", keys.len());
    }
}

#[test]
fn a_batch_decides_as_its_keys_would_be_wherever_they_lie() {
    let (together, single) = (limiter(), limiter());
    let keys: Vec<u64> = (0..KEYS).collect();
    // Fresh, then with a place, then denied.
    for _ in 0..=BURST {
        // A prime, so that chunks are cut in other places than where keys are decided together.
        for batch in keys.chunks(1_009) {
            check_both(&together, &single, batch);
        }
    }
    assert_eq!(together.evicted(), 0);
}

/// Without and with a fraction in the emission interval, and where denied checks are charged.
#[test]
fn a_batch_under_a_given_quota_decides_as_its_keys_would_be_wherever_they_lie() {
    let keys: Vec<u64> = (0..KEYS).collect();
    let plans = [Quota::per_second(2), Quota::per_second(30_000_000).burst(3)];
    for (plan, bursts) in plans.iter().flat_map(|plan| [(plan, 0), (plan, 2)]) {
        let [together, single] = [(); 2].map(|()| {
            Limiter::builder_with(Quota::per_second(1), ManualClock::new(), KeyHasher::rapid(7))
                .capacity(KEYS as usize)
                .charge_denied(bursts)
                .build()
                .unwrap()
        });
        let [many, one] = [&together, &single].map(|limiter| limiter.with_quota(plan).unwrap());
        let mut decisions = Vec::new();
        for _ in 0..=plan.burst_size() {
            for batch in keys.chunks(1_009) {
                many.check_many(batch, &mut decisions);
                let alone: Vec<_> = batch.iter().map(|key| one.check(*key)).collect();
                assert_eq!(decisions, alone, "{plan:?}, {bursts}");
            }
        }
        assert_eq!(together.live().count(), keys.len());
    }
}

#[test]
fn a_batch_reads_the_clock_once() {
    let keys: Vec<u64> = (0..100).collect();
    for bursts in [0, 1] {
        let builder =
            Limiter::builder_with(Quota::per_second(9), Counted::default(), KeyHasher::rapid(7));
        let limiter = builder.charge_denied(bursts).build().unwrap();
        let plan = Quota::per_second(5);
        let given = limiter.with_quota(&plan).unwrap();
        let mut decisions = Vec::new();
        // New keys read it again for their places.
        given.check_many(&keys, &mut decisions);
        let before = limiter.clock().0.get();
        given.check_many(&keys, &mut decisions);
        limiter.check_many(&keys, &mut decisions);
        assert_eq!(limiter.clock().0.get() - before, 2);
    }
}

#[test]
fn batches_of_every_length_decide_every_key() {
    let (together, single) = (limiter(), limiter());
    let keys: Vec<u64> = (0..KEYS).collect();
    check_both(&together, &single, &keys);
    for length in 0..=2 * TOGETHER + 1 {
        check_both(&together, &single, &keys[length..2 * length]);
    }
}

#[test]
fn a_key_that_stands_several_times_in_a_batch_is_charged_each_time() {
    let (together, single) = (limiter(), limiter());
    for key in 0..KEYS {
        check_both(&together, &single, &[key; 3]);
    }
}

const THREADS: u64 = 4;
const BATCHES: u64 = 10_000;
/// The burst of a key that threads check in concurrent batches: three quarters of what they ask
/// for.
const MUCH: u64 = THREADS * BATCHES * TOGETHER as u64 * 3 / 4;

/// What threads are admitted that change the key's word in the middle of each other's batches.
fn admitted_side_by_side(check_many: impl Fn(&[u64], &mut Vec<Decision>) + Sync) -> u64 {
    let start = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|_| {
            scope.spawn(|| {
                let mut decisions = Vec::new();
                start.wait();
                let batch = || {
                    check_many(&[7; TOGETHER], &mut decisions);
                    decisions.iter().filter(|one| one.is_allowed()).count() as u64
                };
                core::iter::repeat_with(batch).take(BATCHES as usize).sum::<u64>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    })
}

#[test]
fn batches_of_several_threads_admit_exactly_the_burst() {
    let quota = |burst| Quota::new(1, Duration::from_secs(1)).burst(burst);
    let limiter = |burst| {
        Limiter::builder_with(quota(burst), ManualClock::new(), KeyHasher::rapid(7))
            .capacity(1)
            .build()
            .unwrap()
    };
    let own = limiter(MUCH);
    let admitted = admitted_side_by_side(|keys, decisions| own.check_many(keys, decisions));
    assert_eq!((admitted, own.peek(7_u64).remaining()), (MUCH, 0));
    let (other, plan) = (limiter(1), quota(MUCH));
    let given = other.with_quota(&plan).unwrap();
    let admitted = admitted_side_by_side(|keys, decisions| given.check_many(keys, decisions));
    assert_eq!((admitted, given.peek(7_u64).remaining()), (MUCH, 0));
}
