//! Faults, then a healed network: every origin's debt is on every live node exactly once, and views
//! converge.

use std::collections::BTreeMap;
use std::hash::Hasher;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::network::MS;
use super::world::{Node, World, addr};
use crate::member::MemberState;
use crate::protocol::{Nanos, Options};

const SECOND: Nanos = 1_000 * MS;
/// Words start here, 13 days ahead: they never drain, so debt adds up exactly.
const FLOOR: Nanos = 1 << 50;
/// The start that founds the cluster.
const FOUNDER: u32 = 1;
/// The limit all nodes share; each start of a node also has a limit of its own.
const SHARED: u64 = 0;

#[derive(Debug)]
struct Plan {
    nodes: usize,
    loss: f64,
    doubled: f64,
    slowest: Nanos,
    cut_every: Nanos,
    partition_every: Nanos,
    late_joiner_at: Nanos,
    crashes: bool,
    chaos: Nanos,
    keys: u64,
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Self {
            nodes: rng.random_range(2..=5),
            loss: rng.random_range(0.0..0.3),
            doubled: rng.random_range(0.0..0.2),
            slowest: rng.random_range(MS..=60 * MS),
            cut_every: rng.random_range(100 * MS..2_000 * MS),
            partition_every: rng.random_range(2 * SECOND..10 * SECOND),
            late_joiner_at: rng.random_range(SECOND..15 * SECOND),
            crashes: rng.random_bool(0.5),
            chaos: 20 * SECOND,
            keys: if rng.random_bool(0.2) { 5_000 } else { 40 },
        }
    }
}

/// What each start of a node has admitted, by limit and key.
type Admitted = BTreeMap<(u64, u64), Nanos>;

struct Run {
    plan: Plan,
    world: World,
    admitted: Admitted,
    /// The starts that have ended in a crash: what they had not sent is lost.
    crashed: Vec<u64>,
    /// Gaps that each node met before anything was admitted.
    met: Vec<u64>,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self::of(seed, Plan::draw(seed))
    }

    fn of(seed: u64, plan: Plan) -> Self {
        Self::with(seed, plan, Options::default())
    }

    fn with(seed: u64, plan: Plan, options: Options) -> Self {
        println!("seed {seed}: {plan:?}");
        let net = (plan.loss, plan.doubled, plan.slowest);
        let mut world = World::new(seed, FLOOR, options, net);
        world.start(0, &[]);
        for place in 1..plan.nodes {
            world.start(place, &[0]);
        }
        Self { plan, world, admitted: Admitted::new(), crashed: Vec::new(), met: Vec::new() }
    }

    fn chaos(&mut self) {
        let end = self.plan.chaos;
        let (mut cut, mut partition) = (0, self.plan.partition_every);
        let mut crash = self.plan.chaos / 3;
        let mut late = Some(self.plan.late_joiner_at);
        while self.world.now() < end {
            let pause = self.world.rng.random_range(MS..20 * MS);
            let now = self.world.now() + pause;
            self.world.run(now);
            self.admit_some();
            if now >= cut {
                cut = now + self.plan.cut_every;
                self.world.net.cut_some(now);
            }
            if now >= partition {
                partition = now + self.plan.partition_every;
                self.partition_or_heal(now);
            }
            if late.take_if(|at| *at <= now).is_some() {
                let place = self.world.nodes.len();
                let seed = self.any();
                self.world.start(place, &[seed]);
            }
            if self.plan.crashes && now >= crash {
                crash = now + self.plan.chaos / 3;
                self.crash_or_restart();
            }
        }
    }

    fn any(&mut self) -> usize {
        let live = self.world.live();
        live[self.world.rng.random_range(0..live.len())]
    }

    fn admit_some(&mut self) {
        let place = self.any();
        let life = u64::from(self.world.node(place).life);
        // With crashes, only what one origin admits can be compared.
        let limits = if self.plan.crashes { vec![life] } else { vec![life, SHARED] };
        for limit in limits {
            for _ in 0..(self.plan.keys / 20).min(60) {
                let key = self.world.rng.random_range(0..self.plan.keys);
                let debt = self.world.rng.random_range(1..1_000_000);
                self.world.admit(place, limit, key, debt);
                *self.admitted.entry((limit, key)).or_default() += debt;
            }
        }
    }

    fn partition_or_heal(&mut self, now: Nanos) {
        if self.world.rng.random_bool(0.5) {
            self.world.net.heal();
        } else {
            let (a, b) = (self.any(), self.any());
            self.world.net.partition(now, a, b);
        }
    }

    fn crash_or_restart(&mut self) {
        let down = (0..self.world.nodes.len()).find(|place| self.world.nodes[*place].is_none());
        if let Some(place) = down {
            let seed = self.any();
            self.world.start(place, &[seed]);
        } else if self.world.live().len() > 1 {
            let place = self.any();
            self.crashed.push(u64::from(self.world.node(place).life));
            self.world.crash(place);
        }
    }

    fn peace(&mut self) {
        self.world.net.heal();
        self.world.net.calm();
        self.world.run(self.plan.chaos + 60 * SECOND);
    }

    /// Whether another node may have announced a gap to this one.
    ///
    /// It takes a founder that has never taken over a state, and a crash, for example (seed 130): A
    /// late joiner is cut off from its only seed before it has the seed's state. A node restarts
    /// and knows only the late joiner, so the two join each other, as two joining nodes do that
    /// find no other. The others still dial the restarted node's address; it dials them in turn,
    /// and the founder's `Resume` is fresh. The restarted node does not know that founder: all
    /// others may descend from it, or it may be a new generation that lost its state and needs more
    /// than the log holds. So the restarted node gives its whole state, and the two histories are
    /// joined by maximum. Only the founder is fresh, and without crashes every joining node
    /// descends from it.
    fn may_meet_strangers(&self, node: &Node) -> bool {
        self.plan.crashes && node.life == FOUNDER
    }

    fn check_words(&self) {
        for place in self.world.live() {
            let node = self.world.node(place);
            let stats = node.core.stats();
            let met = self.met.get(place).copied().unwrap_or(0);
            assert!(stats.gaps == met || self.may_meet_strangers(node), "node {place}: {stats:?}");
            assert_eq!(stats.violations, 0, "node {place}: {stats:?}");
            // Deltas for a node that is down wait for it.
            assert!(stats.pending_keys == 0 || self.plan.crashes, "node {place}: {stats:?}");
            for (&(limit, key), &admitted) in &self.admitted {
                let applied = self.world.tat(place, limit, key) - FLOOR;
                if self.crashed.contains(&limit) {
                    assert!(applied <= admitted, "node {place}, {limit}/{key}: too much");
                } else {
                    assert_eq!(applied, admitted, "node {place}, limit {limit}, key {key}");
                }
            }
        }
    }

    fn check_views(&self) {
        let live = self.world.live();
        for place in &live {
            let members = self.world.node(*place).core.members();
            for other in 0..self.world.nodes.len() {
                let seen = members.iter().find(|member| member.addr == addr(other));
                let expected =
                    if live.contains(&other) { MemberState::Alive } else { MemberState::Down };
                // A node that started after a crash may not know the crashed node.
                let state = seen.map_or(MemberState::Down, |member| member.state);
                assert_eq!(state, expected, "node {place} on {other}: {members:?}");
            }
        }
    }

    fn check_silence(&mut self) {
        let sent = |world: &World| -> Vec<u64> {
            world.live().iter().map(|place| world.node(*place).core.stats().frames_sent).collect()
        };
        let before = sent(&self.world);
        self.world.run(self.world.now() + 10 * SECOND);
        assert_eq!(before, sent(&self.world), "frames were sent with nothing unsent");
    }
}

