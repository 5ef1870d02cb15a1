//! Listening: accepting connections within bounds, and draining them.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvFlags, sockopt};
use tidegate_engine::IpKey;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::front::addresses::{AddressPermit, Addresses};
use crate::front::budget::Budget;
use crate::front::permits::PermitCounts;
use crate::front::refusals::Refusals;
use crate::front::unsent::Unsent;
use crate::telemetry::log_throttle::SharedLogThrottle;
use crate::telemetry::metrics::ConnectionMetrics;

/// How many clients may wait to be accepted, where the system allows as many: the next one is
/// ignored, and tries again after a second. As many as reconnect at once.
const MAX_BACKLOG: u32 = 4_096;
/// How many clients may wait to be accepted when the listener closes: more than the system keeps.
const MAX_WAITING: usize = 8_192;
/// How many of these are accepted before others have their turn.
const ACCEPTED_IN_A_TURN: usize = 64;
/// How long to wait when the system lacks resources for a connection, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a connection may be silent before TCP keep-alive probes it.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
/// The interval between keep-alive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How many unanswered probes end the connection.
const KEEPALIVE_PROBES: u32 = 4;
/// What the system holds of a client's replies that it has not sent yet, in bytes, and no more than
/// one write beyond: without a bound that grows to megabytes for a client that does not read. What
/// is on its way to a client that does read is not bounded by this.
#[cfg(target_os = "linux")]
const MAX_NOT_SENT: u32 = 64 * 1024;

/// How long a client that goes on sending is answered once the node drains, beyond what had come by
/// then.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A front-end, as the listener sees it.
pub trait FrontEnd: Send + Sync + 'static {
    /// Serves one client, whose replies are written within the bounds of `unsent`; ends soon after
    /// `drain` is cancelled.
    fn serve(
        &self,
        stream: TcpStream,
        unsent: Unsent,
        drain: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static;

    /// Answers that there are too many clients, and closes.
    fn refuse(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static;
}

/// Binds a listener; the address is the bound one.
pub fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As a listener of the standard library: connections of the process before keep no port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(MAX_BACKLOG)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// How many connections a front-end may have, and where they are counted.
#[derive(Debug)]
pub struct Limits {
    pub metrics: ConnectionMetrics,
    pub permits: PermitCounts,
    /// Those of each address, where they are bounded too.
    pub addresses: Option<Addresses>,
}

/// The connections of all front-ends.
#[derive(Clone, Debug)]
pub struct Connections {
    tasks: TaskTracker,
    drain: CancellationToken,
    /// What all of them may hold in unsent replies.
    unsent: Arc<Budget>,
    write_timeout: Duration,
}

impl Connections {
    /// All together hold at most `unsent` bytes of replies, of which each socket takes some within
    /// `write_timeout`.
    pub fn new(unsent: usize, write_timeout: Duration) -> Self {
        Self {
            tasks: TaskTracker::new(),
            drain: CancellationToken::new(),
            unsent: Arc::new(Budget::new(unsent)),
            write_timeout,
        }
    }

    /// How many there are.
    pub fn open(&self) -> usize {
        self.tasks.len()
    }

    /// Drains all connections: waits until they have ended, for at most `within`.
    pub async fn drain(&self, within: Duration) {
        self.drain.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(within, self.tasks.wait()).await;
    }
}

/// Accepts clients for a front-end until `stop` is cancelled, and then those that wait, which
/// closing the listener would reset.
pub async fn accept(
    listener: TcpListener,
    front_end: impl FrontEnd,
    limits: Limits,
    connections: Connections,
    stop: CancellationToken,
) {
    let acceptor = Acceptor::new(front_end, limits, connections);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return acceptor.accept_waiting(listener).await,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => acceptor.serve_or_refuse(stream, peer).await,
            Err(error) => {
                acceptor.note_failure(&error);
                let _ = tokio::time::timeout(ACCEPT_PAUSE, stop.cancelled()).await;
            }
        }
    }
}

