use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;
use tidegate_engine::KeyHasher;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{FrontEnd, RespBounds, RespFrontEnd, ServerInfo};
use crate::config::bounds::{COMMAND_TIMEOUT, MAX_UNSENT_BYTES};
use crate::config::file::LimitConfig;
use crate::front::budget::{Budget, Share};
use crate::front::deadline::NOTICED_LATE;
use crate::front::unsent::tests::WRITE_TIMEOUT;
use crate::front::unsent::{self, Unsent};
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::service::Service;
use crate::telemetry::meter::FrontEndName;
use crate::telemetry::metrics::ConnectionMetrics;

#[path = "waits_tests.rs"]
mod waits_tests;

/// A front-end whose connections may hold `unread` bytes of incomplete commands.
fn front_end(unread: usize) -> RespFrontEnd {
    bounded(RespBounds { max_unread_bytes: unread, ..RespBounds::default() })
}

fn bounded(bounds: RespBounds) -> RespFrontEnd {
    let limiters =
        Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &KeyHasher::siphash([7; 16]));
    let service = Arc::new(Service::new(limiters.unwrap(), Gossip::alone()));
    let address = "127.0.0.1:1".parse().unwrap();
    RespFrontEnd { server: Arc::new(ServerInfo::new(service, address, None, bounds)) }
}

/// How long anything may take that has to happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// A client of the front-end.
async fn connect(front_end: &RespFrontEnd) -> TcpStream {
    connect_until(front_end, CancellationToken::new()).await.0
}

/// A client of the front-end until that drains, and the task that serves it.
async fn connect_until(
    front_end: &RespFrontEnd,
    drain: CancellationToken,
) -> (TcpStream, JoinHandle<()>) {
    let (client, accepted) = unsent::tests::pair().await;
    let unsent =
        Unsent::new(Arc::new(Budget::new(MAX_UNSENT_BYTES)), WRITE_TIMEOUT, metrics(front_end));
    // More than one read takes.
    sockopt::set_socket_recv_buffer_size(&accepted, 4 * 1024 * 1024).unwrap();
    let serving = tokio::spawn(front_end.serve(accepted, unsent, drain));
    (client, serving)
}

fn metrics(front_end: &RespFrontEnd) -> ConnectionMetrics {
    front_end.server.service().metrics().connections(FrontEndName::Resp).clone()
}

/// Asks for more than the systems of both ends hold of replies, and reads none of them, until the
/// task that serves it has ended.
async fn deaf(front_end: &RespFrontEnd, unsent: &Arc<Budget>) {
    let (mut client, accepted) = unsent::tests::pair().await;
    let unsent = Unsent::new(Arc::clone(unsent), WRITE_TIMEOUT, metrics(front_end));
    let serving = front_end.serve(accepted, unsent, CancellationToken::new());
    // As long as it is open it takes this: an idle one owns no buffer.
    assert!(size_of_val(&serving) <= 2_048, "{} bytes", size_of_val(&serving));
    client.write_all(&b"COMMAND\r\n".repeat(500)).await.unwrap();
    tokio::time::timeout(60 * PATIENCE, serving).await.expect("an end");
    let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

async fn expect(client: &mut TcpStream, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    client.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

async fn expect_end(client: &mut TcpStream, expected: &str) {
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, expected);
}

/// Time is paused: it advances as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_command_that_never_ends_is_not_waited_for() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    client.write_all(b"PING\r\n*2\r\n$4\r\nECHO\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
    expect_end(&mut client, "-ERR the command took too long to arrive\r\n").await;
}

/// The first bytes that a client gets which sends one byte again and again.
async fn heard_by_one_that_drips(client: TcpStream, every: Duration) -> [u8; 4] {
    let (mut reading, mut sending) = client.into_split();
    let drip = async {
        loop {
            tokio::time::sleep(every).await;
            // The node may have hung up.
            let _ = sending.write_all(b"x").await;
        }
    };
    let mut heard = [0; 4];
    tokio::select! {
        biased;
        read = reading.read_exact(&mut heard) => assert_eq!(read.unwrap(), 4),
        () = tokio::time::sleep(2 * COMMAND_TIMEOUT) => panic!("it is waited for"),
        () = drip => {}
    }
    heard
}

/// Neither is one of which a byte comes now and then.
#[tokio::test(start_paused = true)]
async fn a_command_that_drips_is_not_waited_for() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    client.write_all(b"*2\r\n$4\r\nECHO\r\n$1000\r\n").await.unwrap();
    assert_eq!(&heard_by_one_that_drips(client, COMMAND_TIMEOUT / 4).await, b"-ERR");
}

