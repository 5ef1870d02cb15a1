//! How long the node waits for clients that hold room of others, or do not read.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::*;
use crate::config::bounds::UNDER_WAY;
use crate::front::linger::LINGER;
use crate::front::resp::session::Session;
use crate::front::resp::testing::{session, talk};
use crate::front::stall::SCARCE_TIMEOUT;
use crate::telemetry::exposition::Format;

/// An argument of this many bytes takes more than a transaction has for itself.
const LARGE: usize = 8_000;
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

/// Queues `ECHO` with an argument of this many bytes in a new transaction.
async fn queue(client: &mut TcpStream, bytes: usize) {
    let echo = format!("MULTI\r\n*2\r\n$4\r\nECHO\r\n${bytes}\r\n{}\r\n", "x".repeat(bytes));
    client.write_all(echo.as_bytes()).await.unwrap();
    expect(client, "+OK\r\n+QUEUED\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_holds_room_of_others_is_not_waited_for_without_end() {
    let front_end = front_end(1024 * 1024);
    let (mut large, mut small) = (connect(&front_end).await, connect(&front_end).await);
    in_no_time(queue(&mut large, LARGE)).await;
    in_no_time(queue(&mut small, 10)).await;
    // Each command that is queued begins its time anew; what is answered at once does not.
    tokio::time::sleep(COMMAND_TIMEOUT / 2).await;
    large.write_all(b"PING\r\n").await.unwrap();
    in_no_time(expect(&mut large, "+QUEUED\r\n")).await;
    for _ in 0..2 {
        tokio::time::sleep(COMMAND_TIMEOUT * 2 / 5).await;
        let watching = "-ERR WATCH inside MULTI is not allowed\r\n";
        large.write_all(b"WATCH k\r\n").await.unwrap();
        in_no_time(expect(&mut large, watching)).await;
    }
    let expired = || {
        let text = front_end.server.service().metrics().render(Format::Classic);
        text.contains("tidegate_resp_transactions_expired_total 1\n")
    };
    assert!(!expired(), "too early");
    tokio::time::sleep(COMMAND_TIMEOUT * 2 / 5).await;
    assert!(expired(), "it is waited for");
    large.write_all(b"PING\r\nEXEC\r\nPING\r\n").await.unwrap();
    in_no_time(expect(&mut large, &format!("+QUEUED\r\n{ABORTED}+PONG\r\n"))).await;
    // One within the room that each has for itself may stay open.
    tokio::time::sleep(10 * COMMAND_TIMEOUT).await;
    small.write_all(b"EXEC\r\n").await.unwrap();
    in_no_time(expect(&mut small, "*1\r\n$10\r\nxxxxxxxxxx\r\n")).await;
}

/// What it sends meanwhile is answered at once, and queued is nothing.
#[tokio::test(start_paused = true)]
async fn a_transaction_whose_time_is_noticed_late_is_put_off_once() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    in_no_time(queue(&mut client, LARGE)).await;
    // As of a node that was stopped.
    tokio::time::advance(COMMAND_TIMEOUT + 2 * NOTICED_LATE).await;
    let watching = "-ERR WATCH inside MULTI is not allowed\r\n";
    for _ in 0..4 {
        client.write_all(b"WATCH k\r\n").await.unwrap();
        in_no_time(expect(&mut client, watching)).await;
        tokio::time::sleep(NOTICED_LATE / 2).await;
    }
    client.write_all(b"EXEC\r\n").await.unwrap();
    in_no_time(expect(&mut client, ABORTED)).await;
}

/// It is not waited for, so that no timer is looked at.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_without_pause_keeps_no_transaction() {
    let mut session = session();
    talk(&mut session, &["MULTI", &format!("ECHO {}", "x".repeat(LARGE))]);
    let time = session.server.bounds().command_timeout;
    session.expire_late_transaction();
    tokio::time::advance(time + NOTICED_LATE / 2).await;
    session.expire_late_transaction();
    let aborted = |session: &Session| session.queue.as_ref().unwrap().is_aborted();
    // It is put off.
    tokio::time::advance(NOTICED_LATE).await;
    session.expire_late_transaction();
    tokio::time::advance(NOTICED_LATE).await;
    session.expire_late_transaction();
    assert!(!aborted(&session), "too early");
    tokio::time::advance(NOTICED_LATE).await;
    session.expire_late_transaction();
    assert!(aborted(&session), "it is waited for");
}

