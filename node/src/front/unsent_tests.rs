use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Bounded, SPARED_BYTES, Unsent};
use crate::config::bounds::MAX_UNSENT_BYTES;
use crate::front::budget::{Budget, Share};
use crate::front::linger::LINGER;
use crate::front::stall::SCARCE_TIMEOUT;
use crate::limits::gossip::Gossip;
use crate::telemetry::meter::FrontEndName;
use crate::telemetry::metrics::{ConnectionMetrics, Metrics};

/// How long a socket may take nothing, unless the command line says otherwise.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// What the systems of both ends hold, in bytes; each may round it up.
const BUFFER_BYTES: usize = 16 * 1024;

/// A client and the node's end of its connection, whose systems hold little.
pub async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpSocket::new_v4().unwrap();
    client.set_recv_buffer_size(BUFFER_BYTES as u32).unwrap();
    let (client, accepted) = tokio::join!(client.connect(address), listener.accept());
    let (client, accepted) = (client.unwrap(), accepted.unwrap().0);
    sockopt::set_socket_send_buffer_size(&accepted, BUFFER_BYTES).unwrap();
    accepted.set_nodelay(true).unwrap();
    (client, accepted)
}

/// Waits until a client can read more, for a tenth of a second if its node has no more to send: the
/// time in which the systems announce to each other what has been read, and send what they hold, is
/// not paused. What they hold is a few pieces, so that the node has room soon after.
fn more_arrives(client: &TcpStream) {
    let time = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    poll(&mut [PollFd::new(client, PollFlags::IN)], Some(&time)).unwrap();
}

fn metrics() -> ConnectionMetrics {
    let metrics = Metrics::new(Vec::new(), Gossip::alone());
    metrics.connections(FrontEndName::Resp).clone()
}

pub fn unsent(bytes: usize) -> (Arc<Budget>, Unsent) {
    let budget = Arc::new(Budget::new(bytes));
    (Arc::clone(&budget), Unsent::new(budget, WRITE_TIMEOUT, metrics()))
}

