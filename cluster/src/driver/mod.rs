//! Sockets, clocks and tasks: performs the actions of the protocol.
//!
//! One task owns the protocol's [`Core`]. Links have small tasks of their own that only move bytes
//! between QUIC and bounded channels. They run on threads of the node's own ([`thread`]).

mod accepting;
mod certificate;
mod congestion;
mod expiry;
mod freshness;
mod handshakes;
mod keys;
mod limiters;
mod link;
mod logging;
mod lookup;
mod publishing;
mod recorder;
mod seeds;
mod shared;
mod start;
mod thread;
mod tls;

#[cfg(test)]
mod dns_server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quinn::{Endpoint, VarInt};
use tokio::runtime::Handle as Tasks;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::config::StartError;
use crate::name::ClusterName;
use crate::protocol::{Action, Core, LinkId, Nanos, Stats, nanos};
use crate::steps::Steps;
use crate::trust::Trust;
use limiters::Limiters;
use link::{Datagram, Incomplete, Link, LinkEvent, Reports, Streams};
use logging::EventLog;
use publishing::Publishing;
use seeds::Found;
pub(crate) use shared::Shared;
use shared::View;
pub(crate) use start::start;
use tls::Configs;

/// Queued events of all links, at most; while the queue is full, links are not read.
const MAX_EVENTS: usize = 256;
/// Queued datagrams of all links, at most; while the queue is full, they are dropped.
const MAX_DATAGRAMS: usize = 256;
/// Queued calls of handles, at most.
const MAX_COMMANDS: usize = 16;
/// Events handled between two checks of the deadlines, at most.
const MAX_EVENTS_AT_ONCE: usize = 64;
/// How long announcing a leave may take: kept of what `leave` allows, at most half of that.
const LEAVING_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a leave may take, at most: a deadline that any clock can state.
const MAX_LEAVE: Duration = Duration::from_secs(365 * 86_400);

/// A request of a handle to the driver.
#[derive(Debug)]
pub(crate) enum Command {
    /// `done` is dropped once the node has ended.
    Leave {
        within: Duration,
        done: oneshot::Sender<()>,
    },
    Rotate {
        trust: Trust,
        done: oneshot::Sender<Result<(), StartError>>,
    },
}

/// The one task that owns the protocol's state.
struct Driver {
    core: Core<Limiters>,
    shared: Arc<Shared>,
    endpoint: Endpoint,
    cluster: ClusterName,
    /// Which nodes this node trusts.
    configs: Configs,
    /// The key that is in force.
    hash_key: [u8; 16],
    reports: Reports,
    /// Where the tasks of links run.
    tasks: Tasks,
    links: BTreeMap<LinkId, Link>,
    /// Handshakes under way that this node began.
    dials: BTreeMap<LinkId, AbortHandle>,
    started: Instant,
    publishing: Publishing,
    leave: Option<Leave>,
    steps: Steps,
    event_log: EventLog,
}

/// The driver cannot go on, and nothing has asked it to end.
struct Failed;

/// What comes to the driver.
struct Inbox {
    events: mpsc::Receiver<LinkEvent>,
    datagrams: mpsc::Receiver<Datagram>,
    commands: mpsc::Receiver<Command>,
    looked_up: mpsc::Receiver<Found>,
    /// Ends once no more links are accepted.
    accepting: oneshot::Receiver<Infallible>,
}

/// The calls of handles that wait for the end of the node: they go on when this is dropped.
struct Waiting {
    _commands: mpsc::Receiver<Command>,
    /// The one that has the node leave.
    _leave: Option<oneshot::Sender<()>>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// A leave under way.
struct Leave {
    /// When unacknowledged deltas are given up, with time left to announce the leave.
    acknowledge_by: Instant,
    deadline: Instant,
    done: oneshot::Sender<()>,
}

impl Leave {
    fn new(within: Duration, done: oneshot::Sender<()>) -> Self {
        let (now, within) = (Instant::now(), within.min(MAX_LEAVE));
        let announcing = LEAVING_TIMEOUT.min(within / 2);
        Self {
            acknowledge_by: now + within.saturating_sub(announcing),
            deadline: now + within,
            done,
        }
    }
}

/// What a future returns; `None` where one of its steps panics.
async fn unless_panics<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

/// Waits for a time, but not for one that has come: a timer would only fire when the runtime looks
/// at the clock.
async fn until(at: Instant) {
    if at > Instant::now() {
        sleep_until(at).await;
    } else {
        yield_now().await;
    }
}

impl Driver {
    /// A driver without a link. `reports` are the senders of what [`Driver::run`] receives.
    fn new(
        core: Core<Limiters>,
        shared: Arc<Shared>,
        endpoint: Endpoint,
        cluster: ClusterName,
        configs: Configs,
        reports: Reports,
    ) -> Self {
        Self {
            hash_key: core.hash_key().to_bytes(),
            started: shared.started,
            publishing: Publishing::new(shared.started),
            core,
            shared,
            endpoint,
            cluster,
            configs,
            reports,
            tasks: Tasks::current(),
            links: BTreeMap::new(),
            dials: BTreeMap::new(),
            leave: None,
            steps: Steps::default(),
            event_log: EventLog::default(),
        }
    }

