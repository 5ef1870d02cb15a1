//! The open connections, as `CLIENT LIST` shows them.
//!
//! A connection notes what it did once for each read, by plain stores in memory of its own; the
//! lock is taken when it opens, when it closes, and by a client that lists them.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | Q1 number of a connection | relaxed | none: distinct by modification order | - | - |
//! | Q2 what a connection did, all accesses | relaxed | none: each is shown as it is | - | - |

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;

use super::reply::Version;

/// The longest list, in bytes of whole lines: about 5,000 connections.
const MAX_LIST_BYTES: usize = 1024 * 1024;
/// The most connections of a list: no line is shorter than 100 bytes.
const MAX_LISTED: usize = MAX_LIST_BYTES / 100;
/// The number of no command.
const NO_COMMAND: u8 = u8::MAX;
/// What is shown in place of a command.
const NO_COMMAND_NAME: &str = "NULL";
/// The number of queued commands without a transaction.
const NO_TRANSACTION: i64 = -1;

/// The open connections; as many as the listener accepts at a time.
#[derive(Debug, Default)]
pub struct Clients {
    open: Mutex<BTreeMap<i64, Arc<Client>>>,
    last_id: AtomicI64,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub fd: RawFd,
}

impl Ends {
    /// Those of a stream; `None` when it has been cut already.
    pub fn of(stream: &TcpStream) -> Option<Self> {
        let (peer, local) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
        Some(Self { peer, local, fd: stream.as_raw_fd() })
    }
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    pub id: i64,
    /// `None` for one without a socket, as in tests.
    ends: Option<Ends>,
    /// When it was opened, by the clock of the node.
    since: Duration,
    /// When it was last read, in nanoseconds of the same clock.
    last_read: AtomicU64,
    /// The number of the last command.
    command: AtomicU8,
    version: AtomicU8,
    db: AtomicU8,
    queued: AtomicI64,
    names: Mutex<Names>,
}

/// What a client calls itself; each is empty until it does.
#[derive(Debug, Default)]
pub struct Names {
    pub client: Vec<u8>,
    pub library: Vec<u8>,
    pub library_version: Vec<u8>,
}

/// What a connection did last.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    /// By the clock of the node.
    pub at: Duration,
    /// The number of the last command, if there was one.
    pub command: Option<u8>,
    pub version: Version,
    pub db: u8,
    /// The commands of an open transaction.
    pub queued: Option<usize>,
}

impl Clients {
    /// A connection that is open until what is returned is dropped.
    pub fn connected(self: &Arc<Self>, ends: Option<Ends>, now: Duration) -> Registered {
        let client = Arc::new(Client {
            // Q1
            id: 1 + self.last_id.fetch_add(1, Ordering::Relaxed),
            ends,
            since: now,
            last_read: AtomicU64::new(nanos(now)),
            command: AtomicU8::new(NO_COMMAND),
            version: AtomicU8::new(Version::default().number() as u8),
            db: AtomicU8::new(0),
            queued: AtomicI64::new(NO_TRANSACTION),
            names: Mutex::default(),
        });
        self.open().insert(client.id, Arc::clone(&client));
        Registered { client, clients: Arc::clone(self) }
    }

