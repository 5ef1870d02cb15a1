//! Listening: accepting connections up to a bound, and letting go of them.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::ConnectionMetrics;

/// The most connections of one front-end at a time.
pub const MAX_CONNECTIONS: usize = 10_000;
/// The most connections that are being told that there are too many.
const MAX_REFUSALS: usize = 100;
/// How long to wait when the system has no means for a connection, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a client that is hung up on may take to read the last reply.
const LINGER: Duration = Duration::from_secs(1);
/// How much more it may send meanwhile, in bytes.
const LINGER_BYTES: usize = 1024 * 1024;
/// How much of that is thrown away at a time, in bytes.
const LINGER_PIECE_BYTES: usize = 4 * 1024;

/// A front-end, as far as listening is concerned.
pub trait FrontEnd: Send + Sync + 'static {
    /// Serves one client; comes to an end soon after `drain` is cancelled.
    fn serve(
        &self,
        stream: TcpStream,
        drain: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static;

    /// Tells a client that there are too many.
    fn refuse(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static;
}

/// Binds a listener and says where it ended up.
pub async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// The connections of all front-ends.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    tasks: TaskTracker,
    drain: CancellationToken,
}

impl Connections {
    /// Asks all connections to end, and waits until they have, at most for `within`.
    pub async fn drain(&self, within: Duration) {
        self.drain.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(within, self.tasks.wait()).await;
    }
}

/// Accepts clients for a front-end until `stop` is cancelled, and then closes the listener.
pub async fn accept(
    listener: TcpListener,
    front_end: impl FrontEnd,
    metrics: ConnectionMetrics,
    Connections { tasks, drain }: Connections,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Replies are written in one piece, so waiting for more to send only delays them.
        let _ = stream.set_nodelay(true);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let connection = front_end.serve(stream, drain.child_token());
            let open = metrics.open();
            tasks.spawn(async move {
                connection.await;
                drop((open, place));
            });
        } else {
            metrics.refused.inc();
            // Beyond this bound the connection is closed without a word.
            if let Ok(place) = Arc::clone(&refusals).try_acquire_owned() {
                let refusal = front_end.refuse(stream);
                tasks.spawn(async move {
                    refusal.await;
                    drop(place);
                });
            }
        }
    }
}

/// Closes a connection on which more may be under way: hanging up at once would make the client's
/// system throw away the last reply.
pub async fn linger(stream: &mut TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let discard = async {
        let mut left = LINGER_BYTES;
        while left > 0 && stream.readable().await.is_ok() {
            match stream.try_read(&mut [0; LINGER_PIECE_BYTES]) {
                Ok(0) => break,
                Ok(count) => left = left.saturating_sub(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, discard).await;
}
