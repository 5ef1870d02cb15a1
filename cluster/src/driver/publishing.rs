//! When what handles see is made anew.

use std::time::Duration;

use tokio::time::Instant;

/// The age of what handles see, at most.
const EVERY: Duration = Duration::from_millis(50);
/// How much earlier than that it may be made new: along with something else, so that nothing wakes
/// for it.
const COALESCE: Duration = Duration::from_millis(10);

/// Makes it new along with a change where that was not done lately, so that a change that comes
/// alone causes no other wake; else at the end of the interval.
#[derive(Debug)]
pub(super) struct Publishing {
    last: Instant,
    due: Option<Instant>,
}

impl Publishing {
    /// It was made at this time.
    pub(super) fn new(now: Instant) -> Self {
        Self { last: now, due: None }
    }

    /// Something may have changed: whether to make it new now.
    pub(super) fn changed(&mut self, now: Instant) -> bool {
        let due = self.last + EVERY;
        if due <= now + COALESCE {
            *self = Self::new(now);
            return true;
        }
        self.due = Some(due);
        false
    }

    /// When it is to be made anew.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_comes_alone_is_seen_at_once() {
        let start = Instant::now();
        let mut publishing = Publishing::new(start);
        assert_eq!(publishing.due(), None);
        assert!(publishing.changed(start + EVERY - COALESCE));
        assert_eq!(publishing.due(), None, "it costs no wake");
    }

    #[test]
    fn one_that_follows_another_is_seen_after_50_ms() {
        let start = Instant::now();
        let mut publishing = Publishing::new(start);
        for millis in [0, 1, 39] {
            assert!(!publishing.changed(start + Duration::from_millis(millis)), "{millis}");
            assert_eq!(publishing.due(), Some(start + EVERY), "{millis}");
        }
        assert!(publishing.changed(start + EVERY));
        assert_eq!(publishing.due(), None);
    }
}
