//! What a seed chooses: the cluster, its network, its clients and its faults.

use rand::{Rng, RngExt};

use crate::network::Conditions;
use crate::options::{Args, millis};
use crate::time::{MS, Nanos, SECOND};

/// Clocks are apart by up to an hour and drift by up to 1,000 ppm.
const SKEW: Nanos = 3_600 * SECOND;
const MAX_PPM: u64 = 1_000;
/// Faults come in this time, from the beginning of the load.
const CHAOS: (Nanos, Nanos) = (5 * SECOND, 9 * SECOND);
/// No fault lasts longer.
const MAX_FAULT: Nanos = 7 * SECOND;

/// Places at which nodes start later.
pub const NEW_PLACES: usize = 2;
/// How long a node that finds no other node waits before it serves, drawn from this.
const FOUND_AFTER: (Nanos, Nanos) = (SECOND / 5, 5 * SECOND);
/// How long batches are kept in some runs: shorter than faults, so that peers fall behind the log,
/// and nodes that join meet gaps.
const SHORT_LOG: (Nanos, Nanos) = (SECOND / 2, 3 * SECOND);

/// A fault, or its end.
#[derive(Clone, Debug)]
pub enum Fault {
    Cut(Vec<(usize, usize)>),
    Mend(Vec<(usize, usize)>),
    Stop(usize, Nanos),
    Crash(usize),
    /// At a place whose node has ended, or a new one.
    Start(usize),
    Leave(usize),
}

/// Keys of the backlog in some runs with short logs: less than a peer needs that is gone for long.
const SMALL_BACKLOG: (usize, usize) = (32, 512);

/// How long a thread waits for a processor, at most.
const MAX_THREAD_WAIT: Nanos = 30 * MS;

#[derive(Debug)]
pub struct Plan {
    pub nodes: usize,
    pub conditions: Conditions,
    pub flush: Nanos,
    pub found_after: Nanos,
    pub log_age: Option<Nanos>,
    /// Keys of the backlog.
    pub backlog: Option<usize>,
    pub skew: Nanos,
    pub ppm: u64,
    /// From the beginning of the load to the end of all faults.
    pub chaos: Nanos,
    pub faults: Vec<(Nanos, Fault)>,
    /// Demand on the hot key as a multiple of its limit.
    pub hot: f64,
    pub wander: Option<Nanos>,
    /// New keys a second at the first node.
    pub spray: Option<f64>,
    /// Between two entries of a ledger.
    pub enter_every: Nanos,
    /// The part of what is admitted that clients give back.
    pub gives_back: Option<f64>,
    /// The part of what is admitted whose key is reset.
    pub resets: Option<f64>,
    /// How long a thread waits between charging and recording, at most.
    pub thread_waits: Option<Nanos>,
    /// The quota of the hot key comes with each check, and is one of several.
    pub several_quotas: bool,
}

impl Plan {
    pub fn draw(args: &Args, rng: &mut impl Rng) -> Self {
        // Frames go from each to each: large clusters are rare.
        let drawn = match rng.random_range(0..10) {
            0 => rng.random_range(6..=8),
            1..4 => 2,
            _ => rng.random_range(3..=5),
        };
        let nodes = args.nodes.unwrap_or(drawn);
        let chaos = rng.random_range(CHAOS.0..=CHAOS.1);
        let mut plan = Self {
            nodes,
            conditions: conditions(rng),
            flush: millis(args.flush),
            found_after: rng.random_range(FOUND_AFTER.0..=FOUND_AFTER.1),
            log_age: rng.random_bool(0.2).then(|| rng.random_range(SHORT_LOG.0..=SHORT_LOG.1)),
            backlog: None,
            skew: SKEW,
            ppm: if rng.random_bool(0.2) { 0 } else { rng.random_range(0..=MAX_PPM) },
            chaos,
            faults: Vec::new(),
            hot: rng.random_range(0.3..3.0),
            wander: rng.random_bool(0.4).then(|| rng.random_range(100..1_000) * MS),
            spray: rng.random_bool(0.2).then(|| rng.random_range(500.0..4_000.0)),
            enter_every: rng.random_range(10..80) * MS,
            gives_back: None,
            resets: None,
            thread_waits: None,
            several_quotas: false,
        };
        // Some runs have no faults but those of the conditions.
        let faults = if rng.random_bool(0.15) { 0 } else { rng.random_range(1..=6) };
        for _ in 0..faults {
            plan.add_fault(rng);
        }
        plan.faults.sort_by_key(|(at, _)| *at);
        let backlog = rng.random_range(SMALL_BACKLOG.0..=SMALL_BACKLOG.1);
        plan.backlog = plan.log_age.and(Some(backlog)).filter(|_| rng.random_bool(0.5));
        plan.gives_back = rng.random_bool(0.4).then(|| rng.random_range(0.02..0.5));
        plan.thread_waits = rng.random_bool(0.3).then(|| rng.random_range(MS..MAX_THREAD_WAIT));
        plan.resets = rng.random_bool(0.2).then(|| rng.random_range(0.000_5..0.01));
        plan.several_quotas = rng.random_bool(0.25);
        plan
    }

