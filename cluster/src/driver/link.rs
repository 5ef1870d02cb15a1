//! One QUIC connection: two streams of length-prefixed messages, and datagrams.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use quinn::{
    Connection, ConnectionError, Endpoint, RecvStream, SendStream, TransportErrorCode, VarInt,
};
use rustls::AlertDescription;
use rustls::pki_types::UnixTime;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::tls::{SERVER_NAME, subject_of};
use crate::name::ClusterName;
use crate::protocol::{Channel, LinkId, MAX_MESSAGE_BYTES, Nanos, Subject, nanos};
use crate::seed::canonical;

/// Messages queued for one stream, at most. The protocol's windows stay far below.
const MAX_QUEUED: usize = 512;
/// How long opening a link may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The first byte on the stream of each channel.
const TAG_MAIN: u8 = 1;
const TAG_STATE: u8 = 2;

/// An event that a link reports to the driver.
pub(super) enum LinkEvent {
    Dialled { link: LinkId, streams: Option<Streams> },
    Accepted { streams: Streams },
    Message { link: LinkId, transit: Nanos, bytes: Vec<u8> },
    Closed { link: LinkId },
}

/// A datagram of a link.
pub(super) type Datagram = (LinkId, Bytes);

/// Where links report to. Datagrams have a queue of their own, so that messages that wait for the
/// driver keep none of membership's from it.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    pub(super) events: mpsc::Sender<LinkEvent>,
    pub(super) datagrams: mpsc::Sender<Datagram>,
}

/// A connection with both streams open.
pub(super) struct Streams {
    connection: Connection,
    /// When the handshake had verified the other side.
    opened: UnixTime,
    /// What the certificate at the other end names.
    subject: Subject,
    main: (SendStream, RecvStream),
    state: (SendStream, RecvStream),
}

impl Streams {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn opened(&self) -> UnixTime {
        self.opened
    }

    pub(super) fn subject(&self) -> Subject {
        self.subject.clone()
    }

    /// Where its packets come from, as members are written.
    pub(super) fn remote_address(&self) -> SocketAddr {
        canonical(self.connection.remote_address())
    }

    pub(super) fn refuse(self) {
        self.connection.close(VarInt::from_u32(2), b"too many");
    }
}

/// The driver's end of a link. Closes the connection when dropped.
pub(super) struct Link {
    connection: Connection,
    opened: UnixTime,
    main: mpsc::Sender<Bytes>,
    state: mpsc::Sender<Bytes>,
    writer: Option<JoinHandle<()>>,
}

impl Link {
    /// Starts the tasks that read from and write to the connection.
    pub(super) fn new(link: LinkId, streams: Streams, reports: &Reports, tasks: &Handle) -> Self {
        let Streams { connection, opened, main, state, .. } = streams;
        let (main_queue, queued) = mpsc::channel(MAX_QUEUED);
        let writer = tasks.spawn(write(main.0, queued));
        let (state_queue, queued) = mpsc::channel(MAX_QUEUED);
        tasks.spawn(write(state.0, queued));
        let Reports { events, datagrams } = reports.clone();
        tasks.spawn(read_main(link, connection.clone(), main.1, events.clone()));
        tasks.spawn(read_state(link, connection.clone(), state.1, events));
        tasks.spawn(read_datagrams(link, connection.clone(), datagrams));
        Self { connection, opened, main: main_queue, state: state_queue, writer: Some(writer) }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn opened(&self) -> UnixTime {
        self.opened
    }

    pub(super) fn send(&self, channel: Channel, bytes: Bytes) {
        let queue = match channel {
            Channel::Main => &self.main,
            Channel::State => &self.state,
        };
        if queue.try_send(bytes).is_err() {
            // The peer has stopped reading: the protocol bounds what may be in flight.
            self.connection.close(VarInt::from_u32(1), b"stuck");
        }
    }

    pub(super) fn send_datagram(&self, bytes: Bytes) {
        // Datagrams are unreliable: a full buffer drops one.
        let _ = self.connection.send_datagram(bytes);
    }

    /// Finishes the main stream after the queued messages; resolves when the peer's QUIC has
    /// acknowledged all of them.
    pub(super) fn finish(mut self) -> impl Future<Output = ()> {
        let writer = self.writer.take();
        let (closed, _) = mpsc::channel(1);
        self.main = closed;
        async move {
            if let Some(writer) = writer {
                let _ = writer.await;
            }
            drop(self);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0), b"");
    }
}

/// Opens a link and reports it.
pub(super) async fn dial(
    endpoint: Endpoint,
    cluster: ClusterName,
    link: LinkId,
    addr: SocketAddr,
    events: mpsc::Sender<LinkEvent>,
) {
    let opened = tokio::time::timeout(OPEN_TIMEOUT, open(&endpoint, &cluster, addr)).await;
    let streams = opened.ok().flatten();
    // Without a driver the connection is dropped.
    let _ = events.send(LinkEvent::Dialled { link, streams }).await;
}