    /// A line for each connection of `ids`, or for all in the order in which they opened; lines
    /// beyond [`MAX_LIST_BYTES`] are left out. Its work is bounded by what it gives back.
    pub fn list(
        &self,
        now: Duration,
        name_of: fn(u8) -> Option<&'static str>,
        ids: Option<&[i64]>,
    ) -> Vec<u8> {
        // The lock is not held while lines are made.
        let open = self.open();
        let wanted: Vec<_> = match ids {
            Some(ids) => ids.iter().filter_map(|id| open.get(id)).map(Arc::clone).collect(),
            None => open.values().take(MAX_LISTED).map(Arc::clone).collect(),
        };
        drop(open);
        let mut list = Vec::new();
        for client in &wanted {
            let whole = list.len();
            client.describe(now, name_of, &mut list);
            if list.len() > MAX_LIST_BYTES {
                list.truncate(whole);
                break;
            }
        }
        list
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<i64, Arc<Client>>> {
        // A map that a panic left behind is whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Notes what the connection did.
    pub fn note(&self, activity: &Activity) {
        let queued = activity.queued.map_or(NO_TRANSACTION, |count| count as i64);
        // Q2
        let order = Ordering::Relaxed;
        self.last_read.store(nanos(activity.at), order);
        self.command.store(activity.command.unwrap_or(NO_COMMAND), order);
        self.version.store(activity.version.number() as u8, order);
        self.db.store(activity.db, order);
        self.queued.store(queued, order);
    }

    /// Where it comes from, if it has a socket.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.ends.map(|ends| ends.peer)
    }

    pub fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the line of the connection, with its line feed.
    pub fn describe(
        &self,
        now: Duration,
        name_of: fn(u8) -> Option<&'static str>,
        out: &mut Vec<u8>,
    ) {
        // Q2
        let order = Ordering::Relaxed;
        let (id, fd) = (self.id, self.ends.map_or(-1, |ends| ends.fd));
        let idle = now.saturating_sub(Duration::from_nanos(self.last_read.load(order))).as_secs();
        let age = now.saturating_sub(self.since).as_secs();
        let multi = self.queued.load(order);
        let flags = if multi == NO_TRANSACTION { 'N' } else { 'x' };
        let (db, resp) = (self.db.load(order), self.version.load(order));
        let command = name_of(self.command.load(order)).unwrap_or(NO_COMMAND_NAME);
        let names = self.names();
        // Writing to a vector does not fail.
        let _ = write!(out, "id={id}");
        if let Some(Ends { peer, local, .. }) = self.ends {
            let _ = write!(out, " addr={peer} laddr={local}");
        }
        let _ = write!(out, " fd={fd} name=");
        out.extend_from_slice(&names.client);
        let _ = write!(
            out,
            " age={age} idle={idle} flags={flags} db={db} sub=0 psub=0 ssub=0 multi={multi} \
             watch=0 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 \
             tot-mem=0 events=r cmd={command} user=default redir=-1 resp={resp} lib-name="
        );
        out.extend_from_slice(&names.library);
        out.extend_from_slice(b" lib-ver=");
        out.extend_from_slice(&names.library_version);
        out.push(b'\n');
    }
}

/// An open connection; closed when dropped.
#[derive(Debug)]
pub struct Registered {
    client: Arc<Client>,
    clients: Arc<Clients>,
}

impl Deref for Registered {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.clients.open().remove(&self.client.id);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Activity, Clients, MAX_LIST_BYTES};
    use crate::front::resp::reply::Version;

    const NO_NAMES: fn(u8) -> Option<&'static str> = |_| None;

    #[test]
    fn a_connection_is_listed_until_it_closes() {
        let clients = Arc::new(Clients::default());
        let (start, second) = (Duration::from_secs(5), Duration::from_secs(1));
        let (first, other) = (clients.connected(None, start), clients.connected(None, start));
        first.names().client = b"me".to_vec();
        let activity = Activity {
            at: start + second,
            command: Some(3),
            version: Version::Resp3,
            db: 7,
            queued: Some(2),
        };
        first.note(&activity);
        let name_of = |number| (number == 3).then_some("ping");
        let list = String::from_utf8(clients.list(start + second * 3, name_of, None)).unwrap();
        assert_eq!(
            list,
            "id=1 fd=-1 name=me age=3 idle=2 flags=x db=7 sub=0 psub=0 ssub=0 multi=2 watch=0 \
             qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 \
             events=r cmd=ping user=default redir=-1 resp=3 lib-name= lib-ver=\n\
             id=2 fd=-1 name= age=3 idle=3 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 \
             qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 \
             events=r cmd=NULL user=default redir=-1 resp=2 lib-name= lib-ver=\n"
        );
        drop(first);
        assert!(clients.list(start, NO_NAMES, None).starts_with(b"id=2 "));
        assert!(clients.list(start, NO_NAMES, Some(&[1])).is_empty());
        drop(other);
        assert!(clients.list(start, NO_NAMES, None).is_empty());
    }

    #[test]
    fn a_list_is_bounded_and_ends_with_a_whole_line() {
        let clients = Arc::new(Clients::default());
        let open: Vec<_> = (0..8_000).map(|_| clients.connected(None, Duration::ZERO)).collect();
        let list = clients.list(Duration::ZERO, NO_NAMES, None);
        assert!((MAX_LIST_BYTES - 1_024..=MAX_LIST_BYTES).contains(&list.len()));
        assert!(list.ends_with(b" lib-ver=\n"));
        drop(open);
    }
}
