use super::*;

const DAY: u64 = 86_400_000_000_000;

#[test]
fn denials_tell_the_time_they_are_for() {
    for nanos in [1, 2, Admission::DENIED - 1, Admission::DENIED, DAY, 1 << 60, Admission::LONGEST]
    {
        let denied = Decision::denied(9, 3, nanos, DAY);
        assert!(!denied.is_allowed());
        assert_eq!(denied.retry_after(), Some(Duration::from_nanos(nanos)));
        assert_eq!((denied.limit(), denied.remaining()), (9, 3));
        assert_eq!(denied, Decision::new(9, 3, nanos, DAY));
    }
    let never = Decision::never(9, 3, DAY);
    assert!(!never.is_allowed() && never.retry_after().is_none());
    assert_ne!(never, Decision::denied(9, 3, Admission::LONGEST, DAY));
}

/// What remains of `limit` units of `interval` ns after `reset_after`, plus `leased`, is computed
/// on demand.
#[test]
fn what_remains_is_what_was_left_out() {
    for (interval, limit, reset_after) in
        [(1, 1, 0), (1, 1, 1), (7, 10, 0), (7, 10, 6), (7, 10, 7), (7, 10, 70), (7, 10, DAY)]
    {
        for leased in [0, 1, 2, 65_535, 1 << 16] {
            let decision = Decision::allowed_every(interval, limit, leased, reset_after);
            let remaining = (limit * interval).saturating_sub(reset_after) / interval + leased;
            assert!(decision.is_allowed());
            assert_eq!(decision.retry_after(), Some(Duration::ZERO));
            assert_eq!(decision.remaining(), remaining);
            assert_eq!(decision, Decision::allowed(limit, remaining, reset_after));
            assert_eq!(decision.map_times(|nanos| nanos), decision);
        }
    }
}

#[test]
fn a_denial_leaves_by_a_question_mark_and_says_what_follows() {
    fn passed(decision: Decision) -> Result<u64, Box<dyn core::error::Error>> {
        Ok(decision.into_result()?.remaining())
    }
    assert_eq!(passed(Decision::allowed(9, 3, DAY)).unwrap(), 3);
    assert_eq!(Decision::allowed(9, 3, DAY).to_string(), "allowed, 3 of 9 left");
    for (denial, words) in [
        (Decision::denied(9, 3, 1_500_000, DAY), "denied, retry after 1.5ms"),
        (Decision::never(9, 3, DAY), "denied, the cost can never fit a limit of 9"),
    ] {
        let error = passed(denial).unwrap_err();
        assert_eq!(error.to_string(), words);
        assert_eq!(*error.downcast::<Decision>().unwrap(), denial);
    }
}
