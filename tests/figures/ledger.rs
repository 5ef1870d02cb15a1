//! What clients of all nodes were answered, on one clock, and what follows from it.

use std::ops::Range;

use crate::quota::Quota;

pub const SECOND: u64 = 1_000_000_000;

/// Answers that one read brought to requests of one write, in nanoseconds of the clock of all
/// clients.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub sent: u64,
    pub seen: u64,
    pub allowed: u32,
    pub denied: u32,
}

/// The answers of all nodes.
#[derive(Debug)]
pub struct Ledger {
    /// Of each node, by time.
    nodes: Vec<Vec<Event>>,
}

impl Ledger {
    pub const fn new(nodes: Vec<Vec<Event>>) -> Self {
        Self { nodes }
    }

    /// When the first request was sent.
    pub fn began(&self) -> u64 {
        self.nodes.iter().filter_map(|events| events.first()).map(|e| e.sent).min().unwrap_or(0)
    }

    /// When the last answer was seen.
    pub fn ended(&self) -> u64 {
        self.nodes.iter().filter_map(|events| events.last()).map(|e| e.seen).max().unwrap_or(0)
    }

    pub fn allowed(&self, node: usize, time: &Range<u64>) -> u64 {
        self.of(node, time).map(|event| u64::from(event.allowed)).sum()
    }

    pub fn denied(&self, node: usize, time: &Range<u64>) -> u64 {
        self.of(node, time).map(|event| u64::from(event.denied)).sum()
    }

    pub fn all_allowed(&self, time: &Range<u64>) -> u64 {
        (0..self.nodes.len()).map(|node| self.allowed(node, time)).sum()
    }

    pub fn all_denied(&self, time: &Range<u64>) -> u64 {
        (0..self.nodes.len()).map(|node| self.denied(node, time)).sum()
    }

    pub fn checks(&self, time: &Range<u64>) -> u64 {
        self.all_allowed(time) + self.all_denied(time)
    }

    /// When the last denial was seen.
    pub fn last_denial(&self, time: &Range<u64>) -> Option<u64> {
        let all = (0..self.nodes.len()).flat_map(|node| self.of(node, time));
        all.filter(|event| event.denied > 0).map(|event| event.seen).max()
    }

    /// The least and the largest part of a node of these in what they admitted; 1 is an even one.
    pub fn shares(&self, nodes: &[usize], time: &Range<u64>) -> (f64, f64) {
        let parts: Vec<f64> = nodes.iter().map(|node| self.allowed(*node, time) as f64).collect();
        let even = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
        let shares = parts.iter().map(|part| part / even.max(1.0));
        shares.fold((f64::INFINITY, 0.0), |(least, most), part| (least.min(part), most.max(part)))
    }

    /// How far what was admitted exceeds what the limit grants from the first request to the last
    /// answer, in percent of that.
    pub fn total_error_percent(&self, quota: Quota) -> f64 {
        let time = self.began()..self.ended() + 1;
        let granted = quota.burst as f64
            + quota.rate as f64 * (self.ended() - self.began()) as f64 / SECOND as f64;
        100.0 * (self.all_allowed(&time) as f64 / granted - 1.0)
    }

    /// The most units by which a central bucket, fed with all that was admitted, was ever beyond
    /// its burst, looked at in `time` only. An admission counts when its answer is seen.
    pub fn worst(&self, quota: Quota, time: &Range<u64>) -> f64 {
        let mut all: Vec<&Event> = self.nodes.iter().flatten().collect();
        all.sort_by_key(|event| event.seen);
        let (mut level, mut last, mut worst) = (0.0, self.began(), 0.0_f64);
        for event in all {
            let drained = quota.rate as f64 * event.seen.saturating_sub(last) as f64;
            level = f64::max(0.0, level - drained / SECOND as f64) + f64::from(event.allowed);
            last = event.seen;
            if time.contains(&event.seen) {
                worst = worst.max(level - quota.burst as f64);
            }
        }
        worst
    }

    /// The same as far as it is certain, at whatever moment between request and answer each
    /// admission was decided: it counts in a span of time in which both lie. So a client or a
    /// network that is held up adds nothing.
    ///
    /// A span from `s` to `t` has what was answered by `t` less what was asked before `s`.
    pub fn worst_certain(&self, quota: Quota, time: &Range<u64>) -> f64 {
        let all = || self.nodes.iter().flatten();
        let sent = all().map(|event| (event.sent, false, event.allowed));
        let seen = all().map(|event| (event.seen, true, event.allowed));
        let mut both: Vec<_> = sent.chain(seen).collect();
        both.sort_unstable();
        let began = self.began();
        let (mut asked, mut answered, mut least, mut worst) = (0.0, 0.0, 0.0_f64, 0.0_f64);
        for (at, is_seen, allowed) in both {
            let granted = quota.rate as f64 * (at - began) as f64 / SECOND as f64;
            if !is_seen {
                least = least.min(asked - granted);
                asked += f64::from(allowed);
                continue;
            }
            answered += f64::from(allowed);
            if time.contains(&at) {
                worst = worst.max(answered - granted - least - quota.burst as f64);
            }
        }
        worst
    }

