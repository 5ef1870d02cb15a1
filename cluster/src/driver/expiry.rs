//! Until when this node's certificate is accepted, and what is logged of that.

use std::time::Duration;

use rustls::pki_types::UnixTime;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use super::logging::TARGET;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
/// How long before its end a certificate is warned of, at most: one that is renewed every few days
/// is warned of in the last third of its time.
const SOON: u64 = 7 * DAY;
const LAST_PART: u64 = 3;
/// A chain that is accepted for longer has no end that matters, as those that nodes issue for
/// themselves: 100 years.
const FAR: u64 = 100 * 365 * DAY;

/// When a chain is accepted, in seconds of Unix time: the first and the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) since: u64,
    pub(super) until: u64,
}

/// What the certificate that is shown has, if that ends.
#[derive(Debug, Default)]
pub(super) struct Expiry(watch::Sender<Option<Validity>>);

impl Expiry {
    /// Another certificate is shown from here on.
    pub(super) fn set(&self, validity: Option<Validity>) {
        self.0.send_replace(validity);
    }

    pub(super) fn until(&self) -> Option<Duration> {
        self.0.borrow().map(|validity| Duration::from_secs(validity.until))
    }

    /// Warns of a certificate that ends soon, and of one that has ended: once a day, and when it is
    /// shown first.
    pub(super) fn watch(&self) -> impl Future<Output = ()> + use<> {
        let mut shown = self.0.subscribe();
        async move {
            loop {
                let validity = *shown.borrow_and_update();
                let pause = validity.map(|validity| {
                    let now = UnixTime::now().as_secs();
                    if let Some(notice) = validity.notice(now) {
                        notice.log();
                    }
                    validity.pause(now)
                });
                let pause = Duration::from_secs(pause.unwrap_or(DAY));
                tokio::select! {
                    changed = shown.changed() => if changed.is_err() { return },
                    () = sleep(pause) => {}
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    Soon { hours: u64 },
    Expired,
}

impl Notice {
    fn log(self) {
        match self {
            Self::Soon { hours } => {
                warn!(target: TARGET, hours, "this node's certificate, or one between it and the \
                    authority, expires soon, and then no link opens; renew it, and have it read \
                    again");
            }
            Self::Expired => {
                warn!(target: TARGET, "this node's certificate, or one between it and the \
                    authority, has expired: links that are open stay, none opens; renew it, and \
                    have it read again");
            }
        }
    }
}

impl Validity {
    /// Of a chain that is accepted at `now`; `None` where it is for a hundred years from then on.
    ///
    /// It is found by verifying the chain as of other times, 65 times at most: so it does not
    /// matter which certificate of a chain ends first, and the end is that of the handshakes. There
    /// is one such time around `now`, before and after which the chain is refused; what an
    /// authority's certificate says of itself counts for none.
    pub(super) fn around(now: UnixTime, accepts: impl Fn(UnixTime) -> bool) -> Option<Self> {
        let now = now.as_secs();
        let accepts = |seconds| accepts(UnixTime::since_unix_epoch(Duration::from_secs(seconds)));
        let is_accepted_after = |after| accepts(now + after);
        if is_accepted_after(FAR) {
            return None;
        }
        let until = now + last_of(FAR, is_accepted_after);
        let before = last_of(FAR.min(now), |before| accepts(now - before));
        Some(Self { since: now - before, until })
    }

    fn soon(self) -> u64 {
        SOON.min((self.until - self.since) / LAST_PART)
    }

    fn notice(self, now: u64) -> Option<Notice> {
        match self.until.saturating_sub(now) {
            0 => Some(Notice::Expired),
            left => (left <= self.soon()).then_some(Notice::Soon { hours: left / HOUR }),
        }
    }

    /// When to look next: a wall clock may be set meanwhile.
    fn pause(self, now: u64) -> u64 {
        match self.until.saturating_sub(now) {
            0 => DAY,
            left if left > self.soon() => (left - self.soon()).min(HOUR),
            left => left.min(DAY),
        }
    }
}

/// The last number that holds of those from 0, which does, to `limit`, which does not: between them
/// is one such.
fn last_of(limit: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut yes, mut no) = (0, limit);
    while no - yes > 1 {
        let between = yes + (no - yes) / 2;
        if holds(between) {
            yes = between;
        } else {
            no = between;
        }
    }
    yes
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn around(since: u64, until: u64) -> Option<Validity> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
        Validity::around(now, |time| (since..=until).contains(&time.as_secs()))
    }

    #[test]
    fn both_ends_are_found_to_the_second() {
        for (before, after) in [(0, 0), (1, 1), (59, 90 * DAY), (365 * DAY, FAR - 1)] {
            let (since, until) = (NOW - before, NOW + after);
            assert_eq!(around(since, until), Some(Validity { since, until }));
        }
        assert_eq!(around(0, NOW + FAR), None);
        assert_eq!(around(0, u64::MAX), None);
    }

    /// When it is warned of, in hours before its end, where it is looked at from then on.
    fn warned(lifetime: u64, mut left: u64) -> Vec<u64> {
        let validity = Validity { since: NOW - lifetime, until: NOW };
        let mut warned = Vec::new();
        loop {
            match validity.notice(NOW - left) {
                Some(Notice::Soon { hours }) => warned.push(hours),
                Some(Notice::Expired) => break,
                None => {}
            }
            left -= validity.pause(NOW - left);
        }
        assert_eq!(validity.pause(NOW + 5), DAY);
        warned
    }

    #[test]
    fn it_is_warned_of_a_week_ahead_and_then_once_a_day() {
        let week = [168, 144, 120, 96, 72, 48, 24];
        assert_eq!(warned(90 * DAY, 90 * DAY), week);
        assert_eq!(warned(90 * DAY, 10 * DAY + HOUR / 2), week);
        assert_eq!(warned(90 * DAY, 30 * HOUR), [30, 6], "by a node that starts late");
    }

    #[test]
    fn one_that_is_renewed_often_is_warned_of_in_its_last_third() {
        assert_eq!(warned(DAY, DAY), [8]);
        assert_eq!(warned(6 * DAY, 6 * DAY), [48, 24]);
    }
}