async fn open(endpoint: &Endpoint, cluster: &ClusterName, addr: SocketAddr) -> Option<Streams> {
    let connection = endpoint.connect(addr, SERVER_NAME).ok()?.await.ok()?;
    let opened = UnixTime::now();
    let subject = subject_of(&connection, cluster)?;
    let mut main = connection.open_bi().await.ok()?;
    main.0.write_all(&[TAG_MAIN]).await.ok()?;
    let mut state = connection.open_bi().await.ok()?;
    state.0.write_all(&[TAG_STATE]).await.ok()?;
    Some(Streams { connection, opened, subject, main, state })
}

/// Why an incoming connection was not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incomplete {
    /// One side does not believe that the other is a node of its cluster.
    Distrusted,
    /// The certificate of the other side has expired, or is not valid yet by this node's clock.
    Expired,
    /// The other side says so of this node's.
    ExpiredHere,
    /// The dialler gave it up, or did not open both streams in time: also a node that began to
    /// dial before this one had started.
    GivenUp,
}

impl From<ConnectionError> for Incomplete {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::TransportError(error) if error.code == expired() => Self::Expired,
            ConnectionError::ConnectionClosed(close) if close.error_code == expired() => {
                Self::ExpiredHere
            }
            ConnectionError::TransportError(_) | ConnectionError::VersionMismatch => {
                Self::Distrusted
            }
            ConnectionError::ConnectionClosed(close)
                if close.error_code != TransportErrorCode::APPLICATION_ERROR =>
            {
                Self::Distrusted
            }
            _ => Self::GivenUp,
        }
    }
}

/// TLS's alert of a certificate that is out of date.
fn expired() -> TransportErrorCode {
    TransportErrorCode::crypto(AlertDescription::CertificateExpired.into())
}

/// Completes an incoming connection.
pub(super) async fn accept(
    incoming: quinn::Incoming,
    cluster: &ClusterName,
) -> Result<Streams, Incomplete> {
    let completed = tokio::time::timeout(OPEN_TIMEOUT, complete(incoming, cluster)).await;
    completed.unwrap_or(Err(Incomplete::GivenUp))
}

async fn complete(incoming: quinn::Incoming, cluster: &ClusterName) -> Result<Streams, Incomplete> {
    let connection = incoming.await?;
    let opened = UnixTime::now();
    let subject = subject_of(&connection, cluster).ok_or(Incomplete::Distrusted)?;
    let main = accept_tagged(&connection, TAG_MAIN).await.ok_or(Incomplete::GivenUp)?;
    let state = accept_tagged(&connection, TAG_STATE).await.ok_or(Incomplete::GivenUp)?;
    Ok(Streams { connection, opened, subject, main, state })
}

/// The next stream, which must be of the kind that `tag` names; streams arrive in order.
async fn accept_tagged(connection: &Connection, tag: u8) -> Option<(SendStream, RecvStream)> {
    let mut stream = connection.accept_bi().await.ok()?;
    let mut seen = [0];
    stream.1.read_exact(&mut seen).await.ok()?;
    (seen == [tag]).then_some(stream)
}

async fn write(mut stream: SendStream, mut queued: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = queued.recv().await {
        let length = (bytes.len() as u32).to_le_bytes();
        let mut chunks = [Bytes::copy_from_slice(&length), bytes];
        if stream.write_all_chunks(&mut chunks).await.is_err() {
            return;
        }
    }
    let _ = stream.finish();
    let _ = stream.stopped().await;
}

/// Reads the main stream and then reports that the link is closed: after everything that arrived
/// on it, a goodbye included.
async fn read_main(
    link: LinkId,
    connection: Connection,
    stream: RecvStream,
    events: mpsc::Sender<LinkEvent>,
) {
    read(link, &connection, stream, &events).await;
    let _ = events.send(LinkEvent::Closed { link }).await;
}

/// Reads the state stream. Its end ends the connection, which the main stream's reader reports.
async fn read_state(
    link: LinkId,
    connection: Connection,
    stream: RecvStream,
    events: mpsc::Sender<LinkEvent>,
) {
    read(link, &connection, stream, &events).await;
    connection.close(VarInt::from_u32(0), b"");
}

/// Reports each message until the stream ends or the driver has ended.
async fn read(
    link: LinkId,
    connection: &Connection,
    mut stream: RecvStream,
    events: &mpsc::Sender<LinkEvent>,
) {
    while let Some(bytes) = read_message(&mut stream).await {
        let transit = nanos(connection.rtt() / 2);
        if events.send(LinkEvent::Message { link, transit, bytes }).await.is_err() {
            return;
        }
    }
}

/// The next message; `None` when the stream ends or the length exceeds [`MAX_MESSAGE_BYTES`],
/// which is checked before memory is allocated.
async fn read_message(stream: &mut RecvStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.ok()?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE_BYTES {
        return None;
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

async fn read_datagrams(link: LinkId, connection: Connection, queue: mpsc::Sender<Datagram>) {
    while let Ok(bytes) = connection.read_datagram().await {
        // A full queue drops it, as the network might have.
        if let Err(mpsc::error::TrySendError::Closed(_)) = queue.try_send((link, bytes)) {
            return;
        }
    }
}