    /// Runs until the node has ended; what waits for that. A panic is a failure of the node, also
    /// one of a subscriber that the log is written to: it is not left to destructors, where the
    /// next one would end the process.
    async fn run(mut self, mut inbox: Inbox) -> Waiting {
        let served = unless_panics(self.serve(&mut inbox)).await.unwrap_or(Err(Failed));
        let has_failed = served.is_err();
        let leave = served.unwrap_or_else(|Failed| self.leave.take().map(|leave| leave.done));
        if has_failed {
            self.shared.cut_off();
        }
        // Dropped first, so that a caller that finds the node ended sees it as it is then.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self)));
        if has_failed {
            let _ = catch_unwind(logging::failed);
        }
        Waiting { _commands: inbox.commands, _leave: leave }
    }

    /// Serves until the node has left, which the returned caller waits for, or its last handle is
    /// gone.
    async fn serve(&mut self, inbox: &mut Inbox) -> Result<Option<oneshot::Sender<()>>, Failed> {
        loop {
            self.act();
            // What an event calls for is on its way before.
            if self.publishing.changed(Instant::now()) {
                self.publish();
            }
            if let Some(deadline) = self.leave_is_due() {
                // Its caller is let go when the node has ended, also by a panic.
                self.finish_leaving(deadline).await;
                return Ok(self.leave.take().map(|leave| leave.done));
            }
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                Some(event) = inbox.events.recv() => {
                    self.handle(event);
                    for _ in 1..MAX_EVENTS_AT_ONCE {
                        let Ok(event) = inbox.events.try_recv() else { break };
                        self.handle(event);
                    }
                }
                Some(datagram) = inbox.datagrams.recv() => {
                    self.datagram(datagram);
                    for _ in 1..MAX_EVENTS_AT_ONCE {
                        let Ok(datagram) = inbox.datagrams.try_recv() else { break };
                        self.datagram(datagram);
                    }
                }
                Some(Found { seeds, complete }) = inbox.looked_up.recv() => {
                    self.shared.set_seeds(&seeds);
                    self.step(|core, now| core.seeds(now, &seeds, complete));
                }
                is_new = shared.recorder.filled() => {
                    let now = self.now();
                    if is_new { self.core.recorded(now) } else { self.core.recorded_late(now) }
                }
                command = inbox.commands.recv(), if self.leave.is_none() => match command {
                    Some(Command::Leave { within, done }) => {
                        self.step(Core::flush);
                        self.leave = Some(Leave::new(within, done));
                    }
                    Some(Command::Rotate { trust, done }) => {
                        let _ = done.send(self.rotate(&trust));
                    }
                    None => {
                        self.endpoint.close(VarInt::from_u32(0), b"");
                        let _ = timeout(LEAVING_TIMEOUT, self.endpoint.wait_idle()).await;
                        return Ok(None);
                    }
                },
                // Without links of others the node would be one that hears of nothing.
                _ = &mut inbox.accepting => return Err(Failed),
                () = until(self.wake_at()) => {}
            }
            self.on_time();
        }
    }

    /// Until when a leave that waits for no acknowledgement any more is announced.
    fn leave_is_due(&self) -> Option<Instant> {
        let leave = self.leave.as_ref()?;
        let is_acknowledged = self.core.is_acknowledged();
        let is_due = is_acknowledged || Instant::now() >= leave.acknowledge_by;
        if is_due && !is_acknowledged {
            logging::left_unacknowledged();
        }
        is_due.then_some(leave.deadline)
    }

    fn now(&self) -> Nanos {
        nanos(self.started.elapsed())
    }

    /// A call of the protocol, whose time is measured.
    fn step<T>(&mut self, call: impl FnOnce(&mut Core<Limiters>, Nanos) -> T) -> T {
        let began = self.started.elapsed();
        let result = call(&mut self.core, nanos(began));
        let ended = self.started.elapsed();
        self.steps.add(ended, ended.saturating_sub(began));
        result
    }

    /// The next deadline; an hour away when there is none.
    fn wake_at(&self) -> Instant {
        let core = self.core.deadline().map(|due| self.started + Duration::from_nanos(due));
        let leave = self.leave.as_ref().map(|leave| leave.acknowledge_by);
        let due = [core, leave, self.publishing.due(), self.event_log.due()].into_iter().flatten();
        due.min().unwrap_or_else(|| Instant::now() + Duration::from_secs(3_600))
    }

    /// Does what is due, also where events come without a pause.
    fn on_time(&mut self) {
        if self.core.deadline().is_some_and(|due| due <= self.now()) {
            self.step(Core::tick);
        }
        self.event_log.on_time();
    }

