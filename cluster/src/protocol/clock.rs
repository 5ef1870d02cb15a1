//! The clock of another node, as this node reads it.

use super::delta::signed;
use super::time::{Nanos, SECOND};

/// How long it takes to read a clock for the first time: within this all comes that waited for one
/// retransmission.
pub(super) const SETTLING: Nanos = SECOND / 200;
/// How long the smallest delay is looked for before an older one is forgotten.
const PERIOD: Nanos = 2 * SECOND;
/// Readings in a period, at least.
const MIN_READINGS: u32 = 8;
/// Readings that follow each other sooner count as one: what arrives at once after a stall is not
/// taken for the delay, however much that is.
const SPACING: Nanos = SECOND / 200;
/// With as many in half a period the one before is not looked at: the longer ago, the more clocks
/// have drifted.
const MANY_READINGS: u32 = 64;
/// By how much clocks may drift apart, in nanoseconds a second; more is a clock that was set, or a
/// path that has changed. Those of machines drift by less than 500 ppm.
const MAX_DRIFT: i64 = 2_000_000;
/// The weight of what one period says of the drift, as a divisor.
const DRIFT_PART: i64 = 4;

/// Converts times of another node's clock into times of this node's.
///
/// The difference of two clocks is the smallest (received - sent) less the smallest time in
/// transit: what a message waited, in queues or for a retransmission, is thereby part of its age.
/// The smallest time in transit is half the sum of both nodes' smallest (received - sent), as each
/// sends the other its own, so that neither takes the other for older than that takes it. It is at
/// most the transport's estimate, which contains a part of the jitter. Minima are of the last one
/// to two periods; longer when little arrives.
///
/// Clocks drift apart, so a delay that was the smallest some time ago is another one now. The drift
/// is by how much the minima of two periods differ, a second between them; all delays are taken as
/// of the last reading. Two nodes with clocks 1,000 ppm apart would take each other for 2 ms older
/// or younger than they are, and keep their words of a key as far apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteClock {
    present: Minimum,
    before: Minimum,
    since: Nanos,
    /// Of the present period, and when one was counted last.
    readings: u32,
    counted_at: Nanos,
    /// The last reading.
    read_at: Nanos,
    /// By how much (received - sent) grows, in nanoseconds a second; `None` before the second
    /// period has ended.
    drift: Option<i64>,
    has_before: bool,
    /// The latest time of the other clock at which something was sent that has arrived.
    latest_sent: Nanos,
    /// The other node's smallest (received - sent) of this node's messages, and when it was
    /// reported.
    reported: Option<(i64, Nanos)>,
    /// How old what the other node receives of any node usually is.
    reported_lag: Nanos,
    /// The other node's scheduling delay.
    reported_run_delay: Nanos,
    /// How old what arrives usually is, and when that was last looked at.
    lag: Nanos,
    lag_at: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Minimum {
    delay: i64,
    /// When it was read.
    at: Nanos,
    transit: Nanos,
}

impl Minimum {
    /// With a later one.
    fn join(self, later: Self, drift: i64) -> Self {
        let least = if self.delay_at(later.at, drift) < later.delay { self } else { later };
        Self { transit: self.transit.min(later.transit), ..least }
    }

    /// What it would be at another time.
    fn delay_at(self, now: Nanos, drift: i64) -> i64 {
        self.delay.saturating_add(drifted(drift, self.at, now))
    }
}

/// By how much a delay has grown in a time.
fn drifted(drift: i64, since: Nanos, now: Nanos) -> i64 {
    drift.saturating_mul(signed(now.saturating_sub(since))) / signed(SECOND)
}

impl RemoteClock {
    /// From a first reading: a message that was sent at `sent` has arrived.
    pub(super) fn new(now: Nanos, sent: Nanos, transit: Nanos) -> Self {
        let first = Minimum { delay: signed(now).saturating_sub(signed(sent)), at: now, transit };
        Self {
            present: first,
            before: first,
            since: now,
            readings: 1,
            counted_at: now,
            read_at: now,
            drift: None,
            has_before: false,
            latest_sent: sent,
            reported: None,
            reported_lag: 0,
            reported_run_delay: 0,
            lag: transit,
            lag_at: now,
        }
    }

    /// A message that was sent at `sent` has arrived; `transit` estimates its time in transit.
    pub(super) fn read(&mut self, now: Nanos, sent: Nanos, transit: Nanos) {
        let delay = signed(now).saturating_sub(signed(sent));
        let reading = Minimum { delay, at: now, transit };
        self.read_at = now;
        if now.saturating_sub(self.since) >= PERIOD && self.readings >= MIN_READINGS {
            self.note_drift();
            self.before = self.present;
            (self.present, self.since, self.readings) = (reading, now, 0);
        }
        self.present = self.present.join(reading, self.drift());
        if now.saturating_sub(self.counted_at) >= SPACING {
            (self.readings, self.counted_at) = (self.readings + 1, now);
        }
        self.latest_sent = self.latest_sent.max(sent);
    }

