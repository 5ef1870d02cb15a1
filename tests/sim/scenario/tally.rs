//! Counts what nodes admit and deny.

use crate::calm::Calm;
use crate::time::Nanos;
use crate::truth::Seen;
use crate::world::Watch;

/// Counts of one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Debt admitted.
    pub admitted: Nanos,
    /// Of that, since this scenario's `settled_at`.
    pub settled: Nanos,
    pub allowed: u64,
    pub denied: u64,
    /// Denied later than this scenario's `late_at`.
    pub denied_late: u64,
    pub last_denial: Nanos,
    /// The longest time without an admission that ended with a check.
    pub dark: Nanos,
    last_allowed: Nanos,
}

/// Counts since the last reset.
#[derive(Debug, Default)]
pub struct Tally {
    pub counts: Vec<Count>,
    /// The most debt beyond the central bucket.
    pub worst: Nanos,
    /// Debt that a central limiter would have refused of what was admitted.
    pub beyond: Nanos,
    /// From when on a denial is late.
    pub late_at: Nanos,
    /// From when on nodes' parts are compared.
    pub settled_at: Nanos,
}

impl Tally {
    /// Counts from now on only.
    pub fn reset(&mut self, now: Nanos) {
        self.counts.fill(Count { last_allowed: now, ..Count::default() });
        (self.worst, self.beyond) = (0, 0);
        self.late_at = Nanos::MAX;
        self.settled_at = now;
    }

    pub fn admitted(&self) -> Nanos {
        self.counts.iter().map(|count| count.admitted).sum()
    }

    pub fn denied(&self) -> u64 {
        self.counts.iter().map(|count| count.denied).sum()
    }

    pub fn denied_late(&self) -> u64 {
        self.counts.iter().map(|count| count.denied_late).sum()
    }

    /// The least and the largest part of a node in what was admitted since `settled_at`; 1 is an
    /// even one.
    pub fn shares(&self) -> (f64, f64) {
        let all: Nanos = self.counts.iter().map(|count| count.settled).sum();
        let even = all as f64 / self.counts.len().max(1) as f64;
        let shares = self.counts.iter().map(|count| count.settled as f64 / even.max(1.0));
        shares
            .fold((f64::INFINITY, 0.0), |(least, most), share| (least.min(share), most.max(share)))
    }
}

impl Watch for Tally {
    fn saw(&mut self, seen: &Seen, _: &Calm) {
        if self.counts.len() <= seen.place {
            self.counts.resize(seen.place + 1, Count { last_allowed: seen.at, ..Count::default() });
        }
        let count = &mut self.counts[seen.place];
        count.dark = count.dark.max(seen.at - count.last_allowed);
        if seen.is_allowed {
            count.admitted += seen.debt;
            count.settled += if seen.at >= self.settled_at { seen.debt } else { 0 };
            count.allowed += 1;
            count.last_allowed = seen.at;
            self.worst = self.worst.max(seen.excess);
            self.beyond += seen.refused;
        } else {
            count.denied += 1;
            count.denied_late += u64::from(seen.at >= self.late_at);
            count.last_denial = seen.at;
        }
    }
}
