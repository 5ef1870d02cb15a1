//! Counts of decisions, by limit and front-end.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tidegate_engine::Decision;

/// The decisions of a node.
pub type Decisions = Family<DecisionLabels, Counter>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEndName {
    Resp,
    Http,
}

impl FrontEndName {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Http => "http",
        }
    }
}

/// Decisions that are counted together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    allowed: u64,
    denied: u64,
    peeked: u64,
}

impl Tally {
    /// One decision.
    #[inline]
    pub fn of(decision: &Decision, cost: u64) -> Self {
        let mut tally = Self::default();
        tally.count(decision, cost);
        tally
    }

    #[inline]
    pub fn count(&mut self, decision: &Decision, cost: u64) {
        let counter = if cost == 0 {
            &mut self.peeked
        } else if decision.is_allowed() {
            &mut self.allowed
        } else {
            &mut self.denied
        };
        *counter += 1;
    }
}

/// Counts the decisions of one front-end. All of its connections write it, and with a batch of
/// checks only once.
#[derive(Debug)]
pub struct Meter {
    /// By the indexes of limits in the service.
    limits: Box<[LimitMeter]>,
}

#[derive(Debug)]
struct LimitMeter {
    allowed: Counter,
    denied: Counter,
    peeked: Counter,
}

impl Meter {
    pub fn new<'a>(
        decisions: &Decisions,
        front_end: FrontEndName,
        limits: impl Iterator<Item = &'a str>,
    ) -> Self {
        let limits = limits.map(|limit| {
            let counter = |outcome| {
                let limit = limit.to_owned();
                let labels = DecisionLabels { limit, frontend: front_end.label(), outcome };
                decisions.get_or_create_owned(&labels)
            };
            LimitMeter {
                allowed: counter("allowed"),
                denied: counter("denied"),
                peeked: counter("peeked"),
            }
        });
        Self { limits: limits.collect() }
    }

    /// Counts decisions by the limit of this index.
    #[inline]
    pub fn count(&self, limit: usize, tally: &Tally) {
        let LimitMeter { allowed, denied, peeked } = &self.limits[limit];
        for (counter, count) in
            [(allowed, tally.allowed), (denied, tally.denied), (peeked, tally.peeked)]
        {
            if count > 0 {
                counter.inc_by(count);
            }
        }
    }

    /// How many checks were allowed, and how many denied, by all limits.
    pub fn decisions(&self) -> (u64, u64) {
        let sum = |counter: fn(&LimitMeter) -> &Counter| {
            self.limits.iter().map(|limit| counter(limit).get()).sum()
        };
        (sum(|limit| &limit.allowed), sum(|limit| &limit.denied))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DecisionLabels {
    limit: String,
    frontend: &'static str,
    outcome: &'static str,
}
