//! The callers that wait for one key, in the order of their charges.
//!
//! A *place* is a charge that starts in the future. The list knows how much else was charged
//! between one place and the next, so a place's charge ends where the charges before it end, and
//! moves with them. To take a place's units out of the list moves up all that is behind it, in one
//! step.
//!
//! # Why starts keep the quota when places move
//! A charge covers an interval of time that begins at its start or later and ends at most the
//! burst tolerance after it; intervals are disjoint. When a place is given up, what its interval
//! still covers after the present moment is taken out, and all intervals behind it move up by as
//! much. They stay disjoint, each still begins at its start or later, because a start moves up
//! together with its interval but not before the present moment, and none ends later.
//!
//! The present moment is read after the word, so that it is not before any start that the word
//! counts. A caller that sleeps longer than its place requires starts late, as with a late timer.
//!
//! # Which caller wakes which
//! Each caller sleeps until the start it knows. When places move up, only the first one that sleeps
//! is woken, to sleep anew; when it starts or leaves, the next one is. So each place that is given
//! up costs at most one wake, and each caller that has moved up one. A caller that is woken and not
//! polled delays those behind it, at most to the starts they were given first.
//!
//! # What others do to the word
//! A charge is in the gap before the next place. A word that is lower than the last place's end, by
//! more than what was refunded, was wiped by a reset or an eviction: then nothing is taken off it.

mod watch;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use core::task::Waker;
use core::time::Duration;

use crate::rule::gcra::{Scale, Time};
use crate::time::Timestamp;

use super::charge::{Behind, Charge, Removal, Start, TakenOff};

/// A reading of the clock, and the same on a list's time axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    at: Timestamp,
    point: u64,
}

/// Wakers to be used, or dropped, when no lock is held: both may run any code.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) wake: Vec<Waker>,
    pub(super) discard: Vec<Waker>,
}

/// What a caller finds.
pub(super) enum Found {
    Started,
    StartsAt(Timestamp),
}

#[derive(Debug)]
pub(super) struct WaitList {
    /// The time axis of the charges.
    time: Time,
    /// Where the gap before the first place begins.
    front: u64,
    /// Where the charge of the last place ends.
    end: u64,
    /// By number, which is the order of the charges.
    places: BTreeMap<u64, WaitPlace>,
    /// The places that do not move: their holders know when they start, and have left.
    kept: BTreeSet<u64>,
    /// The callers whose start does not move any more: it has come, or the quota has changed.
    fixed: BTreeMap<u64, Fixed>,
    /// Whether burst tolerances differ, so that starts may have another order than places.
    mixed: bool,
    /// Whether others may have charged the key between places.
    interleaved: bool,
    /// What was refunded since the last place was taken.
    refunded: u64,
    /// The number of the next place.
    next: u64,
    moves: Moves,
    /// The most that a charge in `fixed` has moved up since the list was made, in all.
    moved: u64,
}

/// Times that places have moved up.
#[derive(Clone, Copy, Debug)]
struct Moves {
    count: u64,
    /// The point of the last one.
    last: u64,
    /// That of the list's time axis.
    scale: Scale,
}

#[derive(Debug)]
struct WaitPlace {
    /// What else was charged since the place before; below 0 where the key was refunded.
    gap: i64,
    units: u64,
    /// Of these, those at the beginning that no caller starts on.
    lead: u64,
    tolerance: u64,
    /// The start that the caller knows of, and the count of moves that it is by.
    start: Start,
    moves: u64,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Fixed {
    start: Timestamp,
    units: u64,
    lead: u64,
    /// Where the charge ends, plus `WaitList::moved` at that time; `None` if it cannot be taken
    /// back.
    end: Option<u64>,
}

impl Reading {
    /// The time at which the axis is at `point`, rounded up to a nanosecond if it is to come.
    fn time_of(self, point: u64, scale: Scale) -> Timestamp {
        let passed = scale.to_nanos_down(self.point.saturating_sub(point));
        let to_come = Duration::from_nanos(scale.to_nanos(point.saturating_sub(self.point)));
        let at = self.at.as_nanos().saturating_sub(passed);
        Timestamp::from_nanos(at).saturating_add(to_come)
    }
}

impl WaitPlace {
    /// Where the charge ends, given where the one of the place before does.
    fn end(&self, front: u64) -> u64 {
        front.saturating_add_signed(self.extent())
    }

    /// The units from the end of the place before to its own.
    fn extent(&self) -> i64 {
        self.gap.saturating_add_unsigned(self.units)
    }

