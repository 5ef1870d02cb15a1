//! Decisions of the rules that count in windows, on hand-made cases.

use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::{BuildError, FixedWindow, Limiter, ManualClock, QuotaError, Rule};

const SECOND: Duration = Duration::from_secs(1);

fn limiter<R: Rule>(rule: R) -> (Limiter<R, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(rule).capacity(1_000).clock(clock.clone()).build().unwrap(), clock)
}

fn at(duration: Duration) -> Timestamp {
    Timestamp::ORIGIN.saturating_add(duration)
}

#[test]
fn a_fixed_windows_key_is_as_good_as_new_when_the_window_ends() {
    let (limiter, clock) = limiter(FixedWindow::per_minute(3));
    clock.set(at(SECOND * 59));
    let first = limiter.check_n("key", 2);
    assert!(first.is_allowed());
    assert_eq!((first.limit(), first.remaining(), first.reset_after()), (3, 1, SECOND));
    let denied = limiter.check_n("key", 2);
    assert_eq!((denied.remaining(), denied.retry_after()), (1, Some(SECOND)));
    assert!(limiter.check_n("key", 1).is_allowed());
    clock.advance(Duration::from_nanos(999_999_999));
    assert_eq!(limiter.check("key").retry_after(), Some(Duration::from_nanos(1)));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(
        (limiter.peek("key").remaining(), limiter.peek("key").reset_after()),
        (3, Duration::ZERO)
    );
    assert!(limiter.check_n("key", 3).is_allowed());
    assert_eq!(limiter.check_n("key", 4).retry_after(), None);
}

#[test]
fn a_limit_that_does_not_fit_its_word_is_an_error() {
    let error = |rule: FixedWindow| Limiter::builder(rule).build().err();
    let max = (1 << 30) - 1;
    let too_high = BuildError::Quota(QuotaError::LimitTooHigh { max });
    assert_eq!(error(FixedWindow::per_second(max + 1)), Some(too_high));
    assert_eq!(error(FixedWindow::per_second(u64::MAX)), Some(too_high));
    assert!(too_high.to_string().contains("at most 1073741823"), "{too_high}");
    let (limiter, _) = limiter(FixedWindow::per_second(max));
    assert!(limiter.check_n("key", max).is_allowed());
    assert!(!limiter.check("key").is_allowed());
}
