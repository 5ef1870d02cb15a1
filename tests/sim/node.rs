//! A simulated node: the protocol's core driven as `tidegate_cluster`'s driver drives it. All that
//! knows the core's inputs.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tidegate_cluster::protocol::{Action, Core, LinkId, NodeId, Options, Stats, Subject};
use tidegate_cluster::{LinkState, Member, MemberState};

use crate::host::Limits;
use crate::inbox::Inbox;
use crate::network::Input;
use crate::rules::Rule;
use crate::time::{LocalClock, MS, Nanos};

/// Inputs handled between two looks at the deadlines, at most.
const MAX_INPUTS_AT_ONCE: usize = 64;
/// Clients that wait for a node that is stopped or stale, at most: what buffers of sockets hold.
const MAX_KEPT: usize = 1_024;
/// How long a leave waits for acknowledgements.
const LEAVE_WITHIN: Nanos = 1_500 * MS;

const FIRST_PORT: u16 = 1_000;

/// The address of a place.
pub fn addr(place: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], FIRST_PORT + place as u16))
}

/// The place of an address.
pub fn place_of(addr: SocketAddr) -> usize {
    usize::from(addr.port() - FIRST_PORT)
}

/// What a client asks: a rule, a key and a cost.
pub type Asked = (usize, u64, u64);

/// How a node starts.
#[derive(Debug)]
pub struct Start {
    pub place: usize,
    /// The number of this start among those of all nodes, from 1.
    pub life: u32,
    pub generation: u64,
    pub clock: LocalClock,
    pub options: Options,
}

/// What the longest calls of a core took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    pub calls: u64,
    /// Deltas and words handled in one call.
    pub most_work: u64,
    /// Measured only on demand, as the next one.
    pub longest: Duration,
    pub total: Duration,
}

/// How far a node has come with leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    No,
    /// Until when it waits for acknowledgements, in local time.
    Waiting {
        by: Nanos,
    },
    /// It has said so.
    Left {
        is_acknowledged: bool,
    },
    /// Its end is planned.
    Ending {
        /// It has sent everything to every node, the last of which was this life.
        through: Option<u32>,
    },
}

/// Clients that wait.
#[derive(Debug, Default)]
struct Kept {
    asked: VecDeque<Asked>,
    /// Their answers are planned.
    is_planned: bool,
}

pub struct Node {
    core: Core<Limits>,
    rules: Vec<Rule>,
    pub place: usize,
    pub life: u32,
    /// The life that it enters units for: another one once it has started over, as what it admitted
    /// before is hashed under a key that no node uses.
    pub ledger: u32,
    hash_key: [u8; 16],
    has_started_over: bool,
    pub steps: Steps,
    /// Calls are timed, and keep the node busy for this multiple of their time.
    pub cpu: Option<f64>,
    clock: LocalClock,
    leave: Leave,
    /// When the world looks at the node again, in true time.
    wake_at: Option<Nanos>,
    is_stopped: bool,
    /// Clients that wait for it.
    kept: Kept,
    /// How often it had been stale, and had not caught up with all nodes, when it was stopped last.
    stale_before: (u64, u64),
    /// In true time.
    busy_until: Nanos,
    idle_is_planned: bool,
    inbox: Inbox,
}

impl Node {
    pub fn new(start: Start, rules: &[Rule], now: Nanos) -> Self {
        let Start { place, life, generation, clock, options } = start;
        let limits = Limits::new(rules);
        let local = clock.local(now);
        limits.set_time(local);
        let core = Core::new(NodeId::new(addr(place), generation), options, limits, local);
        Self {
            hash_key: core.hash_key().to_bytes(),
            core,
            rules: rules.to_vec(),
            place,
            life,
            ledger: life,
            has_started_over: false,
            steps: Steps::default(),
            cpu: None,
            busy_until: 0,
            idle_is_planned: false,
            clock,
            leave: Leave::No,
            wake_at: None,
            is_stopped: false,
            kept: Kept::default(),
            stale_before: (0, 0),
            inbox: Inbox::default(),
        }
    }

    // ---- what the world sees ----

    /// The limiters, as they are now.
    pub fn limits(&mut self, now: Nanos) -> &mut Limits {
        let local = self.clock.local(now);
        self.core.host_mut().set_time(local);
        self.core.host_mut()
    }

    pub fn members(&self) -> Vec<Member> {
        self.core.members()
    }

    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// What the node says was admitted beyond a limit: in all, and in the worst moment.
    pub fn over_admission(&self, rule: usize) -> (Nanos, Nanos) {
        let limit = rule as u64 + 1;
        let mut all = self.core.over_admission();
        let said = all.find(|(of, _)| *of == limit).map(|(_, said)| said).unwrap_or_default();
        let nanos = |time: Duration| time.as_nanos() as Nanos;
        (nanos(said.total), nanos(said.worst))
    }

    /// Whether every peer that is alive has acknowledged all that this node has admitted.
    pub fn is_acknowledged(&self) -> bool {
        self.core.is_acknowledged()
    }