    fn publish(&mut self) {
        let (members, peers, beyond, stats) = self.step(|core, now| {
            (core.seen(), core.peers(now), core.over_admission().collect(), core.stats_at(now))
        });
        let stats = Stats { steps: self.steps, ..stats };
        let at = self.now();
        self.shared.publish(View { at, members, peers, beyond, stats, cut_off_at: None });
    }

    fn datagram(&mut self, (link, bytes): Datagram) {
        self.step(|core, now| core.datagram(now, link, &bytes));
    }

    fn handle(&mut self, event: LinkEvent) {
        if let LinkEvent::Dialled { link, .. } = &event {
            self.dials.remove(link);
        }
        match event {
            LinkEvent::Message { link, transit, bytes } => {
                self.step(|core, now| core.message(now, link, transit, &bytes));
            }
            LinkEvent::Dialled { link, streams: Some(streams) }
                if self.configs.accepts(streams.connection(), streams.opened()) =>
            {
                let subject = streams.subject();
                self.open(link, streams);
                self.step(|core, now| core.connected(now, link, subject));
            }
            // Its handshake began before the set of nodes that this node trusts changed.
            LinkEvent::Accepted { streams }
                if !self.configs.accepts(streams.connection(), streams.opened()) =>
            {
                let from = streams.remote_address();
                self.shared.handshakes.count_rejected(from, Incomplete::Distrusted);
            }
            LinkEvent::Accepted { streams } => {
                let subject = streams.subject();
                if let Some(link) = self.step(|core, now| core.accepted(now, subject)) {
                    self.open(link, streams);
                } else {
                    self.shared.handshakes.count_refused(streams.remote_address());
                    streams.refuse();
                }
            }
            LinkEvent::Dialled { link, .. } | LinkEvent::Closed { link } => {
                self.links.remove(&link);
                self.step(|core, now| core.closed(now, link));
            }
        }
    }

    fn open(&mut self, link: LinkId, streams: Streams) {
        self.links.insert(link, Link::new(link, streams, &self.reports, &self.tasks));
    }

    /// Changes what this node shows and accepts, and ends the links of nodes that it would have
    /// refused when they opened.
    fn rotate(&mut self, trust: &Trust) -> Result<(), StartError> {
        self.configs = Configs::of(&self.cluster, self.shared.addr, trust)?;
        self.shared.expiry.set(self.configs.validity);
        self.endpoint.set_server_config(Some(self.configs.server.clone()));
        self.endpoint.set_default_client_config(self.configs.client.clone());
        let refused = |link: &Link| !self.configs.accepts(link.connection(), link.opened());
        let refused = self.links.iter().filter(|(_, link)| refused(link));
        for link in refused.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.handle(LinkEvent::Closed { link });
        }
        Ok(())
    }

    /// Performs the actions that the protocol has queued, once what it has applied may be used.
    fn act(&mut self) {
        self.shared.set_current_until(self.core.current_until());
        while let Some(action) = self.core.poll() {
            match action {
                Action::Dial { link, addr } => {
                    let events = self.reports.events.clone();
                    let (endpoint, cluster) = (self.endpoint.clone(), self.cluster.clone());
                    let dial = link::dial(endpoint, cluster, link, addr, events);
                    self.dials.insert(link, self.tasks.spawn(dial).abort_handle());
                }
                Action::Close { link } => {
                    self.links.remove(&link);
                    if let Some(dial) = self.dials.remove(&link) {
                        dial.abort();
                    }
                }
                Action::Datagram { link, bytes } => {
                    if let Some(link) = self.links.get(&link) {
                        link.send_datagram(bytes);
                    }
                }
                Action::Message { link, channel, bytes } => {
                    if let Some(link) = self.links.get(&link) {
                        link.send(channel, bytes);
                    }
                }
            }
        }
        let key = self.core.hash_key().to_bytes();
        if std::mem::replace(&mut self.hash_key, key) != key {
            self.shared.keys.change(key);
        }
        while let Some(event) = self.core.poll_event() {
            self.event_log.record(&event);
        }
        // A node that has joined catches up with the others before it decides.
        match self.core.join_kind() {
            Some(join_kind) if !self.core.is_joining() => self.shared.enter(join_kind),
            Some(_) => {}
            None => self.shared.await_state(),
        }
    }

    async fn finish_leaving(&mut self, deadline: Instant) {
        self.core.leave(self.now());
        self.act();
        self.event_log.at_end();
        self.publish();
        let deadline = deadline.min(Instant::now() + LEAVING_TIMEOUT);
        let links = std::mem::take(&mut self.links);
        let finishing: Vec<_> = links.into_values().map(Link::finish).collect();
        for finished in finishing {
            let _ = timeout_at(deadline, finished).await;
        }
        self.endpoint.close(VarInt::from_u32(0), b"left");
        let _ = timeout_at(deadline, self.endpoint.wait_idle()).await;
    }
}