#[test]
fn every_debt_is_applied_exactly_once_at_every_live_node() {
    // More of them on demand: `TIDEGATE_SIM_SEEDS=1000`.
    let seeds = std::env::var("TIDEGATE_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(24) {
        let mut run = Run::new(seed);
        run.chaos();
        run.peace();
        run.check_words();
        run.check_views();
        run.check_silence();
    }
}

/// A log so short that every cut leaves peers behind it, which are sent the backlog.
#[test]
fn peers_behind_the_log_are_sent_what_they_missed_once() {
    let (mut behind, mut parts) = (0, 0);
    for seed in 0..12 {
        let plan = Plan { crashes: false, late_joiner_at: Nanos::MAX, ..Plan::draw(seed) };
        let mut run = Run::with(seed, plan, Options { log_age: 30 * MS, ..Options::default() });
        // All have joined before anything is admitted. A node that joins receives that there is
        // nothing, and a log that is so short forgets even that.
        run.world.run(10 * SECOND);
        run.met = run.world.nodes.iter().flatten().map(|node| node.core.stats().gaps).collect();
        run.plan.chaos += 10 * SECOND;
        run.chaos();
        let stats = |run: &Run| {
            run.world.nodes.iter().flatten().map(|node| node.core.stats()).collect::<Vec<_>>()
        };
        behind += stats(&run).iter().map(|stats| stats.pending_keys).sum::<u64>();
        run.peace();
        run.check_words();
        run.check_silence();
        parts += stats(&run).iter().map(|stats| stats.parts_received).sum::<u64>();
    }
    assert!(behind > 0 && parts > 0, "no peer was behind the log");
}

/// Answers arrive after their request was given up, and joining nodes stop waiting for those that
/// know more. Where histories meet then, they are joined by maximum; elsewhere nothing is applied
/// twice.
#[test]
fn a_slow_node_is_no_violation() {
    for seed in 0..24 {
        let mut run = Run::of(seed, Plan { slowest: (2 + seed % 7) * SECOND, ..Plan::draw(seed) });
        run.chaos();
        run.peace();
        let nodes = || run.world.nodes.iter().flatten();
        let stats: Vec<_> = nodes().map(|node| node.core.stats()).collect();
        assert!(stats.iter().all(|stats| stats.violations == 0), "{stats:?}");
        // Without crashes no node loses its only seed.
        let joined = nodes().all(|node| node.core.has_joined());
        assert!(joined || run.plan.crashes, "{stats:?}");
        if stats.iter().any(|stats| stats.gaps > 0) {
            continue;
        }
        for place in run.world.live() {
            for (&(limit, key), &admitted) in &run.admitted {
                let applied = run.world.tat(place, limit, key) - FLOOR;
                assert!(applied <= admitted, "node {place}, {limit}/{key}: too much");
            }
        }
    }
}

#[test]
fn the_same_seed_does_the_same() {
    let trace = || {
        let mut run = Run::new(7);
        run.chaos();
        run.world.trace.finish()
    };
    assert_eq!(trace(), trace());
}
