//! Charges with a receipt, for counters in sets of limits and reservations. A receipt holds the
//! sub-window in which the units were charged.

use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::key::{KEYLESS, Key};
use crate::contract::limit::{Limit, Receipt, Subject, sealed::Sealed};
use crate::time::{Clock, Timestamp};

#[cfg(feature = "std")]
use super::ShardedCounter;
use super::SubWindowCounter;
use super::sub_window::SubWindows;

impl<C: Clock> Sealed for SubWindowCounter<C> {}

impl SubWindows {
    /// Takes `cost`, at least 1, if it fits and leaves what the subject is to leave.
    fn take_with_headroom(&self, subject: Subject<'_>, cost: u64, now: u64) -> (Decision, Receipt) {
        match self.take(subject.needed(cost), cost, now) {
            Ok(taken) => {
                let charged = Some(taken.usage.index);
                (self.allowed(&taken.usage, now), Receipt::new(charged))
            }
            Err(denied) => (denied, Receipt::NOTHING),
        }
    }
}

impl<C: Clock + Send + Sync> Limit for SubWindowCounter<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn peek_at(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> Decision {
        self.window.peek_n(subject.needed(cost), self.window.instant(now))
    }

    fn try_charge(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.peek_at(subject, 0, now), Receipt::NOTHING);
        }
        self.window.take_with_headroom(subject, cost, self.window.instant(now))
    }

    fn give_back(&self, _: Subject<'_>, cost: u64, receipt: Receipt) -> Decision {
        if let Some(index) = receipt.charged() {
            self.window.ring.give_back(index, cost);
        }
        self.peek()
    }

    fn force_charge(&self, _: Subject<'_>, cost: u64) -> Decision {
        self.charge(cost)
    }

    fn refill_time(&self) -> Option<Duration> {
        Some(self.window.ring.span().longest())
    }

    fn check_key(&self, _: &dyn Key, cost: u64) -> Decision {
        self.check_n(cost)
    }

    fn peek_key(&self, _: &dyn Key, cost: u64) -> Decision {
        self.peek_at(Subject::from(KEYLESS), cost, self.clock.now())
    }

    /// Without a receipt it is not known in which sub-window the units count: taken from another
    /// one, more than the limit would be admitted once that is over.
    fn refund_key(&self, _: &dyn Key, _: u64) -> bool {
        false
    }
}

#[cfg(feature = "std")]
impl<C: Clock> Sealed for ShardedCounter<C> {}

/// Units are given back to the counter from which the block came, not to a shard.
#[cfg(feature = "std")]
impl<C: Clock + Send + Sync> Limit for ShardedCounter<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn peek_at(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> Decision {
        let now = self.shards.source.instant(now);
        match subject.left {
            0 => self.shards.peek_n(cost, now),
            // Units in shards count as taken.
            _ => self.shards.source.peek_n(subject.needed(cost), now),
        }
    }

    fn try_charge(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.peek_at(subject, 0, now), Receipt::NOTHING);
        }
        let (seat, shard) = self.seat();
        let now = self.shards.source.instant(now);
        if subject.left > 0 {
            return self.shards.source.take_with_headroom(subject, cost, now);
        }
        let (decision, charged) = self.shards.take(shard, cost, now, || seat.move_on());
        (decision, Receipt::new(charged))
    }

    fn give_back(&self, _: Subject<'_>, cost: u64, receipt: Receipt) -> Decision {
        if let Some(index) = receipt.charged() {
            self.shards.source.ring.give_back(index, cost);
        }
        self.peek()
    }

    fn force_charge(&self, _: Subject<'_>, cost: u64) -> Decision {
        self.charge(cost)
    }

    fn refill_time(&self) -> Option<Duration> {
        Some(self.shards.source.ring.span().longest())
    }

    fn check_key(&self, _: &dyn Key, cost: u64) -> Decision {
        self.check_n(cost)
    }

    fn peek_key(&self, _: &dyn Key, cost: u64) -> Decision {
        self.peek_at(Subject::from(KEYLESS), cost, self.clock.now())
    }

    /// Without a receipt it is not known in which sub-window the units count: taken from another
    /// one, more than the limit would be admitted once that is over.
    fn refund_key(&self, _: &dyn Key, _: u64) -> bool {
        false
    }
}
