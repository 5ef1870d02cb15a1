use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{KeyCount, State};
use crate::config::file::LimitConfig;
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use tidegate_engine::KeyHasher;

/// How long a count may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for a count that is under way.
fn finished(count: &KeyCount) -> u64 {
    let _ = count.get();
    let state = count.shared.state();
    let is_counting = |state: &mut State| state.is_counting;
    let (state, waited) =
        count.shared.counted.wait_timeout_while(state, PATIENCE, is_counting).unwrap();
    assert!(!waited.timed_out(), "a count does not end");
    state.keys
}

#[test]
fn keys_of_all_limits_are_counted_and_the_count_is_kept_for_a_while() {
    let limits = [LimitConfig::built_in()];
    let limiters =
        Limiters::build(&limits, &Gossip::alone(), &KeyHasher::siphash([7; 16])).unwrap();
    let (named, inline) = (&limiters.named[0].1, &limiters.inline);
    let count = KeyCount::new(vec![named.clone(), inline.clone()]);
    for key in 0..1_000_u64 {
        named.charge(key, 100_000);
    }
    inline.charge(7_u64, 1_000);
    assert_eq!(finished(&count), 1_001);
    let expiry = count.shared.state().expiry.unwrap();
    inline.charge(8_u64, 1_000);
    // No caller is made to count again before the count is too old.
    let kept = finished(&count);
    if Instant::now() < expiry {
        assert_eq!((kept, count.shared.state().expiry), (1_001, Some(expiry)));
    }
    count.shared.state().expiry = Some(Instant::now());
    assert_eq!(finished(&count), 1_002);
}

#[test]
fn a_caller_waits_for_the_count() {
    let count = KeyCount::by(|| {
        std::thread::sleep(10 * super::PATIENCE);
        7
    });
    assert_eq!(count.get(), 7);
    // No more than a few do.
    *count.shared.state() = State { keys: 5, is_counting: true, waiting: 16, expiry: None };
    assert_eq!(count.get(), 5);
}

#[test]
fn a_count_that_panics_leaves_the_last_one_and_is_made_again() {
    let panics = Arc::new(AtomicBool::new(false));
    let count = KeyCount::by({
        let panics = Arc::clone(&panics);
        move || if panics.load(Ordering::Relaxed) { panic!("as a test wants") } else { 7 }
    });
    assert_eq!(finished(&count), 7);
    panics.store(true, Ordering::Relaxed);
    let expire = || count.shared.state().expiry = Some(Instant::now());
    expire();
    let counted = count.shared.state().expiry;
    assert_eq!(finished(&count), 7);
    // It is not made again and again.
    assert!(count.shared.state().expiry > counted);
    panics.store(false, Ordering::Relaxed);
    count.shared.state().keys = 0;
    expire();
    assert_eq!(finished(&count), 7);
}