    /// Learns its start by all moves so far, given where its charge ends.
    fn learn(&mut self, moves: &Moves, end: u64, now: Reading) {
        if self.moves == moves.count {
            return;
        }
        // Not before the move that made it.
        let start = end.saturating_sub(self.tolerance).max(moves.last);
        let start = now.time_of(start, moves.scale).saturating_add(self.start.jitter);
        self.start.at = self.start.at.min(start);
        self.moves = moves.count;
    }

    /// Learns its start for the last time. A caller that has not moved wakes by itself.
    fn fix(&mut self, moves: &Moves, end: u64, now: Reading, wakers: &mut Wakers) {
        let knows = self.moves == moves.count;
        let list = if knows { &mut wakers.discard } else { &mut wakers.wake };
        list.extend(self.waker.take());
        self.learn(moves, end, now);
    }
}

impl WaitList {
    pub(super) fn new(time: Time) -> Self {
        Self {
            time,
            front: 0,
            end: 0,
            places: BTreeMap::new(),
            kept: BTreeSet::new(),
            fixed: BTreeMap::new(),
            mixed: false,
            interleaved: false,
            refunded: 0,
            next: 0,
            moves: Moves { count: 0, last: 0, scale: time.scale },
            moved: 0,
        }
    }

    /// Whether it has no caller.
    pub(super) fn is_idle(&self) -> bool {
        self.fixed.is_empty() && self.places.len() == self.kept.len()
    }

    fn reading(&self, at: Timestamp) -> Reading {
        Reading { at, point: self.time.point(at) }
    }

    /// Appends a caller that starts later; returns its number.
    pub(super) fn push(&mut self, charge: Charge, start: Start, wakers: &mut Wakers) -> u64 {
        let Charge { time, before, lead, end, tolerance } = charge;
        // Others have lowered the word, and what they took may have been charged again.
        let wiped = before < self.least();
        if time != self.time || wiped {
            self.fix(start.at, wakers);
            self.time = time;
            (self.moves.last, self.moves.scale) = (0, time.scale);
        }
        if self.places.is_empty() {
            (self.front, self.end, self.interleaved) = (before, before, false);
        }
        self.interleaved |= before != self.end || self.refunded > 0 && !self.places.is_empty();
        let gap = before.wrapping_sub(self.end) as i64;
        let (units, moves) = (end.saturating_sub(before), self.moves.count);
        let number = self.next;
        self.next += 1;
        self.end = end;
        self.refunded = 0;
        self.mixed |= self.places.last_key_value().is_some_and(|(_, it)| it.tolerance != tolerance);
        self.places
            .insert(number, WaitPlace { gap, units, lead, tolerance, start, moves, waker: None });
        number
    }

    /// Moves the callers whose time has come to those whose start is fixed, and wakes the next one
    /// if it has moved up.
    pub(super) fn settle(&mut self, at: Timestamp, wakers: &mut Wakers) {
        let now = self.reading(at);
        while let Some((&number, place)) = self.places.first_key_value() {
            let end = place.end(self.front);
            if end.saturating_sub(place.tolerance) > now.point {
                break;
            }
            let Some(mut place) = self.remove(number) else { break };
            if self.kept.remove(&number) {
                continue;
            }
            place.fix(&self.moves, end, now, wakers);
            let end = Some(end.saturating_add(self.moved));
            let WaitPlace { units, lead, start, .. } = place;
            self.fixed.insert(number, Fixed { start: start.at, units, lead, end });
        }
        self.wake_next(now, wakers);
    }

    /// Wakes the first caller that sleeps, if it has moved up and does not know; where tolerances
    /// differ, also all that start before it.
    fn wake_next(&mut self, now: Reading, wakers: &mut Wakers) {
        let (mut front, mut first) = (self.front, None);
        for place in self.places.values_mut() {
            front = place.end(front);
            if place.waker.is_none() {
                continue;
            }
            let start = front.saturating_sub(place.tolerance);
            if start <= *first.get_or_insert(start) && place.moves != self.moves.count {
                place.learn(&self.moves, front, now);
                wakers.wake.extend(place.waker.take());
            }
            if !self.mixed {
                return;
            }
        }
    }

