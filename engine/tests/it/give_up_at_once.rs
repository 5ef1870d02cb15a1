//! Callers that started at once and give up what they were charged.

use std::time::Duration;

use tidegate_engine::wait::{Line, Turn};
use tidegate_engine::{Limiter, Queue, Quota};

use crate::waiting::ManualTimer;

const SECOND: Duration = Duration::from_secs(1);

/// A call that started at once moves up with those behind a place that is given up, and one that
/// comes later is charged where it was: what that one was charged is not taken off.
#[test]
fn a_start_at_once_that_has_moved_takes_nothing_from_others() {
    fn moved<L: Line + 'static>(
        timer: &ManualTimer,
        enqueue: impl Fn(u64) -> Turn<'static, L>,
        left: impl Fn() -> Duration,
    ) {
        let _ = enqueue(3).keep();
        let waited = enqueue(1);
        timer.advance(2 * SECOND);
        let at_once = enqueue(1);
        assert_eq!(at_once.delay(), Duration::ZERO);
        assert!(waited.cancel());
        // The other one has drained but for half a unit.
        timer.advance(SECOND * 3 / 2);
        let later = enqueue(1);
        assert_eq!(later.delay(), Duration::ZERO);
        assert!(!at_once.cancel());
        assert_eq!(left(), SECOND * 3 / 2);
        assert!(later.cancel(), "it is the last one, and has not moved");
        assert_eq!(left(), SECOND / 2);
    }

    let (timer, quota) = (ManualTimer::new(), Quota::per_second(1).burst(3));
    let queue: &'static _ =
        Box::leak(Box::new(Queue::with_clock(quota, timer.clock.clone()).unwrap()));
    let enqueue = |cost| queue.enqueue(cost, 60 * SECOND).unwrap();
    moved(&timer, enqueue, || queue.peek().reset_after());

    let limiter: &'static _ = Box::leak(Box::new(
        Limiter::builder(quota).capacity(100).clock(timer.clock.clone()).build().unwrap(),
    ));
    let enqueue = |cost| limiter.enqueue("key", cost, 60 * SECOND).unwrap();
    moved(&timer, enqueue, || limiter.peek("key").reset_after());
    // Other keys have not moved.
    let other = limiter.enqueue("other", 1, SECOND).unwrap();
    assert!(other.cancel());
}

/// What is in front of a place that is given up does not move.
#[test]
fn a_start_at_once_in_front_of_a_place_that_is_given_up_is_taken_back() {
    let timer = ManualTimer::new();
    let queue = Queue::with_clock(Quota::per_second(1).burst(3), timer.clock.clone()).unwrap();
    assert!(queue.check_n(3).is_allowed());
    timer.advance(SECOND);
    let at_once = queue.enqueue(1, SECOND).unwrap();
    let waited = queue.enqueue(1, SECOND).unwrap();
    timer.advance(SECOND * 3 / 2);
    assert_eq!((at_once.delay(), waited.delay()), (Duration::ZERO, Duration::ZERO));
    assert!(waited.cancel() && at_once.cancel());
    assert_eq!(queue.peek().reset_after(), SECOND / 2);
}