/// Nor where its time is over while the client waits in line, and a byte comes sooner each time
/// than what has come late is waited for.
#[tokio::test(start_paused = true)]
async fn a_command_that_drips_and_is_noticed_late_is_not_waited_for() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    client.write_all(b"*2\r\n$4\r\nECHO\r\n$60000\r\n").await.unwrap();
    tokio::time::sleep(COMMAND_TIMEOUT * 299 / 300).await;
    let stopped = front_end.server.turns().stop().await;
    for much in [40_000, 1] {
        client.write_all(&vec![b'x'; much]).await.unwrap();
        tokio::time::sleep(NOTICED_LATE / 2).await;
    }
    tokio::time::sleep(2 * NOTICED_LATE).await;
    drop(stopped);
    assert_eq!(&heard_by_one_that_drips(client, NOTICED_LATE / 2).await, b"-ERR");
}

#[tokio::test(start_paused = true)]
async fn silence_between_commands_may_be_long() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    client.write_all(b"PING\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
    tokio::time::sleep(COMMAND_TIMEOUT * 100).await;
    client.write_all(b"PING\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
}

/// Waits for what comes over sockets. Paused time advances only while all tasks wait, so it stands
/// still meanwhile, however busy the machine is.
async fn in_no_time<T>(event: impl Future<Output = T>) -> T {
    let end = std::time::Instant::now() + PATIENCE;
    let turns = async {
        while std::time::Instant::now() < end {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! { biased; out = event => out, () = turns => panic!("timed out waiting") }
}

/// A transaction, or a command that does not arrive in full, keeps no connection open.
#[tokio::test(start_paused = true)]
async fn silence_may_be_bounded() {
    let (almost, moment) = (Duration::from_secs(10), Duration::from_millis(10));
    let timeout = almost + moment;
    let front_end = bounded(RespBounds { idle_timeout: Some(timeout), ..RespBounds::default() });
    let closed = || metrics(&front_end).closed_idle.get();
    let mut busy = in_no_time(connect(&front_end)).await;
    let ping = async |busy: &mut TcpStream| {
        busy.write_all(b"PING\r\n").await.unwrap();
        expect(busy, "+PONG\r\n").await;
    };
    for (count, (last, replies)) in
        (0..).zip([("", ""), ("MULTI\r\n", "+OK\r\n"), ("PING\r\n*2\r\n$4\r\n", "+PONG\r\n")])
    {
        let mut silent = in_no_time(connect(&front_end)).await;
        silent.write_all(last.as_bytes()).await.unwrap();
        in_no_time(expect(&mut silent, replies)).await;
        // All tasks have run once that is answered.
        in_no_time(ping(&mut busy)).await;
        tokio::time::advance(almost).await;
        in_no_time(ping(&mut busy)).await;
        assert_eq!(closed(), count, "{last}");
        tokio::time::advance(2 * moment).await;
        in_no_time(expect_end(&mut silent, "")).await;
        assert_eq!(closed(), count + 1, "{last}");
        in_no_time(ping(&mut busy)).await;
    }
}

#[tokio::test]
async fn connections_share_what_they_may_hold_unread() {
    // Beyond what each may hold in any case.
    let front_end = front_end(50 * 1024);
    let head = b"PING\r\n*2\r\n$4\r\nECHO\r\n$60000\r\n";
    let half = [head.as_slice(), &vec![b'x'; 59_000]].concat();
    let mut first = connect(&front_end).await;
    first.write_all(&half).await.unwrap();
    expect(&mut first, "+PONG\r\n").await;
    let mut second = connect(&front_end).await;
    second.write_all(&half).await.unwrap();
    let problem = "-ERR too many commands have not arrived in full\r\n";
    let refused = async |client: &mut TcpStream| {
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with(problem), "{text}");
    };
    // The connection that exceeded the budget is closed, and the other one continues.
    let mut other = tokio::select! {
        () = refused(&mut first) => second,
        () = refused(&mut second) => first,
    };
    let rest = [[b'x'; 1_000].as_slice(), b"\r\nPING\r\n"].concat();
    other.write_all(&rest).await.unwrap();
    let mut answer = vec![0; 60_000];
    other.read_exact(&mut answer).await.unwrap();
    // It has returned what it held.
    let mut third = connect(&front_end).await;
    third.write_all(&half).await.unwrap();
    third.write_all(&rest).await.unwrap();
    let mut answer = vec![0; 60_000];
    third.read_exact(&mut answer).await.unwrap();
}

#[tokio::test]
async fn a_small_command_is_not_refused_because_others_are_large() {
    let front_end = front_end(50 * 1024);
    let echo = |length: usize| format!("PING\r\n*2\r\n$4\r\nECHO\r\n${length}\r\n");
    let half = |length: usize| [echo(length).as_bytes(), &vec![b'x'; length - 1]].concat();
    let (mut large, mut small) = (connect(&front_end).await, connect(&front_end).await);
    for (client, length) in [(&mut large, 65_000), (&mut small, 16_000)] {
        client.write_all(&half(length)).await.unwrap();
        expect(client, "+PONG\r\n").await;
    }
    let mut third = connect(&front_end).await;
    third.write_all(&half(65_000)).await.unwrap();
    expect(&mut third, "+PONG\r\n-ERR too many commands have not arrived in full\r\n").await;
    assert_eq!(metrics(&front_end).closed_unread.get(), 1);
    small.write_all(b"x\r\nPING\r\n").await.unwrap();
    expect(&mut small, &format!("$16000\r\n{}\r\n+PONG\r\n", "x".repeat(16_000))).await;
}

/// Connections of a thread share the buffer of replies.
#[tokio::test]
async fn replies_to_a_client_that_is_gone_reach_no_other() {
    let front_end = front_end(1024 * 1024);
    let (mut gone, serving) = connect_until(&front_end, CancellationToken::new()).await;
    gone.write_all(b"PING\r\n").await.unwrap();
    // What was sent arrives before the reset does, so it is run.
    gone.set_zero_linger().unwrap();
    drop(gone);
    serving.await.unwrap();
    assert_eq!(front_end.server.commands(), 1);
    let mut client = connect(&front_end).await;
    client.write_all(b"ECHO x\r\n").await.unwrap();
    expect(&mut client, "$1\r\nx\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_cut_off() {
    let front_end = front_end(1024 * 1024);
    let unsent = Arc::new(Budget::new(MAX_UNSENT_BYTES));
    deaf(&front_end, &unsent).await;
    assert_eq!(metrics(&front_end).closed_write_timeout.get(), 1);
    assert_eq!(metrics(&front_end).closed_no_room.get(), 0);
    let mut all = Share::new(unsent);
    assert!(all.resize(MAX_UNSENT_BYTES), "it still holds something");
}

#[tokio::test(start_paused = true)]
async fn unsent_replies_are_bounded() {
    let front_end = front_end(1024 * 1024);
    deaf(&front_end, &Arc::new(Budget::new(10_000))).await;
    assert_eq!(metrics(&front_end).closed_write_timeout.get(), 0);
    assert_eq!(metrics(&front_end).closed_no_room.get(), 1);
}

/// Sends PING without pause until the connection ends: faster than commands are run, so the node
/// always finds some. Once replies arrive, `seen` is called; the rest of them is read.
fn hog(client: TcpStream, seen: impl FnOnce() + Send + 'static) -> std::net::TcpStream {
    let client = client.into_std().unwrap();
    client.set_nonblocking(false).unwrap();
    let (mut reading, mut sending) = (client.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || while sending.write_all(&b"PING\r\n".repeat(100_000)).is_ok() {});
    thread::spawn(move || {
        let mut replies = vec![0; 64 * 1024];
        reading.read_exact(&mut replies).unwrap();
        seen();
        while reading.read(&mut replies).is_ok_and(|count| count > 0) {}
    });
    client
}

/// One thread serves both.
#[test]
fn a_client_that_never_pauses_leaves_others_their_turn() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let front_end = front_end(1024 * 1024);
    let (client, other) =
        runtime.block_on(async { (connect(&front_end).await, connect(&front_end).await) });
    let mut hog = client.into_std().unwrap();
    hog.set_nonblocking(false).unwrap();
    // Without replies the node never waits for this client, and each read finds a whole buffer.
    hog.write_all(b"CLIENT REPLY OFF\r\n").unwrap();
    let mut sending = hog.try_clone().unwrap();
    let pings = b"PING\r\n".repeat(100_000);
    (0..5).for_each(|_| sending.write_all(&pings).unwrap());
    thread::spawn(move || while sending.write_all(&pings).is_ok() {});
    let mut other = other.into_std().unwrap();
    other.set_nonblocking(false).unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reply = [0; 7];
    let answered = (0..10).all(|_| {
        other.write_all(b"PING\r\n").unwrap();
        other.read_exact(&mut reply).is_ok()
    });
    // A thread that it keeps ends with it.
    hog.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(answered, "the other client is not served");
}

/// However much it has asked for by and by.
#[tokio::test]
async fn a_client_that_waits_for_each_answer_never_stands_in_line() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    let _stopped = front_end.server.turns().stop().await;
    let (asked, mut answer) = (b"PING\r\n".repeat(20), [0; 7 * 20]);
    for _ in 0..200 {
        client.write_all(&asked).await.unwrap();
        let answered = client.read_exact(&mut answer);
        tokio::time::timeout(PATIENCE, answered).await.expect("an answer").unwrap();
    }
}

/// However long it waits in between.
#[tokio::test]
async fn a_client_whose_last_command_was_a_turn_waits_for_the_next_one() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    let stopped = front_end.server.turns().stop().await;
    let long = format!("*2\r\n$4\r\nPING\r\n$65536\r\n{}\r\n", "x".repeat(65_536));
    client.write_all(long.as_bytes()).await.unwrap();
    // It takes more than one read.
    drop(stopped);
    expect(&mut client, &format!("$65536\r\n{}\r\n", "x".repeat(65_536))).await;
    let stopped = front_end.server.turns().stop().await;
    expect_in_line(&mut client, "PING\r\n").await;
    drop(stopped);
    expect(&mut client, "+PONG\r\n").await;
}

