//! What is admitted beyond an exact central bucket is at most what the admitting node could not
//! know.
//!
//! A node admits where its word has room, and its word contains all that others admitted but what
//! has not reached it. So at each admission the central bucket's debt exceeds its tolerance by at
//! most what *others* admitted within the lag: a flush interval and the longest way of a frame,
//! twice, because frames in flight are bounded and the next one waits for an acknowledgement.
//!
//! From the beginning of a fault other than a stop until [`RECOVERY`](crate::calm::RECOVERY) after
//! its end, sides may have received nothing from each other, and each may admit its own: the bound
//! is then all that others admitted since the fault began. In the end that is a burst and the rate
//! for each side. What no node sends after that (what has drained, or was lost in a crash) is
//! forgiven: the central bucket starts anew from the least word of the live nodes.
//!
//! A node that was stopped catches up with all others before it decides, so what it did not know
//! then ends with the stop. Only where it was stopped for less than half a second, or did not catch
//! up with them within its bound, all that they admitted since the stop began may be missing.
//! Others may not have received what it admitted itself since, until links are open again.
//!
//! To each bound comes a part of tau, by which agreement between nodes may lower a word, and what a
//! date may be wrong by: an idle key is charged that much too little.
//!
//! Nodes that receive from each other within half of tau split what is left of a scarce key. Where
//! the lag is no longer than that, and demand and words are even, they admit at most a twentieth of
//! tau beyond the bucket: without splitting it is a tenth and more.

use std::collections::BTreeMap;

use super::property::{Check, Findings};
use crate::calm::Calm;
use crate::report::Report;
use crate::rules::Rule;
use crate::time::{MS, Nanos, SECOND};
use crate::truth::Seen;
use crate::world::World;

/// The part of tau by which a word may be lowered: levels are halved, and are sent above a tenth.
const SLACK: u64 = 10;
/// The part of what was not received, one in this many, by which nodes that agree may lower their
/// words while they receive it.
const PART: u64 = 20;
/// The part of tau, one in this many, that nodes that split the room admit beyond the bucket.
const SPLIT: u64 = 20;
/// Timers are late by up to this.
const LATE: Nanos = MS;

#[derive(Default)]
pub struct OverAdmission {
    findings: Findings,
    keys: BTreeMap<(usize, u64), Sums>,
    lag: Nanos,
    /// By how much a date may be too early: one way is not half of both.
    dates: Nanos,
    taus: Vec<Nanos>,
    /// The most beyond the bucket while the cluster was calm at last, as a part of tau.
    calmest: f64,
    is_calm: bool,
    /// The key of even demand, and from when on its words are even too.
    even: (usize, u64),
    settled_at: Nanos,
    settled: f64,
    /// The most beyond the bucket and the slack then, as a part of what was not received.
    part: f64,
}

/// What was admitted by each node up to each admission.
#[derive(Default)]
struct Sums {
    own: Vec<Sum>,
}

#[derive(Clone, Default)]
struct Sum(Vec<(Nanos, Nanos)>);

impl Sum {
    fn total(&self) -> Nanos {
        self.0.last().map_or(0, |(_, sum)| *sum)
    }

    fn add(&mut self, at: Nanos, debt: Nanos) {
        self.0.push((at, self.total() + debt));
    }

    /// Since a time.
    fn since(&self, at: Nanos) -> Nanos {
        let before = self.0.partition_point(|(then, _)| *then < at);
        self.total() - before.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

impl Check for OverAdmission {
    fn name(&self) -> &'static str {
        "over_admission"
    }

    fn saw(&mut self, seen: &Seen, calm: &Calm) {
        if !seen.is_allowed {
            return;
        }
        let sums = self.keys.entry((seen.rule, seen.key)).or_default();
        if sums.own.len() <= seen.place {
            sums.own.resize(seen.place + 1, Sum::default());
        }
        sums.own[seen.place].add(seen.at, seen.debt);
        if seen.excess == 0 || self.taus.is_empty() {
            return;
        }
        let since = |of| calm.unreceived_since((seen.place, of), seen.at, self.lag);
        let others = sums.own.iter().enumerate().filter(|(of, _)| *of != seen.place);
        let unreceived: Nanos = others.map(|(of, own)| own.since(since(of))).sum();
        let tau = self.taus[seen.rule];
        if self.is_calm && seen.at >= self.settled_at && (seen.rule, seen.key) == self.even {
            self.settled = self.settled.max(seen.excess as f64 / tau as f64);
            if self.lag <= tau / 2 && seen.excess > tau / SPLIT {
                self.findings.add_at(seen.at, || {
                    let (excess, most) = (seen.excess / MS, tau / SPLIT / MS);
                    format!("{excess} ms beyond a bucket whose room is split, but at most {most}")
                });
            }
        }
        if self.is_calm {
            self.calmest = self.calmest.max(seen.excess as f64 / tau as f64);
            let beyond = seen.excess.saturating_sub(tau / SLACK) as f64;
            self.part = self.part.max(beyond / unreceived.max(1) as f64);
        }
        let bound = unreceived + unreceived / PART + tau / SLACK + self.dates;
        if seen.excess > bound {
            self.findings.add_at(seen.at, || {
                format!(
                    "node {} admitted of {}/{:x}, {} ms beyond the bucket, but at most {} ms were \
                     not received",
                    seen.place,
                    seen.rule,
                    seen.key,
                    seen.excess / MS,
                    bound / MS,
                )
            });
        }
    }

    fn sample(&mut self, world: &mut World) {
        let way = world.net.conditions().longest();
        self.lag = self.lag.max(2 * (world.setup().flush + world.thread_waits() + way) + LATE);
        let conditions = world.net.conditions();
        self.dates = self.dates.max(conditions.spread + conditions.jitter);
        self.taus = world.truth.rules().iter().map(Rule::tau).collect();
    }

    fn calm_begins(&mut self, world: &mut World) {
        self.lag = 0;
        self.is_calm = true;
        self.even = (0, crate::rules::key_bits(crate::rules::EVEN));
        self.settled_at = world.now() + 2 * SECOND;
        self.sample(world);
    }

    fn figures(&self, report: &mut Report) {
        report.share("worst_percent_of_burst_in_calm", 100.0 * self.calmest);
        report.share("worst_percent_settled", 100.0 * self.settled);
        report.share("worst_part_of_unreceived_in_calm", self.part);
    }

    fn findings(&self) -> &Findings {
        &self.findings
    }
}