/// Serves or refuses the clients of a front-end.
struct Acceptor<F> {
    front_end: F,
    metrics: ConnectionMetrics,
    connections: Connections,
    permits: Arc<Semaphore>,
    /// For those that are being refused, by reason: clients beyond the bound of their address leave
    /// refusals for clients that arrive when all permits are taken.
    full_refusals: Refusals,
    address_refusals: Refusals,
    addresses: Option<Addresses>,
    /// The lines of the log about failures, and about clients beyond either bound.
    failure_log: Arc<SharedLogThrottle>,
    full_log: Arc<SharedLogThrottle>,
    address_log: Arc<SharedLogThrottle>,
}

/// The permits that a connection has until it ends: among all, and among those of its address where
/// these are bounded.
type Permit = (OwnedSemaphorePermit, Option<AddressPermit>);

/// Why a client has no permit.
#[derive(Clone, Copy, Debug)]
enum Refused {
    /// All are taken.
    Full,
    /// All of its address are.
    Address,
}

impl<F: FrontEnd> Acceptor<F> {
    fn new(front_end: F, limits: Limits, connections: Connections) -> Self {
        let Limits { metrics, permits, addresses } = limits;
        let log_of = |about| Arc::new(SharedLogThrottle::new(about));
        let address_refusals = if addresses.is_some() { permits.refusals / 2 } else { 0 };
        Self {
            front_end,
            metrics,
            connections,
            permits: Arc::new(Semaphore::new(permits.connections)),
            full_refusals: Refusals::new(permits.refusals - address_refusals),
            address_refusals: Refusals::new(address_refusals),
            addresses,
            failure_log: log_of("failures to accept connections"),
            full_log: log_of("connections beyond the bound"),
            address_log: log_of("connections beyond the bound of their address"),
        }
    }

    /// Accepts the clients that wait in the listener's backlog.
    async fn accept_waiting(&self, listener: TcpListener) {
        // It does not block.
        let Ok(listener) = listener.into_std() else { return };
        for count in 1..=MAX_WAITING {
            if count.is_multiple_of(ACCEPTED_IN_A_TURN) {
                tokio::task::yield_now().await;
            }
            let accepted = listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                Ok((TcpStream::from_std(stream)?, peer))
            });
            match accepted {
                Ok((stream, peer)) => self.serve_or_refuse(stream, peer).await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has hung up.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return self.note_failure(&error),
            }
        }
    }

    /// Serves a client, or refuses it.
    async fn serve_or_refuse(&self, stream: TcpStream, peer: SocketAddr) {
        // Without these options a connection works, but a vanished client is not detected.
        let _ = set_options(&stream);
        let permit = match self.permit(peer) {
            Ok(permit) => permit,
            Err(refused) => return self.refuse(stream, refused).await,
        };
        let Connections { tasks, drain, unsent, write_timeout } = &self.connections;
        let unsent = Unsent::new(Arc::clone(unsent), *write_timeout, self.metrics.clone());
        let unsent = unsent.until(drain.clone());
        // A task has room for what it captures and for what it awaits: this would be there twice.
        let connection = Box::pin(self.front_end.serve(stream, unsent, drain.child_token()));
        let open = self.metrics.open();
        tasks.spawn(async move {
            connection.await;
            drop((open, permit));
        });
    }

    /// Refuses a client in words, in the place of the oldest where there are too many. Before the
    /// next client, which may take this one's place, it has a turn: what it has sent is answered.
    async fn refuse(&self, stream: TcpStream, refused: Refused) {
        let refusals = match refused {
            Refused::Full => &self.full_refusals,
            Refused::Address => &self.address_refusals,
        };
        refusals.start(self.front_end.refuse(stream), &self.connections.tasks);
        tokio::task::yield_now().await;
    }

    /// A client's permit; where there is none, that is counted and logged.
    fn permit(&self, peer: SocketAddr) -> Result<Permit, Refused> {
        let frontend = self.metrics.frontend;
        // First its own bound: a client that exceeds it takes none of the permits of others.
        let of_address = self.addresses.as_ref().map(|addresses| addresses.admit(peer));
        if matches!(of_address, Some(None)) {
            self.metrics.refused_address.inc();
            if let Some(left_out) = self.address_log.admit_shared() {
                let address = IpKey::from(peer);
                tracing::warn!(frontend, %address, left_out, "too many connections of one address");
            }
            return Err(Refused::Address);
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            self.metrics.refused_full.inc();
            if let Some(left_out) = self.full_log.admit_shared() {
                tracing::warn!(frontend, left_out, "too many connections");
            }
            return Err(Refused::Full);
        };
        Ok((permit, of_address.flatten()))
    }

    /// Counts and logs that no connection was accepted.
    fn note_failure(&self, error: &io::Error) {
        self.metrics.accept_errors.inc();
        if let Some(left_out) = self.failure_log.admit_shared() {
            let frontend = self.metrics.frontend;
            tracing::warn!(frontend, left_out, "no connection accepted: {error}");
        }
    }
}

