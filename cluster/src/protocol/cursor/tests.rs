use super::*;

#[test]
fn batches_are_sent_in_order_up_to_the_window() {
    let mut cursor = Cursor::new(3);
    for number in 4..4 + MAX_IN_FLIGHT {
        assert_eq!(cursor.next(0, 1_000), Next::Batch(number));
        cursor.sent_batch(number);
    }
    assert_eq!(cursor.next(0, 1_000), Next::Wait);
    cursor.ack(4);
    assert_eq!(cursor.next(0, 1_000), Next::Batch(4 + MAX_IN_FLIGHT));
    // What was never sent cannot be acknowledged.
    cursor.ack(900);
    assert_eq!(cursor.acked(), 4);
}

#[test]
fn on_a_new_link_it_continues_where_the_peer_stands() {
    let mut cursor = Cursor::new(0);
    (1..=5).for_each(|number| cursor.sent_batch(number));
    assert!(cursor.resume(3, None));
    assert_eq!(cursor.next(0, 5), Next::Batch(4));
    assert!(cursor.may_stand_at(5), "it was sent before");
    assert!(!cursor.resume(6, None));
    assert!(!cursor.resume(2, None));
    assert!(!cursor.resume(3, Some((9, (1, 1)))), "no backlog was sent");
}

#[test]
fn a_peer_behind_the_log_is_sent_the_backlog_first() {
    let mut cursor = Cursor::new(2);
    assert_eq!(cursor.next(7, 9), Next::Part { from: 2, to: 7, after: None });
    cursor.sent_part(Some((1, 5)));
    assert_eq!(cursor.next(8, 9), Next::Part { from: 2, to: 7, after: Some((1, 5)) });
    cursor.ack_part(7, (1, 5));
    // The link breaks, and the peer has applied that part.
    assert!(cursor.resume(2, Some((7, (1, 5)))));
    assert_eq!(cursor.next(8, 9), Next::Part { from: 2, to: 7, after: Some((1, 5)) });
    cursor.sent_part(None);
    assert_eq!(cursor.next(8, 9), Next::Wait);
    cursor.ack(7);
    // Meanwhile the log has gone on.
    assert_eq!(cursor.next(8, 9), Next::Part { from: 7, to: 8, after: None });
    cursor.sent_part(None);
    cursor.ack(8);
    assert_eq!(cursor.next(8, 9), Next::Batch(9));
}

#[test]
fn a_peer_that_has_it_all_forgets_the_backlog() {
    let mut cursor = Cursor::new(2);
    assert!(matches!(cursor.next(7, 7), Next::Part { .. }));
    cursor.sent_part(None);
    assert!(cursor.resume(7, None));
    assert!(cursor.has(7) && !cursor.has(8) && cursor.has_been_sent(7));
}