/// However late it reads the answer, which the system of neither end holds.
#[tokio::test]
async fn a_turn_is_not_taken_to_send() {
    const PINGS: usize = 14;
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    let text = "x".repeat(60_000);
    let ping = format!("*2\r\n$4\r\nPING\r\n$60000\r\n{text}\r\n");
    client.write_all(b"MULTI\r\n").await.unwrap();
    client.write_all(ping.repeat(PINGS).as_bytes()).await.unwrap();
    expect(&mut client, &format!("+OK\r\n{}", "+QUEUED\r\n".repeat(PINGS))).await;
    client.write_all(b"EXEC\r\n").await.unwrap();
    client.readable().await.unwrap();
    expect(&mut client, &format!("*{PINGS}\r\n")).await;
    expect(&mut client, &format!("$60000\r\n{text}\r\n").repeat(PINGS)).await;
    // All is sent, and the node has noticed that.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let stopped = front_end.server.turns().stop().await;
    expect_in_line(&mut client, "PING\r\n").await;
    drop(stopped);
    expect(&mut client, "+PONG\r\n").await;
}

#[tokio::test]
async fn a_long_transaction_is_run_in_a_turn_of_its_own() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    for count in [1, 600] {
        let queued = format!("MULTI\r\n{}", "PING\r\n".repeat(count));
        client.write_all(queued.as_bytes()).await.unwrap();
        expect(&mut client, &format!("+OK\r\n{}", "+QUEUED\r\n".repeat(count))).await;
        let stopped = front_end.server.turns().stop().await;
        if count == 1 {
            client.write_all(b"EXEC\r\n").await.unwrap();
        } else {
            expect_in_line(&mut client, "EXEC\r\n").await;
            drop(stopped);
        }
        expect(&mut client, &format!("*{count}\r\n{}", "+PONG\r\n".repeat(count))).await;
    }
}