/// Disables Nagle's algorithm, as replies are written in one piece; enables keep-alive, as each
/// connection of a vanished client counts towards the bound; and bounds what the system holds.
fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(MAX_NOT_SENT)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?)
}

/// Reads what a client has sent: how many bytes, or `None` without any.
///
/// What does not fill the buffer is all there is, so the next read waits for more to arrive, as it
/// does after `poll_read`, instead of finding nothing first.
pub fn read(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let room = buffer.len();
    let mut all = None;
    let read = stream.try_io(Interest::READABLE, || {
        let (count, _) = rustix::net::recv(stream, &mut *buffer, RecvFlags::DONTWAIT)?;
        if (1..room).contains(&count) {
            all = Some(count);
            // Clears the readiness that led here, and none that came since.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    });
    match read {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(all),
        Err(error) => Err(error),
    }
}

/// How many bytes of a client its socket holds.
pub fn unread_bytes(stream: &TcpStream) -> u64 {
    // It does not fail on an open socket.
    rustix::io::ioctl_fionread(stream).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::config::bounds::{MAX_CONNECTIONS, MAX_UNSENT_BYTES};
    use crate::front::unsent::tests::WRITE_TIMEOUT;
    use tokio::sync::mpsc;

    /// Reports the options of its connections.
    struct Seen(mpsc::Sender<bool>);

    impl FrontEnd for Seen {
        fn serve(
            &self,
            stream: TcpStream,
            _: Unsent,
            _: CancellationToken,
        ) -> impl Future<Output = ()> + Send + 'static {
            let seen = self.0.clone();
            async move {
                let alive = sockopt::socket_keepalive(&stream).unwrap();
                let idle = sockopt::tcp_keepidle(&stream).unwrap();
                let not_sent = socket2::SockRef::from(&stream).tcp_notsent_lowat().unwrap();
                let are_set = idle == KEEPALIVE_IDLE && not_sent == MAX_NOT_SENT;
                let _ = seen.send(alive && are_set).await;
            }
        }

        fn refuse(&self, _: TcpStream) -> impl Future<Output = ()> + Send + 'static {
            std::future::ready(())
        }
    }

    /// Serves and refuses without end; counts the clients that it is refusing, and their turns.
    struct Endless(Arc<AtomicUsize>, Arc<AtomicUsize>);

    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl FrontEnd for Endless {
        fn serve(
            &self,
            _: TcpStream,
            _: Unsent,
            _: CancellationToken,
        ) -> impl Future<Output = ()> + Send + 'static {
            std::future::pending()
        }

        fn refuse(&self, _: TcpStream) -> impl Future<Output = ()> + Send + 'static {
            self.0.fetch_add(1, Ordering::Relaxed);
            let (counted, turns) = (Counted(Arc::clone(&self.0)), Arc::clone(&self.1));
            async move {
                let _counted = counted;
                turns.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<()>().await;
            }
        }
    }

    #[tokio::test]
    async fn clients_of_one_address_leave_words_to_others() {
        let (refused, turns) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let metrics = crate::telemetry::metrics::Metrics::new(
            Vec::new(),
            crate::limits::gossip::Gossip::alone(),
        );
        let metrics = metrics.connections(crate::telemetry::meter::FrontEndName::Resp).clone();
        let connections = Connections::new(MAX_UNSENT_BYTES, WRITE_TIMEOUT);
        let permits = PermitCounts { connections: 2, refusals: 4 };
        let acceptor = |bounded: bool| {
            let addresses = bounded.then(|| Addresses::new(NonZeroUsize::MIN));
            let limits = Limits { metrics: metrics.clone(), permits, addresses };
            let front_end = Endless(Arc::clone(&refused), Arc::clone(&turns));
            Acceptor::new(front_end, limits, connections.clone())
        };
        let serve_or_refuse = async |acceptor: &mut Acceptor<Endless>, last: u8| {
            let stream = crate::front::unsent::tests::pair().await.1;
            acceptor.serve_or_refuse(stream, ([192, 0, 2, last], 1).into()).await;
            refused.load(Ordering::Relaxed)
        };
        let mut bounded = acceptor(true);
        let mut logged = 0;
        for _ in 0..10 {
            logged = serve_or_refuse(&mut bounded, 1).await;
        }
        assert_eq!(logged, 2);
        // The last permit, and none.
        assert_eq!(serve_or_refuse(&mut bounded, 2).await, 2);
        for last in 3..10 {
            logged = serve_or_refuse(&mut bounded, last).await;
        }
        assert_eq!(logged, 4);
        // Where addresses are not bounded, no permit is kept for those beyond.
        let mut open = acceptor(false);
        for _ in 0..10 {
            logged = serve_or_refuse(&mut open, 1).await;
        }
        assert_eq!(logged, 4 + 4);
        // Each of a burst has a turn before it makes way.
        let mut burst = Vec::new();
        for _ in 0..10 {
            burst.push(crate::front::unsent::tests::pair().await.1);
        }
        let before = turns.load(Ordering::Relaxed);
        for stream in burst {
            open.serve_or_refuse(stream, ([192, 0, 2, 1], 1).into()).await;
        }
        assert_eq!(turns.load(Ordering::Relaxed), before + 10);
    }

    /// As many as reconnect at once wait: they are not ignored, to try again after a second.
    #[tokio::test]
    async fn many_clients_may_wait_to_be_accepted() {
        const CLIENTS: usize = 600;
        let (_listener, address) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let clients = CLIENTS.min(most.trim().parse().unwrap());
        let connect =
            |_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(900));
        let connected: Result<Vec<_>, _> = (0..clients).map(connect).collect();
        assert!(connected.is_ok(), "one of {clients} was ignored: {connected:?}");
    }

    #[tokio::test]
    async fn clients_that_wait_when_a_listener_closes_are_let_in() {
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let metrics = crate::telemetry::metrics::Metrics::new(
            Vec::new(),
            crate::limits::gossip::Gossip::alone(),
        );
        let metrics = metrics.connections(crate::telemetry::meter::FrontEndName::Http).clone();
        let limits = Limits {
            metrics,
            permits: PermitCounts { connections: 9, refusals: 9 },
            addresses: None,
        };
        let connections = Connections::new(MAX_UNSENT_BYTES, WRITE_TIMEOUT);
        let connect = async || TcpStream::connect(address).await.unwrap();
        let _clients = [connect().await, connect().await, connect().await];
        let stop = CancellationToken::new();
        stop.cancel();
        let front_end = Endless(Arc::default(), Arc::default());
        accept(listener, front_end, limits, connections.clone(), stop).await;
        assert_eq!(connections.open(), 3);
        assert!(TcpStream::connect(address).await.is_err(), "it is closed");
    }

    #[tokio::test]
    async fn sockets_detect_vanished_clients_and_hold_little() {
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (seen, mut answers) = mpsc::channel(1);
        let metrics = crate::telemetry::metrics::Metrics::new(
            Vec::new(),
            crate::limits::gossip::Gossip::alone(),
        );
        let connections = metrics.connections(crate::telemetry::meter::FrontEndName::Resp).clone();
        let stop = CancellationToken::new();
        let permits = PermitCounts::of(None, MAX_CONNECTIONS).0;
        let limits = Limits { metrics: connections, permits, addresses: None };
        let connections = Connections::new(MAX_UNSENT_BYTES, WRITE_TIMEOUT);
        let accepting = accept(listener, Seen(seen), limits, connections, stop.clone());
        let accepting = tokio::spawn(accepting);
        let _client = TcpStream::connect(address).await.unwrap();
        assert_eq!(answers.recv().await, Some(true));
        stop.cancel();
        accepting.await.unwrap();
    }
}
