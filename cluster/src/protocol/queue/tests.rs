use super::*;

const SECOND: Nanos = 1_000_000_000;

fn batch(number: u64, at: Nanos, debts: &[(u64, Nanos)]) -> Batch {
    let deltas = debts.iter().map(|&(key, debt)| Delta { limit: 1, key, debt }).collect();
    Batch { number, at, deltas }
}

fn body(message: &Message) -> Vec<u8> {
    let Message::Frame { body, .. } = message else { panic!("{message:?}") };
    body.clone()
}

#[test]
fn what_is_sent_again_is_byte_identical_whatever_came_since() {
    let mut queue = Queue::new(0);
    queue.merge(&batch(1, 0, &[(1, 5), (2, 7)]), SECOND);
    let first = queue.seal(0, SECOND).unwrap().unwrap();
    queue.merge(&batch(2, 1, &[(1, 100)]), SECOND);
    let again: Vec<_> = queue.resend(9).collect();
    assert_eq!(again.len(), 1);
    assert_eq!(body(&again[0]), body(&first));
}

#[test]
fn beyond_the_frames_in_flight_deltas_coalesce() {
    let mut queue = Queue::new(0);
    for n in 1..=20 {
        queue.merge(&batch(n, 0, &[(1, 5)]), SECOND);
        let sealed = queue.seal(0, SECOND).unwrap().is_some();
        assert_eq!(sealed, n <= MAX_IN_FLIGHT as u64);
    }
    assert_eq!(queue.pending_keys(), 1);
    queue.ack(1);
    let coalesced = queue.seal(0, SECOND).unwrap().unwrap();
    let deltas: Vec<Delta> = super::super::wire::decode(&body(&coalesced)).unwrap();
    assert_eq!(deltas, [Delta { limit: 1, key: 1, debt: 5 * 12 }]);
}

#[test]
fn waiting_debt_drains_by_itself() {
    let mut queue = Queue::new(0);
    queue.merge(&batch(1, 0, &[(1, SECOND), (2, 7200 * SECOND)]), SECOND);
    let late = queue.seal(3600 * SECOND, SECOND).unwrap().unwrap();
    let deltas: Vec<Delta> = super::super::wire::decode(&body(&late)).unwrap();
    assert_eq!(deltas, [Delta { limit: 1, key: 2, debt: 3601 * SECOND }]);
}

#[test]
fn only_the_last_part_of_a_large_set_has_a_watermark() {
    let mut queue = Queue::new(0);
    let debts: Vec<_> = (0..=MAX_FRAME_DELTAS as u64).map(|key| (key, 1)).collect();
    queue.merge(&batch(1, 0, &debts), SECOND);
    let through = |message: Option<Message>| match message {
        Some(Message::Frame { through, .. }) => through,
        other => panic!("{other:?}"),
    };
    assert_eq!(through(queue.seal(0, SECOND).unwrap()), None);
    assert_eq!(through(queue.seal(0, SECOND).unwrap()), Some(1));
}
