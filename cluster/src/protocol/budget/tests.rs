use super::*;

const MS: Nanos = 1_000_000;
/// A byte a millisecond.
const RATE: u64 = 1_000;

fn budget() -> Budget {
    Budget::new(NonZeroU64::new(RATE))
}

/// How many messages of this size are sent in a time, if there is always one.
fn sent(budget: &mut Budget, (from, to): (Nanos, Nanos), bytes: usize) -> u64 {
    let (mut now, mut sent) = (from, 0);
    loop {
        now = now.max(budget.room_at());
        if now > to {
            return sent;
        }
        assert!(budget.has_room(now), "when it says so");
        budget.spend(now, bytes);
        sent += 1;
    }
}

#[test]
fn no_more_is_sent_than_the_rate_and_a_span_and_one_message() {
    for bytes in [1, 7, 100, 5_000] {
        let mut budget = budget();
        let messages = sent(&mut budget, (0, 60 * SECOND), bytes);
        let most = RATE * 60 + RATE / 10 + bytes as u64;
        let all = messages * bytes as u64;
        assert!(all <= most && all + 2 * bytes as u64 >= RATE * 60, "{bytes}: {all}");
        // What was not used in an hour is no more room than that of a span.
        let later = 3_600 * SECOND;
        let messages = sent(&mut budget, (later, later), bytes);
        assert!(messages * bytes as u64 <= RATE / 10 + bytes as u64, "{bytes}: {messages}");
    }
    assert_eq!(budget().room(SECOND), Some(RATE / 10));
    assert_eq!((Budget::default().room(0), Budget::default().room_at()), (None, 0));
}

#[test]
fn states_have_a_quarter_and_what_frames_leave() {
    for (frames_wait, most) in [(true, RATE / 4), (false, RATE)] {
        let mut budget = budget();
        let (mut states, mut frames) = (0, 0);
        for now in (0..20_000).map(|ms| ms * MS) {
            budget.set_frames(if frames_wait { Frames::Old } else { Frames::None });
            budget.set_states_wait(true);
            if frames_wait && budget.has_room(now) {
                budget.spend(now, 10);
                frames += 10;
            } else if budget.has_room_for_states(now) {
                budget.spend_on_states(now, 10);
                states += 10;
            }
            assert!(budget.deadline().is_some_and(|at| at <= now + SECOND / 10));
        }
        assert!(states <= most * 20 + RATE / 10 + 10 && states >= most * 19, "{states}");
        assert!(states + frames <= RATE * 20 + 2 * (RATE / 10 + 10), "{states} {frames}");
    }
}

#[test]
fn while_it_is_lifted_nothing_is_paid() {
    let mut budget = budget();
    budget.spend(0, 1_000_000);
    assert!(!budget.has_room(SECOND));
    budget.lift();
    budget.spend(SECOND, 1_000_000);
    assert!(budget.has_room(SECOND) && budget.room(SECOND).is_none());
    budget.end_lift();
    assert!(!budget.has_room(999 * SECOND) && budget.has_room(1_000 * SECOND));
}

#[test]
fn it_says_for_how_long_something_waits() {
    let mut budget = budget();
    budget.set_keys_wait(true);
    budget.note(SECOND);
    budget.set_keys_wait(false);
    budget.note(2 * SECOND);
    budget.note(5 * SECOND);
    budget.set_frames(Frames::New);
    budget.note(6 * SECOND);
    budget.note(8 * SECOND);
    assert_eq!(budget.waited(), Duration::from_secs(3));
}
