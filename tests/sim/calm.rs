//! When the cluster was last disturbed, and whether it has had the time to recover.

use crate::time::{Nanos, SECOND};

/// After the last fault: links that were silent close within the idle timeout, a dial that failed
/// is repeated within its longest delay, and states are taken over.
pub const RECOVERY: Nanos = 15 * SECOND;

/// What disturbs: cuts, stops, starts and ends of nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calm {
    ongoing: u32,
    /// When the first of the faults began that may not be over for all nodes.
    began: Nanos,
    /// When the last fault ended.
    pub healed: Nanos,
    has_begun: bool,
}

impl Calm {
    /// A fault begins.
    pub fn begin(&mut self, now: Nanos) {
        if self.is_calm(now) || !self.has_begun {
            self.began = now;
            self.has_begun = true;
        }
        self.ongoing += 1;
    }

    pub fn end(&mut self, now: Nanos) {
        self.ongoing = self.ongoing.saturating_sub(1);
        self.healed = now;
    }

    /// A fault without duration.
    pub fn moment(&mut self, now: Nanos) {
        self.begin(now);
        self.end(now);
    }

    /// Whether all nodes have had the time to recover.
    pub fn is_calm(&self, now: Nanos) -> bool {
        self.ongoing == 0 && (!self.has_begun || now >= self.healed + RECOVERY)
    }

    pub fn is_ongoing(&self) -> bool {
        self.ongoing > 0
    }

    /// Since when nodes may not have heard of each other, if not for `lag` as always.
    pub fn unheard_since(&self, now: Nanos, lag: Nanos) -> Nanos {
        let always = now.saturating_sub(lag);
        if self.is_calm(now) { always } else { always.min(self.began.saturating_sub(lag)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_follow_each_other_are_one() {
        let mut calm = Calm::default();
        assert_eq!(calm.unheard_since(9 * SECOND, SECOND), 8 * SECOND);
        calm.moment(10 * SECOND);
        calm.begin(20 * SECOND);
        calm.end(40 * SECOND);
        assert_eq!(calm.unheard_since(54 * SECOND, SECOND), 9 * SECOND);
        assert!(!calm.is_calm(54 * SECOND) && calm.is_calm(55 * SECOND));
        calm.moment(60 * SECOND);
        assert_eq!(calm.unheard_since(61 * SECOND, SECOND), 59 * SECOND);
    }
}
