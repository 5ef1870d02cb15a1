//! The clock of another node, as this node reads it.

use super::delta::signed;
use super::time::{Nanos, SECOND};

/// How long the smallest delay is looked for before an older one is forgotten. Clocks that drift
/// apart by 200 ppm differ by less than a millisecond in two of these.
const PERIOD: Nanos = 2 * SECOND;
/// Readings in a period, at least; what arrives at once after a stall is not taken for the delay.
const MIN_READINGS: u32 = 8;

/// Converts times of another node's clock into times of this node's.
///
/// The difference of two clocks is the smallest (received - sent) less the smallest time in
/// transit: what a message waited, in queues or for a retransmission, is thereby part of its age.
/// The smallest time in transit is half the sum of both nodes' smallest (received - sent), as each
/// tells the other its own, so that neither takes the other for older than that takes it. It is at
/// most the transport's estimate, which contains a part of the jitter. Minima are of the last one
/// to two periods; longer when little arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteClock {
    present: Minimum,
    before: Minimum,
    since: Nanos,
    readings: u32,
    /// The latest time of the other clock that was heard.
    heard: Nanos,
    /// The other node's smallest (received - sent) of this node's messages.
    told: Option<i64>,
    /// How old what arrives usually is, and when that was last looked at.
    lag: Nanos,
    lag_at: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Minimum {
    delay: i64,
    transit: Nanos,
}

impl Minimum {
    fn join(self, other: Self) -> Self {
        Self { delay: self.delay.min(other.delay), transit: self.transit.min(other.transit) }
    }
}

impl RemoteClock {
    /// From a first reading: a message that was sent at `sent` has arrived.
    pub(super) fn new(now: Nanos, sent: Nanos, transit: Nanos) -> Self {
        let first = Minimum { delay: signed(now).saturating_sub(signed(sent)), transit };
        let (since, lag_at) = (now, now);
        let (present, before, told) = (first, first, None);
        Self { present, before, since, readings: 1, heard: sent, told, lag: transit, lag_at }
    }

    /// A message that was sent at `sent` has arrived; `transit` estimates its time in transit.
    pub(super) fn read(&mut self, now: Nanos, sent: Nanos, transit: Nanos) {
        let reading = Minimum { delay: signed(now).saturating_sub(signed(sent)), transit };
        if now.saturating_sub(self.since) >= PERIOD && self.readings >= MIN_READINGS {
            self.before = self.present;
            (self.present, self.since, self.readings) = (reading, now, 0);
        }
        self.present = self.present.join(reading);
        self.readings += 1;
        self.heard = self.heard.max(sent);
    }

    /// The age of the latest that was heard of the other node, by its clock.
    pub(super) fn staleness(&self, now: Nanos) -> Nanos {
        let heard = self.to_local(self.heard);
        Nanos::try_from(signed(now).saturating_sub(heard)).unwrap_or(0)
    }

    /// The other node has told its smallest (received - sent).
    pub(super) fn hear(&mut self, told: Option<i64>) {
        self.told = told;
    }

    /// The smallest (received - sent) of the other node's messages.
    pub(super) fn delay(&self) -> i64 {
        self.present.join(self.before).delay
    }

    /// Something of this age has arrived. What arrives at once after a stall is not taken for
    /// usual: the lag grows by a tenth of the time in which things arrive, at most.
    pub(super) fn arrived(&mut self, now: Nanos, age: Nanos) {
        let growth = now.saturating_sub(self.lag_at).min(SECOND / 10) / 10;
        self.lag_at = now;
        self.lag = if age > self.lag {
            age.min(self.lag.saturating_add(growth))
        } else {
            self.lag - (self.lag - age) / 64
        };
    }

    /// How old what arrives usually is.
    pub(super) fn lag(&self) -> Nanos {
        self.lag
    }

    /// A time of the other node on this node's clock; negative when it was before this node's zero.
    pub(super) fn to_local(self, at: Nanos) -> i64 {
        let best = self.present.join(self.before);
        let most = signed(best.transit);
        let both = |told: i64| (best.delay.saturating_add(told) / 2).clamp(0, most);
        signed(at).saturating_add(best.delay).saturating_sub(self.told.map_or(most, both))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn what_a_message_waited_is_part_of_its_age() {
        let mut clock = RemoteClock::new(1_000 * MS, 0, 5 * MS);
        for n in 1..100 {
            clock.read((1_000 + 10 * n) * MS, 10 * n * MS, 5 * MS);
        }
        // One second in a queue.
        clock.read(3_000 * MS, 1_000 * MS, 5 * MS);
        assert_eq!(clock.to_local(1_000 * MS), signed(1_995 * MS));
    }

    /// The transport's estimate of the time in transit contains 10 ms of jitter.
    #[test]
    fn two_clocks_agree_on_their_difference() {
        let mut here = RemoteClock::new(1_005 * MS, 0, 15 * MS);
        let mut there = RemoteClock::new(9 * MS, 1_004 * MS, 15 * MS);
        assert_eq!(here.to_local(0), signed(990 * MS));
        here.hear(Some(there.delay()));
        there.hear(Some(here.delay()));
        assert_eq!(here.to_local(0), signed(1_000 * MS));
        assert_eq!(there.to_local(1_000 * MS), 0);
        here.hear(Some(i64::MAX));
        assert_eq!(here.to_local(0), signed(990 * MS), "no more than the transport says");
        here.hear(Some(i64::MIN));
        assert_eq!(here.to_local(0), signed(1_005 * MS), "and no less than nothing");
    }

    #[test]
    fn what_arrives_at_once_after_a_stall_is_not_taken_for_the_delay() {
        let mut clock = RemoteClock::new(1_000 * MS, 0, 5 * MS);
        for n in 1..200 {
            clock.read((1_000 + 10 * n) * MS, 10 * n * MS, 5 * MS);
        }
        for n in 200..1_200 {
            clock.read(13_000 * MS, 10 * n * MS, 5 * MS);
        }
        assert_eq!(clock.to_local(2_000 * MS), signed(2_995 * MS));
    }

    #[test]
    fn a_clock_that_stood_still_is_followed() {
        let mut clock = RemoteClock::new(1_000 * MS, 0, 0);
        for n in 1..1_000 {
            clock.read((9_000 + 10 * n) * MS, 10 * n * MS, 0);
        }
        assert_eq!(clock.to_local(0), signed(9_000 * MS));
    }
}
