use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::parser::Parser;
use super::{Full, Queue};
use crate::config::bounds::TransactionBounds;
use crate::front::budget::{Budget, Share};

/// No transaction of these tests reaches them, unless it says so.
const BOUNDS: TransactionBounds = TransactionBounds { commands: 100, bytes: 100_000 };

/// Pushes `ECHO` with an argument of this many bytes.
fn push(queue: &mut Queue, bytes: usize) -> Result<(), Full> {
    let input = format!("*2\r\n$4\r\nECHO\r\n${bytes}\r\n{}\r\n", "x".repeat(bytes));
    let mut parser = Parser::default();
    let (command, _) = parser.next(input.as_bytes()).unwrap().unwrap();
    queue.push(&command)
}

#[test]
fn commands_come_back_as_they_were() {
    let mut queue = Queue::new(Share::new(Arc::new(Budget::new(1024 * 1024))), BOUNDS);
    for bytes in [0, 3, 1_000] {
        push(&mut queue, bytes).unwrap();
    }
    let lengths: Vec<_> = queue
        .commands()
        .map(|command| (command.len(), command.arg(0).to_vec(), command.arg(1).len()))
        .collect();
    assert_eq!(lengths, [0, 3, 1_000].map(|bytes| (2, b"ECHO".to_vec(), bytes)));
    let headed = queue.commands().find_map(|command| command.around_key());
    assert_eq!(headed, None, "what stands before a key here is another argument");
    queue.abort();
    assert_eq!((queue.len(), push(&mut queue, 1), queue.len()), (0, Ok(()), 0));
}

#[test]
fn all_transactions_share_a_budget() {
    let budget = Arc::new(Budget::new(61_000));
    let queue = || Queue::new(Share::new(Arc::clone(&budget)), BOUNDS);
    let (mut first, mut second, mut third) = (queue(), queue(), queue());
    push(&mut first, 60_000).unwrap();
    assert_eq!(push(&mut second, 60_000), Err(Full::Node));
    assert!(second.is_aborted());
    // What is small has a place all the same.
    push(&mut queue(), 1_000).unwrap();
    // One that is gone gives back what it held, as does one that is aborted.
    drop(first);
    push(&mut third, 60_000).unwrap();
    third.abort();
    push(&mut queue(), 60_000).unwrap();
}

/// The room of others is lent for a while after each command, what each has for itself for ever.
#[tokio::test(start_paused = true)]
async fn only_what_holds_room_of_others_has_a_deadline() {
    const TIME: Duration = Duration::from_secs(30);
    let mut queue = Queue::new(Share::new(Arc::new(Budget::new(1024 * 1024))), BOUNDS);
    push(&mut queue, 100).unwrap();
    assert_eq!(queue.deadline(TIME), None);
    push(&mut queue, 10_000).unwrap();
    let end = Instant::now() + TIME;
    assert_eq!(queue.deadline(TIME), Some(end));
    tokio::time::advance(TIME / 2).await;
    assert_eq!(queue.deadline(TIME), Some(end));
    push(&mut queue, 0).unwrap();
    assert_eq!(queue.deadline(TIME), Some(end + TIME / 2));
    queue.abort();
    assert_eq!(queue.deadline(TIME), None);
}

#[test]
fn a_transaction_has_as_much_as_it_may() {
    let queue = |commands, bytes| {
        let share = Share::new(Arc::new(Budget::new(1024 * 1024)));
        Queue::new(share, TransactionBounds { commands, bytes })
    };
    let mut few = queue(2, 100_000);
    assert_eq!([push(&mut few, 1), push(&mut few, 1)], [Ok(()), Ok(())]);
    assert_eq!(push(&mut few, 1), Err(Full::Transaction));
    assert!(few.is_aborted());
    // The name and the argument, and where each of them begins and ends.
    let one = 4 + 10 + 2 * 8;
    let mut small = queue(100, 2 * one);
    assert_eq!([push(&mut small, 10), push(&mut small, 10)], [Ok(()), Ok(())]);
    assert_eq!(push(&mut small, 0), Err(Full::Transaction));
}
