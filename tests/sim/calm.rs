//! When the cluster was last disturbed, and whether it has had the time to recover.

use std::collections::BTreeMap;

use crate::network::MAX_BACKOFF;
use crate::time::{Nanos, SECOND};

/// After the last fault: links that were silent close within the idle timeout, a dial that failed
/// is repeated within its longest delay, and states are taken over.
pub const RECOVERY: Nanos = 15 * SECOND;

/// What disturbs: partitions, stops, starts and ends of nodes.
#[derive(Clone, Debug, Default)]
pub struct Calm {
    ongoing: u32,
    /// Faults that are no stops: any node may receive nothing from any other.
    others: Faults,
    /// The last stop of each place.
    stops: BTreeMap<usize, Stop>,
    /// When the last fault ended.
    pub healed: Nanos,
    /// When a node started last, or started over.
    started: Option<Nanos>,
    /// When all that waited in a partition has arrived that others may receive first of a node.
    pub known_by: Nanos,
}

/// Faults that follow each other.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    ongoing: u32,
    /// When the first of those began that may not be over for all nodes.
    began: Nanos,
    healed: Nanos,
    has_begun: bool,
}

/// A node was stopped.
#[derive(Clone, Copy, Debug)]
struct Stop {
    /// Since when others may have received nothing from it.
    silent_since: Nanos,
    /// Since when it may have received nothing from others.
    behind_since: Option<Nanos>,
    /// When it went on.
    ended: Option<Nanos>,
}

impl Faults {
    fn begin(&mut self, now: Nanos) {
        if self.is_calm(now) || !self.has_begun {
            self.began = now;
            self.has_begun = true;
        }
        self.ongoing += 1;
    }

    fn end(&mut self, now: Nanos) {
        self.ongoing = self.ongoing.saturating_sub(1);
        self.healed = now;
    }

    fn is_calm(&self, now: Nanos) -> bool {
        self.ongoing == 0 && (!self.has_begun || now >= self.healed + RECOVERY)
    }
}

impl Calm {
    /// A fault begins that is not a stop.
    pub fn begin(&mut self, now: Nanos) {
        self.ongoing += 1;
        self.others.begin(now);
    }

    pub fn end(&mut self, now: Nanos) {
        self.ongoing = self.ongoing.saturating_sub(1);
        self.others.end(now);
        self.healed = now;
        if self.started.is_some_and(|at| now < at + RECOVERY) {
            self.known_by = now + MAX_BACKOFF;
        }
    }

    /// A node has started, or started over.
    pub fn start(&mut self, now: Nanos) {
        self.started = Some(now);
    }

    /// A fault without duration.
    pub fn moment(&mut self, now: Nanos) {
        self.begin(now);
        self.end(now);
    }

    /// A node is stopped.
    pub fn stop(&mut self, now: Nanos, place: usize) {
        self.ongoing += 1;
        let before = self.stops.get(&place).filter(|stop| !stop.is_over(now));
        let silent_since = before.map_or(now, |stop| stop.silent_since);
        let behind_since = Some(before.and_then(|stop| stop.behind_since).unwrap_or(now));
        self.stops.insert(place, Stop { silent_since, behind_since, ended: None });
    }

    /// It goes on.
    pub fn go_on(&mut self, now: Nanos, place: usize) {
        self.ongoing = self.ongoing.saturating_sub(1);
        self.healed = now;
        if let Some(stop) = self.stops.get_mut(&place) {
            stop.ended = Some(now);
        }
    }

    /// Whether a node was stopped and may have received nothing from others since.
    pub fn is_behind(&self, place: usize) -> bool {
        self.stops.get(&place).is_some_and(|stop| stop.behind_since.is_some())
    }

    /// It has caught up with all others since it went on.
    pub fn caught_up(&mut self, place: usize) {
        if let Some(stop) = self.stops.get_mut(&place) {
            stop.behind_since = None;
        }
    }

    pub fn is_ongoing(&self) -> bool {
        self.ongoing > 0
    }

    /// Since when a node may have received nothing from another, if not for `lag` as always.
    pub fn unreceived_since(&self, (at, of): (usize, usize), now: Nanos, lag: Nanos) -> Nanos {
        let stop = |place| self.stops.get(&place).filter(|stop: &&Stop| !stop.is_over(now));
        let silent = stop(of).map(|stop| stop.silent_since);
        let behind = stop(at).and_then(|stop| stop.behind_since);
        let others = (!self.others.is_calm(now)).then_some(self.others.began);
        let began = [silent, behind, others].into_iter().flatten().min();
        began.unwrap_or(now).min(now).saturating_sub(lag)
    }
}

impl Stop {
    fn is_over(&self, now: Nanos) -> bool {
        self.ended.is_some_and(|ended| now >= ended + RECOVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: (usize, usize) = (0, 1);

    #[test]
    fn faults_that_follow_each_other_are_one() {
        let mut calm = Calm::default();
        assert_eq!(calm.unreceived_since(PAIR, 9 * SECOND, SECOND), 8 * SECOND);
        calm.moment(10 * SECOND);
        calm.begin(20 * SECOND);
        calm.end(40 * SECOND);
        assert_eq!(calm.unreceived_since(PAIR, 54 * SECOND, SECOND), 9 * SECOND);
        let is_calm = |at| calm.others.is_calm(at * SECOND);
        assert!(!is_calm(54) && is_calm(55));
        calm.moment(60 * SECOND);
        assert_eq!(calm.unreceived_since(PAIR, 61 * SECOND, SECOND), 59 * SECOND);
    }

    #[test]
    fn a_stopped_node_receives_nothing_and_nothing_is_received_from_it() {
        let mut calm = Calm::default();
        calm.stop(10 * SECOND, 1);
        calm.go_on(20 * SECOND, 1);
        let since = |calm: &Calm, pair| calm.unreceived_since(pair, 21 * SECOND, SECOND);
        assert_eq!([(0, 1), (1, 0)].map(|pair| since(&calm, pair)), [9 * SECOND; 2]);
        assert_eq!(since(&calm, (0, 2)), 20 * SECOND);
        calm.caught_up(1);
        assert!(!calm.is_behind(1));
        assert_eq!([(0, 1), (1, 0)].map(|pair| since(&calm, pair)), [9 * SECOND, 20 * SECOND]);
        assert_eq!(calm.unreceived_since((0, 1), 35 * SECOND, SECOND), 34 * SECOND);
    }
}
