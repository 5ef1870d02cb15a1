//! Charges with a receipt, for counters in sets of limits and reservations. A receipt holds the
//! sub-window in which the units were charged.

use core::time::Duration;

use crate::base::decision::Decision;
use crate::contract::limit::{Limit, Receipt, Subject, sealed::Sealed};
use crate::time::{Clock, Timestamp};

#[cfg(feature = "std")]
use super::ShardedCounter;
use super::SubWindowCounter;

impl<C: Clock> Sealed for SubWindowCounter<C> {}

impl<C: Clock + Send + Sync> Limit for SubWindowCounter<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn look(&self, _: Subject<'_>, cost: u64, now: Timestamp) -> Decision {
        self.window.look(cost, self.window.instant(now))
    }

    fn take(&self, whom: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.look(whom, 0, now), Receipt::NOTHING);
        }
        let now = self.window.instant(now);
        match self.window.take(cost, cost, now) {
            Ok(taken) => {
                let charged = Some(taken.usage.index);
                (self.window.allowed(&taken.usage, now), Receipt::new(charged))
            }
            Err(denied) => (denied, Receipt::NOTHING),
        }
    }

    fn give_back(&self, _: Subject<'_>, cost: u64, receipt: Receipt) -> Decision {
        if let Some(index) = receipt.charged() {
            self.window.ring.give_back(index, cost);
        }
        self.peek()
    }

    fn take_anyway(&self, _: Subject<'_>, cost: u64) -> Decision {
        self.charge(cost)
    }

    fn refill_time(&self) -> Option<Duration> {
        Some(self.window.ring.span().longest())
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

    fn look(&self, _: Subject<'_>, cost: u64, now: Timestamp) -> Decision {
        self.shards.look(cost, self.shards.source.instant(now))
    }

    fn take(&self, whom: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.look(whom, 0, now), Receipt::NOTHING);
        }
        let (seat, shard) = self.seat();
        let now = self.shards.source.instant(now);
        let (decision, charged) = self.shards.take(shard, cost, now, || seat.move_on());
        (decision, Receipt::new(charged))
    }

    fn give_back(&self, _: Subject<'_>, cost: u64, receipt: Receipt) -> Decision {
        if let Some(index) = receipt.charged() {
            self.shards.source.ring.give_back(index, cost);
        }
        self.peek()
    }

    fn take_anyway(&self, _: Subject<'_>, cost: u64) -> Decision {
        self.charge(cost)
    }

    fn refill_time(&self) -> Option<Duration> {
        Some(self.shards.source.ring.span().longest())
    }
}