    pub fn has_joined(&self) -> bool {
        self.core.has_joined()
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub fn is_leaving(&self) -> bool {
        self.leave != Leave::No
    }

    /// Once a node has left, the last look before its end, at the places of live nodes. It has sent
    /// everything to every node if it knew all of them as alive, and waited for them; `last` is the
    /// life that has started last.
    pub fn ends(&mut self, live: &[usize], last: u32) -> bool {
        let Leave::Left { is_acknowledged } = self.leave else { return false };
        let members = self.core.members();
        let alive = members.iter().filter(|member| member.state == MemberState::Alive);
        let known: Vec<usize> = alive.map(|member| place_of(member.addr)).collect();
        let is_known = |place: &usize| *place == self.place || known.contains(place);
        let is_complete = is_acknowledged && live.iter().all(is_known);
        self.leave = Leave::Ending { through: is_complete.then_some(last) };
        true
    }

    /// To how many nodes frames flow.
    pub fn flows_to(&self, now: Nanos) -> usize {
        let peers = self.core.peers(self.clock.local(now));
        peers.iter().filter(|peer| peer.link == LinkState::Flowing).count()
    }

    /// The last life that was sent everything, if a leave has sent it to every node.
    pub fn acknowledged_through(&self) -> Option<u32> {
        match self.leave {
            Leave::Ending { through } => through,
            _ => None,
        }
    }

    /// Whether it answers clients.
    pub fn serves(&self) -> bool {
        !self.is_stopped && !self.is_leaving() && self.has_joined()
    }

    /// Whether clients wait for it: it is stopped, or catches up with its peers before it decides.
    fn keeps_waiting(&self, now: Nanos) -> bool {
        self.is_stopped || self.clock.local(now) >= self.core.current_until()
    }

    /// Whether it has caught up with all of its peers since it was stopped last.
    pub fn has_caught_up(&self) -> bool {
        let (stats, (stale, incomplete)) = (self.core.stats(), self.stale_before);
        self.core.current_until() > 0
            && stats.stale > stale
            && stats.stale_not_caught_up == incomplete
    }

    // ---- inputs ----

    /// A client asks. `None` when it is not answered now: the node serves no client, or it waits.
    pub fn check(&mut self, now: Nanos, asked: Asked) -> Option<bool> {
        if !self.is_leaving() && self.has_joined() && self.keeps_waiting(now) {
            if self.kept.asked.len() < MAX_KEPT {
                self.kept.asked.push_back(asked);
            }
            return None;
        }
        if !self.serves() {
            return None;
        }
        let (rule, key, cost) = asked;
        let allowed = self.limits(now).check(rule, key, cost);
        self.plan_flush(now);
        Some(allowed)
    }

    /// A client gives back what it was admitted with; returns the debt that this took away.
    pub fn give_back(&mut self, now: Nanos, (rule, key, cost): Asked, all: bool) -> Nanos {
        if !self.serves() {
            return 0;
        }
        let given = self.limits(now).give_back(rule, key, (!all).then_some(cost));
        self.plan_flush(now);
        given
    }

    /// A thread that has charged words waits for a processor before it records that, or records it.
    pub fn waits(&mut self, now: Nanos, begins: bool) {
        let limits = self.limits(now);
        if begins {
            limits.begin_waiting();
        } else {
            limits.end_waiting();
        }
        self.plan_flush(now);
    }

    /// Whether clients that wait can be answered from now on, once.
    pub fn begins_to_decide(&mut self, now: Nanos) -> bool {
        let waits = !self.kept.asked.is_empty() && !self.kept.is_planned;
        let begins = waits && !self.keeps_waiting(now);
        self.kept.is_planned |= begins;
        begins
    }

    /// The clients that have waited.
    pub fn take_kept(&mut self) -> VecDeque<Asked> {
        std::mem::take(&mut self.kept).asked
    }

    /// Admits a unit on this life's ledger; false when the node serves no client.
    pub fn enter(&mut self, now: Nanos, key: u64) -> bool {
        if !self.serves() {
            return false;
        }
        let ledger = self.ledger;
        self.limits(now).enter(ledger, key);
        self.plan_flush(now);
        true
    }

    fn plan_flush(&mut self, now: Nanos) {
        let local = self.clock.local(now);
        if self.core.host_mut().has_recorded() {
            self.core.recorded(local);
        }
    }

    /// Takes an input; a stopped node handles it later.
    pub fn receive(&mut self, now: Nanos, input: Input) {
        if !self.is_stopped && !self.is_busy(now) {
            self.handle(now, input);
            return;
        }
        if self.is_stopped {
            self.inbox.keep(input);
        } else {
            self.inbox.push(input);
        }
    }

    // ---- a processor that takes its time ----

    /// Whether an input has to wait for the call before it.
    pub fn is_busy(&self, now: Nanos) -> bool {
        self.busy_until > now || self.idle_is_planned
    }

    /// Until when a node that has just become busy is so.
    pub fn becomes_busy(&mut self, now: Nanos) -> Option<Nanos> {
        let is_new = self.busy_until > now && !self.idle_is_planned;
        self.idle_is_planned |= is_new;
        is_new.then_some(self.busy_until)
    }

    /// A call is over: the next input, if the node can take one.
    pub fn next_waiting(&mut self, now: Nanos) -> Option<Input> {
        self.idle_is_planned = false;
        if self.busy_until > now || self.is_stopped { None } else { self.inbox.pop() }
    }

    pub fn has_waiting(&self) -> bool {
        !self.is_stopped && !self.inbox.is_empty()
    }

    fn handle(&mut self, now: Nanos, input: Input) {
        self.step(now, |core, local| match input {
            Input::Dialled { link, to } => core.connected(local, link, Subject::node(addr(to))),
            Input::Message { link, transit, bytes } => core.message(local, link, transit, &bytes),
            Input::Datagram { link, bytes } => core.datagram(local, link, &bytes),
            Input::Closed { link } => core.closed(local, link),
            // Answered by the world, which asks `accepts`.
            Input::Accept { .. } | Input::Knock { .. } => {}
        });
    }

    /// The node at place `from` has opened a link.
    pub fn accepts(&mut self, now: Nanos, from: usize) -> Option<LinkId> {
        self.core.accepted(self.clock.local(now), Subject::node(addr(from)))
    }

    /// Does what is due.
    pub fn wake(&mut self, now: Nanos) {
        if self.is_stopped || self.busy_until > now {
            return;
        }
        let local = self.clock.local(now);
        if self.core.deadline().is_some_and(|at| at <= local) {
            self.step(now, Core::tick);
        }
    }

    /// Announces a leave once its time has come.
    pub fn settle_leave(&mut self, now: Nanos) {
        let Leave::Waiting { by } = self.leave else { return };
        let is_acknowledged = self.core.is_acknowledged();
        if !self.is_stopped && (is_acknowledged || by <= self.clock.local(now)) {
            self.leave = Leave::Left { is_acknowledged };
            self.step(now, Core::leave);
        }
    }

    fn flush(&mut self, now: Nanos) {
        self.step(now, Core::flush);
    }

    /// Leaves: flushes, waits for acknowledgements, and says so.
    pub fn leave(&mut self, now: Nanos) {
        self.flush(now);
        self.leave = Leave::Waiting { by: self.clock.local(now) + LEAVE_WITHIN };
    }

    /// The process is stopped: only its clock goes on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        let stats = self.core.stats();
        self.stale_before = (stats.stale, stats.stale_not_caught_up);
    }