/// What a client sends is not answered before the line moves.
async fn expect_in_line(client: &mut TcpStream, sent: &str) {
    client.write_all(sent.as_bytes()).await.unwrap();
    let read = tokio::time::timeout(Duration::from_millis(50), client.read(&mut [0])).await;
    assert!(read.is_err(), "{read:?}");
}

#[tokio::test]
async fn a_client_that_never_stops_sending_is_drained() {
    let drain = CancellationToken::new();
    let (client, serving) = connect_until(&front_end(1024 * 1024), drain.clone()).await;
    let _hog = hog(client, move || drain.cancel());
    tokio::time::timeout(PATIENCE, serving).await.expect("an end").unwrap();
}

const ECHOES: usize = 4_000;

fn text(number: usize) -> String {
    format!("{number:01000}")
}

/// More than the systems of both ends hold.
fn echoes() -> String {
    let command = |number| format!("*2\r\n$4\r\nECHO\r\n$1000\r\n{}\r\n", text(number));
    (0..ECHOES).map(command).collect()
}

async fn expect_echoes(client: &mut (impl AsyncRead + Unpin)) {
    for number in 0..ECHOES {
        let expected = format!("$1000\r\n{}\r\n", text(number));
        let mut bytes = vec![0; expected.len()];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }
}

/// A client whose system, and the node's, hold little.
async fn client_of_small_buffers() -> TcpStream {
    let front_end = front_end(1024 * 1024);
    let (client, accepted) = unsent::tests::pair().await;
    let budget = Arc::new(Budget::new(MAX_UNSENT_BYTES));
    let unsent = Unsent::new(budget, WRITE_TIMEOUT, metrics(&front_end));
    tokio::spawn(front_end.serve(accepted, unsent, CancellationToken::new()));
    client
}

/// Also one that has closed its side by then.
#[tokio::test]
async fn a_client_may_send_all_before_it_reads() {
    let mut client = client_of_small_buffers().await;
    client.write_all(echoes().as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    // The node has read that, most likely.
    tokio::time::sleep(Duration::from_millis(200)).await;
    expect_echoes(&mut client).await;
    expect_end(&mut client, "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_keep_their_order_where_some_wait() {
    for _ in 0..5 {
        let (mut reading, mut sending) = client_of_small_buffers().await.into_split();
        let send = tokio::spawn(async move {
            for part in echoes().as_bytes().chunks(5_000) {
                sending.write_all(part).await.unwrap();
            }
        });
        expect_echoes(&mut reading).await;
        send.await.unwrap();
    }
}