    /// The start of a caller by all moves so far; `None` for one that has started. O(callers before
    /// it) after a move.
    pub(super) fn start(&mut self, number: u64, at: Timestamp) -> Option<Timestamp> {
        let now = self.reading(at);
        if let Some(fixed) = self.fixed.get(&number) {
            return Some(fixed.start);
        }
        if self.places.get(&number)?.moves != self.moves.count {
            let end = self.places.range(..=number).fold(self.front, |end, (_, it)| it.end(end));
            self.places.get_mut(&number)?.learn(&self.moves, end, now);
        }
        Some(self.places.get(&number)?.start.at)
    }

    /// Removes a caller that starts; its charge stays where it is.
    fn collect(&mut self, number: u64, at: Timestamp, wakers: &mut Wakers) {
        if self.fixed.remove(&number).is_none() {
            if let Some(place) = self.remove(number) {
                wakers.discard.extend(place.waker);
            }
        }
        self.settle(at, wakers);
    }

    /// Removes a caller that schedules its start itself, and returns that; until then, its charge
    /// does not move.
    pub(super) fn keep(
        &mut self,
        number: u64,
        at: Timestamp,
        wakers: &mut Wakers,
    ) -> Option<Timestamp> {
        self.settle(at, wakers);
        let start = self.start(number, at);
        if self.fixed.remove(&number).is_none() {
            if let Some(place) = self.places.get_mut(&number) {
                wakers.discard.extend(place.waker.take());
                self.keep_place(number);
            }
        }
        self.settle(at, wakers);
        start
    }

    /// Of neighbours that do not move, one suffices; so there are no more of them than callers.
    fn keep_place(&mut self, number: u64) {
        let next = self.places.range(number + 1..).next().map(|(number, _)| *number);
        let before = self.places.range(..number).next_back().map(|(number, _)| *number);
        if let Some(before) = before.filter(|before| self.kept.remove(before)) {
            self.remove(before);
        }
        if next.is_some_and(|next| self.kept.contains(&next)) {
            self.remove(number);
        } else {
            self.kept.insert(number);
        }
    }

    /// Removes a caller that gives up its place, and takes what its charge still covers from the
    /// word by `take_off`. Returns whether that did.
    pub(super) fn give_up(
        &mut self,
        number: u64,
        at: Timestamp,
        take_off: impl FnOnce(Removal) -> Option<TakenOff>,
        wakers: &mut Wakers,
    ) -> bool {
        self.settle(at, wakers);
        let taken = match self.fixed.remove(&number) {
            Some(Fixed { units, end: Some(end), .. }) => {
                let end = end.saturating_sub(self.moved);
                self.take_from_front((units, end), Behind::Started, at, take_off)
            }
            Some(_) => false,
            None => self.take_place(number, at, take_off, wakers),
        };
        self.settle(at, wakers);
        taken
    }

    /// Takes back a charge that started at once, if all that has been charged since are places.
    pub(super) fn take_back(
        &mut self,
        Charge { time, before, end, .. }: Charge,
        at: Timestamp,
        take_off: impl FnOnce(Removal) -> Option<TakenOff>,
        wakers: &mut Wakers,
    ) -> bool {
        self.settle(at, wakers);
        let next = self.places.first_key_value().is_some_and(|(_, place)| place.gap == 0);
        let charge = (end.saturating_sub(before), end);
        let taken = next
            && (time, end) == (self.time, self.front)
            && self.take_from_front(charge, Behind::Places, at, take_off);
        self.settle(at, wakers);
        taken
    }

    /// Takes back what a charge of `units` before the first place still covers; it ends at `end`.
    fn take_from_front(
        &mut self,
        (units, end): (u64, u64),
        behind: Behind,
        at: Timestamp,
        take_off: impl FnOnce(Removal) -> Option<TakenOff>,
    ) -> bool {
        if !self.kept.is_empty() {
            return false;
        }
        let (time, least) = (self.time, self.least().max(end.saturating_sub(self.refunded)));
        // A charge that has started and is not the last one has others behind it, known or not.
        let last_known = if behind == Behind::Places { self.last_known() } else { Some(end) };
        let (whole_until, only_known) = (None, false);
        let removal =
            Removal { time, units, end, least, whole_until, behind, last_known, only_known };
        if end <= self.reading(at).point {
            return false;
        }
        let Some(TakenOff { units, at, .. }) = take_off(removal) else { return false };
        self.end = self.end.saturating_sub(units);
        self.front = self.front.saturating_sub(units);
        self.moved = self.moved.saturating_add(units);
        self.moves_at(at);
        true
    }

