use core::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::key::KeyHasher;
use crate::quota::Quota;

/// More than fit into home lines, so that keys lie in every line they may have.
const KEYS: u64 = 14_000;
const BURST: u64 = 2;

fn limiter() -> Limiter<Quota, ManualClock> {
    let quota = Quota::new(1, Duration::from_secs(1)).burst(BURST);
    Limiter::builder_with(quota, ManualClock::new(), KeyHasher::rapid(7))
        .capacity(KEYS as usize)
        .build()
        .unwrap()
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

/// Threads that take the key's word from each other in the middle of their batches.
#[test]
fn batches_of_several_threads_admit_exactly_the_burst() {
    const THREADS: u64 = 4;
    const BATCHES: u64 = 10_000;
    const BURST: u64 = THREADS * BATCHES * TOGETHER as u64 * 3 / 4;
    let quota = Quota::new(1, Duration::from_secs(1)).burst(BURST);
    let limiter = Limiter::builder_with(quota, ManualClock::new(), KeyHasher::rapid(7));
    let limiter = limiter.capacity(1).build().unwrap();
    let start = std::sync::Barrier::new(THREADS as usize);
    let admitted = std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|_| {
            scope.spawn(|| {
                let mut decisions = Vec::new();
                start.wait();
                let batch = || {
                    limiter.check_many(&[7_u64; TOGETHER], &mut decisions);
                    decisions.iter().filter(|one| one.is_allowed()).count() as u64
                };
                core::iter::repeat_with(batch).take(BATCHES as usize).sum::<u64>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    assert_eq!((admitted, limiter.peek(7_u64).remaining()), (BURST, 0));
}