/// Time is paused: it advances as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_cut_off() {
    let (mut client, mut stream) = pair().await;
    let (_, mut unsent) = unsent(MAX_UNSENT_BYTES);
    let start = Instant::now();
    let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
    let error = bounded.write_all(&vec![b'x'; 1024 * 1024]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    // In paused time; it begins anew a few times, when the system takes more.
    assert!((WRITE_TIMEOUT..100 * WRITE_TIMEOUT).contains(&start.elapsed()));
    assert!(unsent.exceeded());
    assert_eq!(unsent.metrics.closed_write_timeout.get(), 1);
    assert_eq!(unsent.metrics.closed_no_room.get(), 0);
    // The system does not keep the rest for it either.
    drop(stream);
    let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// The client takes a tenth of the node's buffer in the time that it may take nothing, and many
/// times as long for the whole.
#[tokio::test(start_paused = true)]
async fn a_slow_client_is_served() {
    const BYTES: usize = 2 * 1024 * 1024;
    let (mut client, mut stream) = pair().await;
    sockopt::set_socket_send_buffer_size(&stream, BYTES / 8).unwrap();
    let (_, mut unsent) = unsent(MAX_UNSENT_BYTES);
    let start = Instant::now();
    let reader = tokio::spawn(async move {
        let (mut piece, mut read) = (vec![0; BUFFER_BYTES], 0);
        while read < BYTES {
            sleep(WRITE_TIMEOUT / 3).await;
            read += client.read(&mut piece).await.unwrap();
            more_arrives(&client);
        }
    });
    let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
    bounded.write_all(&vec![b'x'; BYTES]).await.unwrap();
    reader.await.unwrap();
    assert!(start.elapsed() > WRITE_TIMEOUT * 10);
    assert!(!unsent.exceeded());
}

/// The same client, where what is held for it is most of what there is.
#[tokio::test(start_paused = true)]
async fn a_slow_client_gives_way_where_room_is_scarce() {
    const BYTES: usize = 2 * 1024 * 1024;
    let (mut client, mut stream) = pair().await;
    let (_, mut unsent) = unsent(BYTES * 3 / 2);
    let start = Instant::now();
    let reader = tokio::spawn(async move {
        let mut piece = vec![0; BUFFER_BYTES];
        while client.read(&mut piece).await.is_ok() {
            sleep(SCARCE_TIMEOUT / 4).await;
            more_arrives(&client);
        }
    });
    let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
    let error = bounded.write_all(&vec![b'x'; BYTES]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(start.elapsed() >= WRITE_TIMEOUT, "{:?}", start.elapsed());
    assert_eq!(unsent.metrics.closed_write_timeout.get(), 1);
    drop(stream);
    reader.await.unwrap();
}

/// It is sent more all the time, and reads, before room is scarce and while it is, though it holds
/// more than its part: only what was there for long would count against it.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_on_is_served_however_far_it_is_behind() {
    const BEHIND: usize = 256 * 1024;
    let (mut client, mut stream) = pair().await;
    let (budget, mut unsent) = unsent(BEHIND * 4);
    let reader = tokio::spawn(async move {
        let mut piece = vec![0; BUFFER_BYTES];
        while client.read(&mut piece).await.is_ok_and(|count| count > 0) {
            sleep(SCARCE_TIMEOUT / 8).await;
            more_arrives(&client);
        }
    });
    let mut others = Share::new(budget);
    let (start, waiting) = (Instant::now(), vec![b'x'; BEHIND + BEHIND / 4]);
    let mut beyond_its_part = 0;
    while start.elapsed() < WRITE_TIMEOUT * 2 {
        let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
        let sent = bounded.write(&waiting).await.unwrap();
        assert!(sent < waiting.len(), "{sent}");
        if start.elapsed() > WRITE_TIMEOUT + SCARCE_TIMEOUT {
            assert!(others.resize(BEHIND * 2));
        }
        beyond_its_part += usize::from(unsent.share.exceeds_its_part(SPARED_BYTES));
    }
    assert!(beyond_its_part > 10, "{beyond_its_part}");
    drop(stream);
    reader.await.unwrap();
}

/// Time counts from when something is held, however long the connection is open.
#[tokio::test(start_paused = true)]
async fn a_connection_that_held_nothing_has_all_the_time() {
    let (_client, stream) = pair().await;
    let (_, mut unsent) = unsent(1_000);
    unsent.hold(&stream, 0).unwrap();
    sleep(2 * WRITE_TIMEOUT).await;
    unsent.hold(&stream, 900).unwrap();
    sleep(WRITE_TIMEOUT).await;
    assert_eq!(unsent.hold(&stream, 900).unwrap_err().kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn what_is_unsent_is_held_until_all_of_it_is_written() {
    const BYTES: usize = 1024 * 1024;
    let (mut client, mut stream) = pair().await;
    let (budget, mut unsent) = unsent(BYTES + 10);
    let (_, other) = pair().await;
    let mut others = Unsent::new(budget, WRITE_TIMEOUT, metrics());
    let writing = tokio::spawn(async move {
        let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
        bounded.write_all(&vec![b'x'; BYTES]).await.unwrap();
        (stream, unsent)
    });
    // Not before the other task waits has anything arrived, and it has been written in part.
    client.read_exact(&mut [0; 1_000]).await.unwrap();
    tokio::task::yield_now().await;
    others.hold(&other, 10).unwrap();
    let error = others.hold(&other, 11).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(others.exceeded());
    assert_eq!(others.metrics.closed_no_room.get(), 1);
    client.read_exact(&mut vec![0; BYTES - 1_000]).await.unwrap();
    let _open = writing.await.unwrap();
    others.hold(&other, BYTES + 10).unwrap();
}

#[tokio::test]
async fn a_quarter_of_the_budget_may_be_held_ahead_while_others_hold_little() {
    let metrics = Metrics::new(Vec::new(), Gossip::alone());
    let metrics = metrics.connections(FrontEndName::Resp).clone();
    let budget = Arc::new(Budget::new(100));
    let unsent = Unsent::new(Arc::clone(&budget), WRITE_TIMEOUT, metrics);
    assert!(unsent.may_hold_more(24) && !unsent.may_hold_more(25));
    let mut others = Share::new(budget);
    assert!(others.resize(50) && unsent.may_hold_more(24));
    assert!(others.resize(51) && !unsent.may_hold_more(0));
}

/// Counts for the client from the begin of a drain on, however long it has taken nothing by then.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_client_that_takes_nothing_for_a_moment_only() {
    for (before, after) in [(WRITE_TIMEOUT / 2, LINGER), (Duration::ZERO, LINGER)] {
        let (_client, mut stream) = pair().await;
        let (_, unsent) = unsent(MAX_UNSENT_BYTES);
        let drain = CancellationToken::new();
        let mut unsent = unsent.until(drain.clone());
        let begun = tokio::spawn(async move {
            sleep(before).await;
            drain.cancel();
            Instant::now()
        });
        let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
        let error = bounded.write_all(&vec![b'x'; 1024 * 1024]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let took = begun.await.unwrap().elapsed();
        // It begins anew a few times, when the system takes more.
        assert!((after..10 * after).contains(&took), "{took:?}");
    }
}

/// One that takes some in that time again and again may take all.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_on_is_served_while_the_node_drains() {
    const BYTES: usize = 1024 * 1024;
    let (mut client, mut stream) = pair().await;
    let (_, unsent) = unsent(MAX_UNSENT_BYTES);
    let (drain, start) = (CancellationToken::new(), Instant::now());
    let mut unsent = unsent.until(drain.clone());
    drain.cancel();
    let reader = tokio::spawn(async move {
        let (mut piece, mut read) = (vec![0; BUFFER_BYTES], 0);
        while read < BYTES {
            sleep(LINGER / 4).await;
            read += client.read(&mut piece).await.unwrap();
            more_arrives(&client);
        }
    });
    let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
    bounded.write_all(&vec![b'x'; BYTES]).await.unwrap();
    reader.await.unwrap();
    assert!(start.elapsed() > LINGER * 5);
    assert!(!unsent.exceeded());
}

/// Those that do not read while room is scarce pay, and not those behind them, who hold no more
/// than each may.
#[tokio::test(start_paused = true)]
async fn who_holds_most_of_what_is_scarce_is_not_waited_for() {
    const BYTES: usize = 2 * 1024 * 1024;
    let timed = async |budget: &Arc<Budget>, bytes: usize| {
        let (_client, mut stream) = pair().await;
        let mut unsent = Unsent::new(Arc::clone(budget), WRITE_TIMEOUT, metrics());
        let begun = Instant::now();
        let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
        let error = bounded.write_all(&vec![b'x'; bytes]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(unsent.metrics.closed_write_timeout.get(), 1);
        begun.elapsed()
    };
    let early = SCARCE_TIMEOUT..WRITE_TIMEOUT;
    // There is room for all.
    assert!(timed(&Arc::new(Budget::new(2 * BYTES + 1)), BYTES).await >= WRITE_TIMEOUT);
    let budget = Arc::new(Budget::new(BYTES * 3 / 2));
    assert!(early.contains(&timed(&budget, BYTES).await));
    // Others hold it. By then there are two connections, and a part is a quarter.
    let mut others = Share::new(Arc::clone(&budget));
    assert!(others.resize(BYTES));
    let innocent = timed(&budget, BYTES / 4).await;
    assert!(innocent >= WRITE_TIMEOUT, "{innocent:?}");
    // However many there are, each may hold a batch.
    let many = [(); 50].map(|()| {
        let mut share = Share::new(Arc::clone(&budget));
        assert!(share.resize(1));
        share
    });
    assert!(timed(&budget, SPARED_BYTES).await >= WRITE_TIMEOUT);
    assert!(early.contains(&timed(&budget, SPARED_BYTES + 40_000).await));
    drop(many);
}

/// Also where it becomes so while they wait.
#[tokio::test(start_paused = true)]
async fn room_that_becomes_scarce_is_noticed_in_time() {
    const BYTES: usize = 2 * 1024 * 1024;
    let (_client, mut stream) = pair().await;
    let (budget, mut unsent) = unsent(3 * BYTES);
    let taken = tokio::spawn(async move {
        sleep(WRITE_TIMEOUT / 3).await;
        let mut others = Share::new(budget);
        assert!(others.resize(BYTES));
        (Instant::now(), others)
    });
    let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
    assert!(bounded.write_all(&vec![b'x'; BYTES]).await.is_err());
    let (scarce, _others) = taken.await.unwrap();
    assert!(scarce.elapsed() <= SCARCE_TIMEOUT + Duration::from_millis(10));
}