    /// The units that a central bucket would have refused of what was admitted.
    pub fn refused(&self, quota: Quota) -> f64 {
        let mut all: Vec<&Event> = self.nodes.iter().flatten().collect();
        all.sort_by_key(|event| event.seen);
        let (mut level, mut last, mut refused) = (0.0, self.began(), 0.0);
        for event in all {
            let drained = quota.rate as f64 * event.seen.saturating_sub(last) as f64;
            level = f64::max(0.0, level - drained / SECOND as f64) + f64::from(event.allowed);
            last = event.seen;
            let beyond = f64::max(0.0, level - quota.burst as f64);
            (level, refused) = (level - beyond, refused + beyond);
        }
        refused
    }

    /// The highest that a central bucket would ever have been, in percent of its burst, if all that
    /// was asked for in `time` had been admitted: below 100 the load exceeds nothing.
    pub fn demand_percent(&self, quota: Quota, time: &Range<u64>) -> f64 {
        let all = (0..self.nodes.len()).flat_map(|node| self.of(node, time));
        let mut all: Vec<(u64, u32)> =
            all.map(|event| (event.sent, event.allowed + event.denied)).collect();
        all.sort_unstable();
        let (mut level, mut last, mut most) = (0.0, time.start, 0.0_f64);
        for (sent, count) in all {
            let drained = quota.rate as f64 * sent.saturating_sub(last) as f64;
            level = f64::max(0.0, level - drained / SECOND as f64) + f64::from(count);
            last = sent;
            most = most.max(level);
        }
        100.0 * most / quota.burst as f64
    }

    /// The time from request to answer that this part of the answers of these nodes did not exceed,
    /// in milliseconds.
    pub fn latency_ms(&self, part: f64, nodes: &[usize], time: &Range<u64>) -> f64 {
        let all = nodes.iter().flat_map(|node| self.of(*node, time));
        let mut all: Vec<(u64, u64)> = all
            .map(|event| (event.seen - event.sent, u64::from(event.allowed + event.denied)))
            .collect();
        all.sort_unstable();
        let mut left = part * all.iter().map(|(_, count)| count).sum::<u64>() as f64;
        for (took, count) in &all {
            left -= *count as f64;
            if left <= 0.0 {
                return *took as f64 / 1e6;
            }
        }
        0.0
    }

    /// The longest time in which a node that was asked admitted nothing, in milliseconds.
    pub fn longest_dark_ms(&self, time: &Range<u64>) -> f64 {
        let of_node = |node| {
            let (mut last, mut longest) = (time.start, 0);
            for event in self.of(node, time) {
                longest = longest.max(event.seen.saturating_sub(last));
                last = if event.allowed > 0 { event.seen } else { last };
            }
            longest
        };
        (0..self.nodes.len()).map(of_node).max().unwrap_or(0) as f64 / 1e6
    }

    /// The answers that were seen in `time`.
    fn of(&self, node: usize, time: &Range<u64>) -> impl Iterator<Item = &Event> {
        let (start, end) = (time.start, time.end);
        let events = self.nodes.get(node).map_or(&[][..], Vec::as_slice);
        let first = events.partition_point(|event| event.seen < start);
        events[first..].iter().take_while(move |event| event.seen < end)
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Ledger, SECOND};
    use crate::quota::Quota;

    const QUOTA: Quota = Quota { rate: 1_000, burst: 100 };

    fn event(seen: u64, allowed: u32, denied: u32) -> Event {
        Event { sent: seen - 1_000_000, seen, allowed, denied }
    }

    fn ledger() -> Ledger {
        let one = vec![event(SECOND, 100, 0), event(SECOND + 50_000_000, 60, 3)];
        let other = vec![event(SECOND + 100_000_000, 51, 1)];
        Ledger::new(vec![one, other])
    }

    #[test]
    fn the_bucket_is_fed_in_order_and_drains() {
        let ledger = ledger();
        // 100, then 50 + 60, then 60 + 51.
        let worst = ledger.worst(QUOTA, &(0..u64::MAX));
        assert!((worst - 11.0).abs() < 1e-6, "{worst}");
        let worst = ledger.worst(QUOTA, &(0..SECOND + 60_000_000));
        assert!((worst - 10.0).abs() < 1e-6, "{worst}");
        // From the first request to the last answer 101 ms passed, and 211 units were admitted.
        let certain = ledger.worst_certain(QUOTA, &(0..u64::MAX));
        assert!((certain - 10.0).abs() < 1e-6, "{certain}");
        let total = ledger.total_error_percent(QUOTA);
        // 10, then 60 + 51 behind them, less 50 that drained of the 100 that were left.
        let refused = ledger.refused(QUOTA);
        assert!((refused - 11.0).abs() < 1e-6, "{refused}");
        assert!((total - 100.0 * (211.0 / 201.0 - 1.0)).abs() < 1e-6, "{total}");
    }

    #[test]
    fn counts_are_of_their_time() {
        let ledger = ledger();
        let late = SECOND + 1..u64::MAX;
        assert_eq!((ledger.all_allowed(&late), ledger.all_denied(&late)), (111, 4));
        assert_eq!(ledger.last_denial(&late), Some(SECOND + 100_000_000));
        let (least, most) = ledger.shares(&[0, 1], &late);
        assert!((least - 51.0 / 55.5).abs() < 1e-9 && (most - 60.0 / 55.5).abs() < 1e-9);
        assert!((ledger.latency_ms(0.99, &[0, 1], &late) - 1.0).abs() < 1e-9);
    }
}
