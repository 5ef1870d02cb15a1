//! What a caller in the list finds when it looks.

use core::task::Waker;
use core::time::Duration;

use crate::time::Timestamp;

use super::{Fixed, Found, WaitList, Wakers};

impl WaitList {
    /// Lets a caller start if its time has come. If not, `waker` is woken when it has moved up.
    pub(in super::super) fn poll(
        &mut self,
        number: u64,
        at: Timestamp,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Found {
        match self.watch(number, at, waker, wakers) {
            Some(start) if start > at => Found::StartsAt(start),
            _ => {
                self.collect(number, at, wakers);
                Found::Started
            }
        }
    }

    /// The start of a caller, which stays in the list when it has come; `None` without one. Until
    /// then `waker` is woken when it has moved up.
    pub(in super::super) fn watch(
        &mut self,
        number: u64,
        at: Timestamp,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Option<Timestamp> {
        self.settle(at, wakers);
        // Those that have been seen before are woken when they have moved up, in their turn.
        let seen = self.places.get(&number).is_none_or(|place| place.waker.is_some());
        let start = if seen { None } else { self.start(number, at) };
        let start = start.or_else(|| {
            let place = self.places.get(&number).map(|place| place.start.at);
            place.or_else(|| self.fixed.get(&number).map(|fixed| fixed.start))
        });
        let old = match self.places.get_mut(&number) {
            Some(place) if start > Some(at) => place.waker.replace(waker),
            _ => Some(waker),
        };
        wakers.discard.extend(old);
        start
    }

    /// When the charge of a caller begins to drain: until then it may start, and keeps the quota.
    /// `None` without such a caller. Of one that has moved up and does not know, where it was
    /// before: it is woken before its start comes.
    pub(in super::super) fn drains_from(&self, number: u64, at: Timestamp) -> Option<Timestamp> {
        let (now, scale) = (self.reading(at), self.time.scale);
        if let Some(&Fixed { start, units, lead, end }) = self.fixed.get(&number) {
            let units = units - lead;
            let begins = end.map(|end| end.saturating_sub(self.moved).saturating_sub(units));
            return Some(begins.map_or(start, |begins| now.time_of(begins, scale)));
        }
        let place = self.places.get(&number)?;
        let slack = scale.to_nanos_down(place.tolerance.saturating_sub(place.units - place.lead));
        Some(place.start.at.saturating_add(Duration::from_nanos(slack)))
    }
}