    /// Takes out a place that has not started: all that is behind it moves up, as far as the next
    /// place that does not move.
    fn take_place(
        &mut self,
        number: u64,
        at: Timestamp,
        take_off: impl FnOnce(Removal) -> Option<TakenOff>,
        wakers: &mut Wakers,
    ) -> bool {
        // Before the first start, nothing of any place has drained.
        let first = self.places.first_key_value();
        let start = first.map(|(_, it)| it.end(self.front).saturating_sub(it.tolerance));
        let (time, behind, mut whole_until) = (self.time, Behind::Places, start);
        let (least, point) = (self.least(), self.reading(at).point);
        // Except for what the first one does not start on.
        let lead = first.filter(|(first, it)| **first == number && it.lead > 0);
        let lead = lead.map(|(_, it)| it.end(self.front).saturating_sub(it.units));
        let Some(place) = self.places.get_mut(&number) else { return false };
        wakers.discard.extend(place.waker.take());
        let (mut units, end) = (place.units, self.end);
        match lead {
            Some(begins) if begins < point => units -= place.lead,
            Some(begins) => whole_until = whole_until.min(Some(begins)),
            None => {}
        }
        let kept = self.kept.range(number..).next().copied();
        if let Some(kept) = kept.and_then(|kept| self.places.get_mut(&kept)) {
            kept.gap = kept.gap.saturating_add_unsigned(units);
            self.moves_at(at);
        } else {
            let (last_known, only_known) = (self.last_known(), false);
            let removal =
                Removal { time, units, end, least, whole_until, behind, last_known, only_known };
            let Some(taken) = take_off(removal) else {
                self.remove(number);
                return false;
            };
            self.end = self.end.saturating_sub(units);
            self.moves_at(taken.at);
        }
        if let Some(place) = self.places.get_mut(&number) {
            place.units -= units;
        }
        self.remove(number);
        kept.is_none()
    }

    fn moves_at(&mut self, at: Timestamp) {
        self.moves.count += 1;
        self.moves.last = self.moves.last.max(self.reading(at).point);
    }

    /// Where the word's TAT is if places are all that has been charged since the first one.
    fn last_known(&self) -> Option<u64> {
        (!self.interleaved && self.refunded == 0).then_some(self.end)
    }

    /// The least TAT of a word that still has the charges of all places.
    fn least(&self) -> u64 {
        self.end.saturating_sub(self.refunded)
    }

    /// Notes that the key's word was lowered by a refund.
    pub(super) fn refunded(&mut self, units: u64) {
        self.refunded = self.refunded.saturating_add(units);
    }

    /// Notes that the key's word was lowered by what others gave back: what has started may have
    /// moved up by as much.
    pub(super) fn given_back(&mut self, units: u64, at: Timestamp, wakers: &mut Wakers) {
        // Those whose start has come are among them, and are recorded where they were.
        self.settle(at, wakers);
        self.refunded(units);
        self.moved = self.moved.saturating_add(units);
    }

    /// Removes a place whose charge, as far as it has one, stays where it is.
    fn remove(&mut self, number: u64) -> Option<WaitPlace> {
        let place = self.places.remove(&number)?;
        match self.places.range_mut(number..).next() {
            Some((_, next)) => next.gap = next.gap.saturating_add(place.extent()),
            None => self.end = self.end.saturating_add_signed(place.extent().saturating_neg()),
        }
        Some(place)
    }

    /// Removes all traces of a caller whose clock fails.
    pub(super) fn abandon(&mut self, number: u64, wakers: &mut Wakers) {
        self.fixed.remove(&number);
        if let Some(place) = self.remove(number) {
            wakers.discard.extend(place.waker);
        }
        // It looks after those behind it.
        let next = self.places.values_mut().find_map(|place| place.waker.take());
        wakers.wake.extend(next);
    }

    /// Fixes all starts: from here on the charges are not taken back. Any reading serves: it is for
    /// the conversion of points to times.
    pub(super) fn fix(&mut self, at: Timestamp, wakers: &mut Wakers) {
        let now = self.reading(at);
        let mut end = self.front;
        for (number, mut place) in mem::take(&mut self.places) {
            end = place.end(end);
            if self.kept.remove(&number) {
                continue;
            }
            place.fix(&self.moves, end, now, wakers);
            let WaitPlace { units, lead, start, .. } = place;
            self.fixed.insert(number, Fixed { start: start.at, units, lead, end: None });
        }
        for fixed in self.fixed.values_mut() {
            fixed.end = None;
        }
    }
}