    /// A period ends: its minimum and that of the one before say how clocks drift.
    fn note_drift(&mut self) {
        let passed = signed(self.present.at.saturating_sub(self.before.at));
        if std::mem::replace(&mut self.has_before, true) && passed > 0 {
            let grown = self.present.delay.saturating_sub(self.before.delay);
            let seen = grown.saturating_mul(signed(SECOND)) / passed;
            if seen.saturating_abs() <= MAX_DRIFT {
                let drift = |known: i64| known + (seen - known) / DRIFT_PART;
                self.drift = Some(self.drift.map_or(seen, drift));
            }
        }
    }

    fn drift(&self) -> i64 {
        self.drift.unwrap_or(0)
    }

    /// The smallest of both periods, or of the present one where that says enough.
    fn best(&self) -> Minimum {
        let passed = self.read_at.saturating_sub(self.since);
        if passed >= PERIOD / 2 && self.readings >= MANY_READINGS {
            self.present
        } else {
            self.before.join(self.present, self.drift())
        }
    }

    /// The age of the latest that has arrived of the other node, by its clock.
    pub(super) fn staleness(&self, now: Nanos) -> Nanos {
        let latest_sent = self.to_local(self.latest_sent);
        Nanos::try_from(signed(now).saturating_sub(latest_sent)).unwrap_or(0)
    }

    /// The other node has reported its smallest (received - sent), how old what it receives of any
    /// node usually is, and its scheduling delay.
    pub(super) fn note_report(&mut self, reported: Option<i64>, lag: Nanos, run_delay: Nanos) {
        self.reported = reported.map(|reported| (reported, self.read_at));
        (self.reported_lag, self.reported_run_delay) = (lag, run_delay);
    }

    /// The smallest (received - sent) of the other node's messages.
    pub(super) fn delay(&self) -> i64 {
        self.best().delay_at(self.read_at, self.drift())
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

    /// How old what the other node receives of any node usually is, as it reports.
    pub(super) fn reported_lag(&self) -> Nanos {
        self.reported_lag
    }

    /// The other node's scheduling delay, as it reports it.
    pub(super) fn reported_run_delay(&self) -> Nanos {
        self.reported_run_delay
    }

    /// A time of the other node on this node's clock; negative when it was before this node's zero.
    pub(super) fn to_local(self, at: Nanos) -> i64 {
        signed(at).saturating_add(self.delay()).saturating_sub(self.transit())
    }

    /// The smallest time in transit. A time of the other node was later than
    /// [`RemoteClock::to_local`] says by at most this: nothing arrives before it is sent.
    pub(super) fn transit(self) -> i64 {
        let (most, delay) = (signed(self.best().transit), self.delay());
        // What grows here shrinks there.
        let both = |(reported, at)| {
            let reported = i64::saturating_sub(reported, drifted(self.drift(), at, self.read_at));
            (delay.saturating_add(reported) / 2).clamp(0, most)
        };
        self.reported.map_or(most, both)
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
        here.note_report(Some(there.delay()), 0, 0);
        there.note_report(Some(here.delay()), 0, 0);
        assert_eq!(here.to_local(0), signed(1_000 * MS));
        assert_eq!(there.to_local(1_000 * MS), 0);
        here.note_report(Some(i64::MAX), 0, 0);
        assert_eq!(here.to_local(0), signed(990 * MS), "no more than the transport says");
        here.note_report(Some(i64::MIN), 0, 0);
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

    /// A period begins with a message that was late, and nothing more comes in half of it but what
    /// waited.
    #[test]
    fn what_arrives_at_once_does_not_stand_for_half_a_period() {
        let mut clock = RemoteClock::new(1_000 * MS, 0, 5 * MS);
        for n in 1..200 {
            clock.read((1_000 + 10 * n) * MS, 10 * n * MS, 5 * MS);
        }
        clock.read(3_110 * MS, 2_010 * MS, 5 * MS);
        for n in 202..320 {
            clock.read(4_210 * MS, 10 * n * MS, 5 * MS);
        }
        assert_eq!(clock.to_local(2_000 * MS), signed(2_995 * MS));
    }

    /// The other clock is slow by 1,000 ppm; every message takes 5 to 9 ms.
    #[test]
    fn clocks_that_drift_apart_agree_on_their_difference() {
        for (ppm, quiet) in [(1_000, false), (-1_000, false), (1_000, true)] {
            let theirs = |now: Nanos| now.saturating_add_signed(-signed(now) / 1_000_000 * ppm);
            let mut here = RemoteClock::new(5 * MS, 0, 7 * MS);
            let mut there = RemoteClock::new(theirs(5 * MS), 0, 7 * MS);
            for n in 1..2_000 {
                let (now, jitter) = (10 * n * MS, n * 7 % 5 * MS);
                // They say nothing but that from time to time.
                if n % 200 == 0 {
                    here.note_report(Some(there.delay()), 0, 0);
                    there.note_report(Some(here.delay()), 0, 0);
                }
                if !quiet || n % 20 == 0 {
                    here.read(now + 5 * MS + jitter, theirs(now), 7 * MS);
                    there.read(theirs(now + 5 * MS + jitter), now, 7 * MS);
                }
            }
            let now = 20_000 * MS;
            let off = here.to_local(theirs(now)) - signed(now);
            assert!(off.unsigned_abs() < MS / 4, "{ppm} {quiet}: {off}");
            let off = there.to_local(now) - signed(theirs(now));
            assert!(off.unsigned_abs() < MS / 4, "{ppm} {quiet}: {off}");
        }
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