/// Neither does one from whose socket there is always something to read.
#[tokio::test(start_paused = true)]
async fn a_pipeline_keeps_no_transaction() {
    const WATCHES: usize = 10_000;
    let command_timeout = WRITE_TIMEOUT / 10;
    let front_end = bounded(RespBounds { command_timeout, ..RespBounds::default() });
    let (mut client, accepted) = unsent::tests::pair().await;
    sockopt::set_socket_recv_buffer_size(&accepted, 4 * 1024 * 1024).unwrap();
    let budget = Arc::new(Budget::new(MAX_UNSENT_BYTES));
    let unsent = Unsent::new(budget, WRITE_TIMEOUT, metrics(&front_end));
    let mut serving = pin!(front_end.serve(accepted, unsent, CancellationToken::new()));
    tokio::select! {
        () = serving.as_mut() => panic!("it has ended"),
        () = in_no_time(queue(&mut client, LARGE)) => {}
    }
    let queued = front_end.server.commands();
    in_no_time(client.write_all(&b"WATCH k\r\n".repeat(WATCHES))).await.unwrap();
    let mut run_turn =
        async || poll_fn(|context| Poll::Ready(serving.as_mut().poll(context))).await.is_pending();
    while front_end.server.commands() == queued {
        assert!(run_turn().await);
        tokio::task::yield_now().await;
    }
    // From here on the runtime knows that there is input, up to the last turn.
    while front_end.server.commands() < queued + WATCHES as u64 / 2 {
        assert!(run_turn().await);
        tokio::time::advance(command_timeout + NOTICED_LATE).await;
    }
    let text = front_end.server.service().metrics().render(Format::Classic);
    assert!(text.contains("tidegate_resp_transactions_expired_total 1\n"), "it is waited for");
}

/// Also one that sends more before it reads. Longer where the systems of both ends hold replies.
#[tokio::test(start_paused = true)]
async fn a_client_may_read_late_what_a_drain_has_answered() {
    let (moment, slack) = (Duration::from_millis(10), Duration::from_millis(5));
    for (count, time) in [(0, UNDER_WAY), (1, UNDER_WAY), (4_000, LINGER)] {
        let drain = CancellationToken::new();
        let front_end = front_end(1024 * 1024);
        let (mut client, serving) = in_no_time(connect_until(&front_end, drain.clone())).await;
        client.write_all(&b"PING\r\n".repeat(count)).await.unwrap();
        tokio::time::sleep(moment).await;
        let begun = tokio::time::Instant::now();
        drain.cancel();
        tokio::time::sleep(moment).await;
        client.write_all(b"PING\r\n").await.unwrap();
        serving.await.unwrap();
        let took = begun.elapsed();
        assert!((time..time + slack).contains(&took), "{count}: {took:?}");
        in_no_time(expect_end(&mut client, &"+PONG\r\n".repeat(count))).await;
    }
}

/// A client that asks for more than the systems of both ends hold of replies, and what serves it.
async fn client_that_does_not_read(
    front_end: &RespFrontEnd,
    drain: &CancellationToken,
) -> (TcpStream, JoinHandle<()>) {
    let (mut client, accepted) = unsent::tests::pair().await;
    let budget = Arc::new(Budget::new(MAX_UNSENT_BYTES));
    let unsent = Unsent::new(budget, WRITE_TIMEOUT, metrics(front_end)).until(drain.clone());
    let serving = tokio::spawn(front_end.serve(accepted, unsent, drain.clone()));
    client.write_all(&b"COMMAND\r\n".repeat(500)).await.unwrap();
    (client, serving)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_keeps_no_drain() {
    let (front_end, drain) = (front_end(1024 * 1024), CancellationToken::new());
    let (_client, serving) = client_that_does_not_read(&front_end, &drain).await;
    tokio::time::sleep(WRITE_TIMEOUT / 3).await;
    assert!(!serving.is_finished());
    drain.cancel();
    tokio::time::timeout(2 * LINGER, serving).await.expect("an end").unwrap();
}

/// Those that made room scarce are gone: a client that has yet to send the rest of its pipeline,
/// and so does not read, is served on.
#[tokio::test(start_paused = true)]
async fn a_pipeline_goes_on_once_there_is_room_again() {
    let (front_end, pause) = (front_end(1024 * 1024), SCARCE_TIMEOUT / 20);
    let budget = Arc::new(Budget::new(MAX_UNSENT_BYTES));
    let mut others = Share::new(Arc::clone(&budget));
    assert!(others.resize(MAX_UNSENT_BYTES * 3 / 4));
    let (mut client, accepted) = unsent::tests::pair().await;
    let unsent = Unsent::new(budget, WRITE_TIMEOUT, metrics(&front_end));
    tokio::spawn(front_end.serve(accepted, unsent, CancellationToken::new()));
    let _sending = tokio::spawn(async move {
        client.write_all(echoes().as_bytes()).await.unwrap();
        client
    });
    let run = async |times| {
        for _ in 0..times {
            tokio::time::sleep(pause).await;
            // The time of the systems is not paused.
            thread::sleep(Duration::from_millis(20));
            if front_end.server.commands() == ECHOES as u64 {
                break;
            }
        }
        front_end.server.commands()
    };
    let few = run(30).await;
    assert!(few > 0 && few < ECHOES as u64 / 2, "{few}");
    drop(others);
    assert_eq!(run(250).await, ECHOES as u64);
}