    fn add_fault(&mut self, rng: &mut impl Rng) {
        let at = rng.random_range(0..self.chaos);
        // Half of them are short.
        let longest = if rng.random_bool(0.5) { SECOND } else { MAX_FAULT };
        let until = (at + rng.random_range(100 * MS..=longest)).min(self.chaos);
        let place = rng.random_range(0..self.nodes);
        let other = (place + rng.random_range(1..self.nodes.max(2))) % self.nodes;
        match rng.random_range(0..10) {
            0..5 => {
                let cuts = self.cuts(rng, place, other);
                self.faults.push((at, Fault::Cut(cuts.clone())));
                self.faults.push((until, Fault::Mend(cuts)));
            }
            5 | 6 => self.faults.push((at, Fault::Stop(place, until - at))),
            7 => {
                self.faults.push((at, Fault::Crash(place)));
                if rng.random_bool(0.7) {
                    self.faults.push((until, Fault::Start(place)));
                }
            }
            8 => self.add_start(rng, at, until),
            _ => {
                self.faults.push((at, Fault::Leave(place)));
                if rng.random_bool(0.5) {
                    self.faults.push((until, Fault::Start(place)));
                }
            }
        }
    }

    /// A node starts at a new place: half of them find no other node at first, and admit alone once
    /// they have waited for long enough.
    fn add_start(&mut self, rng: &mut impl Rng, at: Nanos, until: Nanos) {
        let new = self.nodes + rng.random_range(0..NEW_PLACES);
        if rng.random_bool(0.5) {
            let others = (0..self.nodes + NEW_PLACES).filter(|other| *other != new);
            let cuts: Vec<_> = others.flat_map(|other| [(new, other), (other, new)]).collect();
            self.faults.push((at, Fault::Cut(cuts.clone())));
            self.faults.push((until, Fault::Mend(cuts)));
        }
        self.faults.push((at, Fault::Start(new)));
    }

    /// One direction, one link, one node, or a split of all.
    fn cuts(&self, rng: &mut impl Rng, place: usize, other: usize) -> Vec<(usize, usize)> {
        let all = 0..self.nodes + NEW_PLACES;
        let pairs = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
        let pairs = pairs.filter(|(a, b)| a != b);
        match rng.random_range(0..4) {
            0 => vec![(place, other)],
            1 => vec![(place, other), (other, place)],
            2 => pairs.filter(|(a, b)| *a == place || *b == place).collect(),
            _ => {
                let side: Vec<bool> = all.clone().map(|_| rng.random_bool(0.5)).collect();
                pairs.filter(|(a, b)| side[*a] != side[*b]).collect()
            }
        }
    }
}

fn conditions(rng: &mut impl Rng) -> Conditions {
    let delay = match rng.random_range(0..4) {
        0 => rng.random_range(50_000..MS),
        1 | 2 => rng.random_range(MS..10 * MS),
        _ => rng.random_range(10 * MS..40 * MS),
    };
    Conditions {
        delay,
        jitter: rng.random_range(0..=delay),
        spread: if rng.random_bool(0.5) { 0 } else { rng.random_range(0..=delay) },
        loss: if rng.random_bool(0.3) { 0.0 } else { rng.random_range(0.0..0.05) },
        doubled: rng.random_range(0.0..0.1),
        mend: (10 * MS, rng.random_range(20 * MS..200 * MS)),
    }
}
