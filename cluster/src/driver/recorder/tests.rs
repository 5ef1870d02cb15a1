use std::sync::atomic::AtomicUsize;

use super::*;

const LIMIT: LimitId = LimitId::INLINE;

#[test]
fn nothing_is_lost_between_recording_and_taking() {
    const THREADS: u64 = 2;
    const EACH: u64 = 20_000;
    let recorder = Recorder::new();
    let running = AtomicUsize::new(THREADS as usize);
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for n in 0..EACH {
                    recorder.record(LIMIT, KeyHash::from_bits(n % 100), Duration::from_nanos(3));
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while running.load(Ordering::SeqCst) > 0 {
            recorder.take(&mut taken);
        }
    });
    recorder.take(&mut taken);
    assert_eq!(taken.iter().map(|delta| delta.debt).sum::<u64>(), THREADS * EACH * 3);
    assert_eq!(recorder.dropped(), 0);
}

#[tokio::test]
async fn it_wakes_for_the_first_record_after_taking_only() {
    let recorder = Recorder::new();
    let woken = || async {
        tokio::select! {
            biased;
            () = recorder.filled() => true,
            () = std::future::ready(()) => false,
        }
    };
    let record = |key| recorder.record(LIMIT, KeyHash::from_bits(key), Duration::from_nanos(1));
    assert!(!woken().await);
    record(1);
    assert!(woken().await);
    record(2);
    assert!(!woken().await);
    let mut taken = Vec::new();
    recorder.take(&mut taken);
    assert_eq!(taken.len(), 2);
    record(3);
    assert!(woken().await);
}

#[test]
fn what_does_not_fit_is_counted() {
    let recorder = Recorder::new();
    let keys = MAX_SHARD_KEYS as u64 + 5;
    for n in 0..keys {
        // Every key lands in the first shard.
        let key = KeyHash::from_bits((n + 1) * SHARDS as u64);
        recorder.record(LIMIT, key, Duration::from_nanos(1));
    }
    assert_eq!(recorder.dropped(), 5);
}
