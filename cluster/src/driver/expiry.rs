//! Until when this node's certificate is accepted, and what is logged of that.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::UnixTime;
use tokio::runtime::Handle as Tasks;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::warn;

use super::say::TARGET;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// How long before its end a certificate is warned of.
const SOON: Duration = Duration::from_secs(7 * 24 * 3_600);
/// A chain that is accepted for longer, in seconds, has no end that matters, as those that nodes
/// issue for themselves: 100 years.
const FAR_SECONDS: u64 = 100 * 365 * 24 * 3_600;

/// When this node's certificate ends, and the task that warns of it.
#[derive(Debug, Default)]
pub(super) struct Expiry(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    until: Option<UnixTime>,
    task: Option<AbortHandle>,
}

impl Expiry {
    /// The certificate that is shown from here on is accepted until then.
    pub(super) fn set(&self, until: Option<UnixTime>, tasks: &Tasks) {
        let mut watched = self.watched();
        watched.until = until;
        let task = until.map(|until| tasks.spawn(watch(until)).abort_handle());
        if let Some(before) = std::mem::replace(&mut watched.task, task) {
            before.abort();
        }
    }

    pub(super) fn until(&self) -> Option<UnixTime> {
        self.watched().until
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last second at which a chain is accepted that is accepted at `now`; `None` where there is
/// none for a hundred years.
///
/// It is found by verifying the chain as of other times, 33 times at most. So it does not matter
/// which certificate of a chain ends first, and the end is that of the handshakes.
pub(super) fn last_accepted(now: UnixTime, accepts: impl Fn(UnixTime) -> bool) -> Option<UnixTime> {
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let (mut accepted, mut refused) = (now.as_secs(), now.as_secs() + FAR_SECONDS);
    if accepts(at(refused)) {
        return None;
    }
    while refused - accepted > 1 {
        let between = accepted + (refused - accepted) / 2;
        if accepts(at(between)) {
            accepted = between;
        } else {
            refused = between;
        }
    }
    Some(at(accepted))
}

/// Warns once a day of a certificate that ends soon, and of one that has ended.
async fn watch(until: UnixTime) {
    loop {
        let left = until.as_secs().saturating_sub(UnixTime::now().as_secs());
        let left = Duration::from_secs(left);
        if left.is_zero() {
            warn!(target: TARGET, "this node's certificate has expired: links that are open stay, \
                none opens; renew it, and have it read again");
        } else if left <= SOON {
            let hours = left.as_secs() / HOUR.as_secs();
            warn!(target: TARGET, hours, "this node's certificate expires soon, and then no link \
                opens; renew it, and have it read again");
        }
        sleep(pause(left)).await;
    }
}

/// When to look next, where this is left: a wall clock may be set meanwhile.
fn pause(left: Duration) -> Duration {
    let second = Duration::from_secs(1);
    match left {
        Duration::ZERO => DAY,
        left if left > SOON => left.saturating_sub(SOON).clamp(second, HOUR),
        left => left.min(DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn the_end_is_found_to_the_second() {
        let now = 1_800_000_000;
        let ends = |end: u64| last_accepted(at(now), |time| time.as_secs() <= end);
        for after in [0, 1, 59, 90 * 24 * 3_600, FAR_SECONDS - 1] {
            assert_eq!(ends(now + after), Some(at(now + after)));
        }
        assert_eq!(ends(now + FAR_SECONDS), None);
        assert_eq!(ends(u64::MAX), None);
    }

    #[test]
    fn it_is_warned_of_a_week_ahead_then_once_a_day_and_when_it_has_come() {
        let (mut left, mut warned) = (DAY * 10 + HOUR / 2, Vec::new());
        loop {
            if left <= SOON {
                warned.push(left.as_secs() / HOUR.as_secs());
            }
            if left.is_zero() {
                break;
            }
            left = left.saturating_sub(pause(left));
        }
        assert_eq!(warned, [168, 144, 120, 96, 72, 48, 24, 0]);
        assert_eq!(pause(left), DAY);
    }
}
