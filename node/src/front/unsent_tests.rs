use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep};

use super::{Bounded, Unsent};
use crate::config::bounds::MAX_UNSENT_BYTES;
use crate::front::budget::{Budget, Share};
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
            // The time of the systems is not paused: they announce the room to each other.
            std::thread::sleep(Duration::from_millis(5));
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
    let reader = tokio::spawn(async move {
        let mut piece = vec![0; BUFFER_BYTES];
        while client.read(&mut piece).await.is_ok() {
            sleep(WRITE_TIMEOUT / 3).await;
            // The time of the systems is not paused: they announce the room to each other.
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut bounded = Bounded { stream: &mut stream, unsent: &mut unsent };
    let error = bounded.write_all(&vec![b'x'; BYTES]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(unsent.metrics.closed_write_timeout.get(), 1);
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