    /// The process goes on. What has arrived is to be handled next, some of it at a time.
    pub fn go_on(&mut self) {
        self.is_stopped = false;
    }

    /// The next inputs that arrived while the node was stopped.
    pub fn backlog(&mut self) -> Vec<Input> {
        std::iter::from_fn(|| self.inbox.pop()).take(MAX_INPUTS_AT_ONCE).collect()
    }

    pub fn poll(&mut self) -> Option<Action> {
        self.core.poll()
    }

    /// When to wake the node, if that has not been planned yet.
    pub fn plan_wake(&mut self, now: Nanos) -> Option<Nanos> {
        if self.is_stopped {
            return None;
        }
        let leave_by = match self.leave {
            Leave::Waiting { by } => Some(by),
            _ => None,
        };
        let due = [self.core.deadline(), leave_by].into_iter().flatten().min()?;
        let at = self.clock.global(due).max(now).max(self.busy_until);
        if self.wake_at.is_some_and(|planned| planned <= at) {
            return None;
        }
        self.wake_at = Some(at);
        Some(at)
    }

    /// Whether a wake that was planned for now is still the one; it is used up.
    pub fn takes_wake(&mut self, now: Nanos) -> bool {
        self.wake_at.take_if(|at| *at == now).is_some()
    }

    fn step(&mut self, now: Nanos, call: impl FnOnce(&mut Core<Limits>, Nanos)) {
        let local = self.clock.local(now);
        self.core.host_mut().set_time(local);
        let began = self.cpu.map(|_| processor_time());
        call(&mut self.core, local);
        if let (Some(began), Some(cpu)) = (began, self.cpu) {
            let took = processor_time().saturating_sub(began);
            self.steps.longest = self.steps.longest.max(took);
            self.steps.total += took;
            let busy = (took.as_nanos() as f64 * cpu) as Nanos;
            self.busy_until = self.busy_until.max(now) + busy;
        }
        self.steps.calls += 1;
        let work = self.core.host_mut().take_work();
        self.steps.most_work = self.steps.most_work.max(work);
        self.follow_key(local);
    }

    /// Under another key to hash by all keys are other ones: no client asks for what the words owe.
    fn follow_key(&mut self, local: Nanos) {
        let hash_key = self.core.hash_key().to_bytes();
        if std::mem::replace(&mut self.hash_key, hash_key) != hash_key {
            let limits = Limits::new(&self.rules);
            limits.set_time(local);
            *self.core.host_mut() = limits;
            self.has_started_over = true;
        }
    }

    /// Whether what it has admitted is forgotten, since the last call.
    pub fn has_started_over(&mut self) -> bool {
        std::mem::take(&mut self.has_started_over)
    }
}

/// What this thread has taken of a processor: what else runs on the machine does not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
