//! Even demand of twice the limit is admitted evenly: after the cluster has recovered, each node
//! has its part of the hot key.

use super::property::{Check, Findings};
use crate::calm::Calm;
use crate::report::Report;
use crate::time::{Nanos, SECOND};
use crate::truth::Seen;
use crate::world::World;

/// The least and the largest part of a node; 1 is even.
const LEAST: f64 = 0.8;
const MOST: f64 = 1.2;
/// After the load has begun, words may still be uneven for this long.
const SETTLING: Nanos = 2 * SECOND;
/// The limit and the key of the even demand.
const RULE: usize = 0;

#[derive(Default)]
pub struct Share {
    findings: Findings,
    from: Option<Nanos>,
    key: u64,
    admitted: Vec<Nanos>,
    shares: Vec<f64>,
    /// What all admitted, as a part of the limit.
    total: f64,
}

impl Share {
    /// Of this key.
    fn counts(&self, seen: &Seen) -> bool {
        let is_time = self.from.is_some_and(|from| seen.at >= from);
        is_time && seen.is_allowed && (seen.rule, seen.key) == (RULE, self.key)
    }
}

impl Check for Share {
    fn name(&self) -> &'static str {
        "share"
    }

    fn saw(&mut self, seen: &Seen, _: &Calm) {
        if self.counts(seen) {
            self.admitted[seen.place] += seen.debt;
        }
    }

    fn calm_begins(&mut self, world: &mut World) {
        self.from = Some(world.now() + SETTLING);
        self.key = crate::rules::key_bits(crate::rules::EVEN);
        self.admitted = vec![0; world.places()];
    }

    fn calm_ends(&mut self, world: &mut World) {
        let from = self.from.take();
        let live = world.live();
        let total: Nanos = self.admitted.iter().sum();
        let even = total as f64 / live.len().max(1) as f64;
        let share = |place: &usize| self.admitted[*place] as f64 / even.max(1.0);
        let shares: Vec<f64> = live.iter().map(share).collect();
        if shares.iter().any(|share| !(LEAST..=MOST).contains(share)) {
            self.findings.add(|| format!("the live nodes {live:?} have {shares:.2?}"));
        }
        self.shares = shares;
        let time = world.now() - from.unwrap_or(0);
        self.total = total as f64 / time.max(1) as f64;
    }

    fn figures(&self, report: &mut Report) {
        report.share("share_least", self.shares.iter().copied().fold(f64::INFINITY, f64::min));
        report.share("total_in_calm", self.total);
        report.share("share_most", self.shares.iter().copied().fold(0.0, f64::max));
    }

    fn findings(&self) -> &Findings {
        &self.findings
    }
}
