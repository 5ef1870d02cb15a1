//! How many bytes a second a node spends on sending: a token bucket, in the core's time.
//!
//! A message is sent while there is room, and may exceed it; the next one waits until that is paid.
//! So in any time `t` a node sends at most `rate * (t + SPAN)` and one message. What counts are
//! frames and states. Greetings, clocks, acknowledgements and membership are not asked for room,
//! and pay nothing: no cap delays them.
//!
//! Frames come first. A state takes what they leave, and has a part of the rate to itself, so that
//! a node can join however much is sent.

use std::num::NonZeroU64;
use std::time::Duration;

use super::time::{Nanos, SECOND};

/// The room of a node that has sent nothing, as the time in which it refills.
const SPAN: Nanos = SECOND / 10;
/// The share of the bytes, as a divisor, that is for states, if frames take all that they can.
const STATES_DIVISOR: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Bytes a second; `None` without a cap.
    rate: Option<NonZeroU64>,
    /// Until when what was sent takes the rate, and what states took their part of it.
    spent: Nanos,
    spent_on_states: Nanos,
    /// All that waits is sent, whatever it takes.
    is_lifted: bool,
    /// Frames that wait for room.
    frames: Frames,
    /// A key that is to be sent waits to be sealed.
    keys_wait: bool,
    /// A part of a state waits for room.
    states_wait: bool,
    /// Since when something has waited, and for how long before.
    waits_since: Option<Nanos>,
    waited: Nanos,
}

/// Which frames wait for room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frames {
    #[default]
    None,
    /// For peers that are behind.
    Old,
    /// For others as well.
    New,
}

impl Budget {
    pub(super) fn new(rate: Option<NonZeroU64>) -> Self {
        Self { rate, ..Self::default() }
    }

    /// Whether there is a bound, also where it is lifted.
    pub(super) fn is_capped(&self) -> bool {
        self.rate.is_some()
    }

    fn rate(&self) -> Option<u64> {
        self.rate.filter(|_| !self.is_lifted).map(NonZeroU64::get)
    }

    /// Bytes that may be sealed now, none where there is no room; `None` without a bound. Half of
    /// the span at least: else peers that are behind would take the room as it comes, and leave
    /// none for what is new.
    pub(super) fn room(&self, now: Nanos) -> Option<u64> {
        let rate = self.rate()?;
        if !self.has_room(now) {
            return Some(0);
        }
        let left = now.saturating_add(SPAN).saturating_sub(self.spent.max(now)).max(SPAN / 2);
        let bytes = u128::from(left) * u128::from(rate) / u128::from(SECOND);
        Some(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    pub(super) fn has_room(&self, now: Nanos) -> bool {
        self.rate().is_none() || self.spent < now.saturating_add(SPAN)
    }

    pub(super) fn has_room_for_states(&self, now: Nanos) -> bool {
        self.spent_on_states < now.saturating_add(SPAN)
            || self.has_room(now) && !self.do_frames_wait() && !self.keys_wait
            || self.rate().is_none()
    }

    pub(super) fn spend(&mut self, now: Nanos, bytes: usize) {
        if let Some(rate) = self.rate() {
            self.spent = self.spent.max(now).saturating_add(time(bytes, rate));
        }
    }

    pub(super) fn spend_on_states(&mut self, now: Nanos, bytes: usize) {
        if let Some(rate) = self.rate() {
            self.spend(now, bytes);
            let part = time(bytes, (rate / STATES_DIVISOR).max(1));
            self.spent_on_states = self.spent_on_states.max(now).saturating_add(part);
        }
    }

    /// From when on there is room for a frame.
    pub(super) fn room_at(&self) -> Nanos {
        if self.rate().is_none() { 0 } else { first_with_room(self.spent) }
    }

    /// When what waits can be sent.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        let frames = self.do_frames_wait().then(|| self.room_at());
        let own = first_with_room(self.spent_on_states);
        let has_rest = !self.do_frames_wait() && !self.keys_wait;
        let states = self.states_wait.then(|| if has_rest { own.min(self.room_at()) } else { own });
        frames.into_iter().chain(states).min()
    }

    /// What waits is sent at once, until the end of the lift.
    pub(super) fn lift(&mut self) {
        self.is_lifted = self.rate.is_some();
    }

    pub(super) fn is_lifted(&self) -> bool {
        self.is_lifted
    }

    pub(super) fn end_lift(&mut self) {
        self.is_lifted = false;
    }

    pub(super) fn set_frames(&mut self, frames: Frames) {
        self.frames = frames;
    }

    /// Whether what is sealed now would wait for what was sealed before.
    pub(super) fn do_new_frames_wait(&self) -> bool {
        self.frames == Frames::New
    }

    fn do_frames_wait(&self) -> bool {
        self.frames != Frames::None
    }

    pub(super) fn set_states_wait(&mut self, waits: bool) {
        self.states_wait = waits;
    }

    pub(super) fn set_keys_wait(&mut self, waits: bool) {
        self.keys_wait = waits;
    }

    /// Notes whether anything waits.
    pub(super) fn note(&mut self, now: Nanos) {
        let waits = self.keys_wait || self.do_frames_wait() || self.states_wait;
        let since = self.waits_since.take();
        self.waited += since.map_or(0, |since| now.saturating_sub(since));
        self.waits_since = waits.then_some(now);
    }

    /// For how long something has waited, in all.
    pub(super) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited)
    }
}

/// How long `bytes` bytes take at a rate.
fn time(bytes: usize, rate: u64) -> Nanos {
    let time = bytes as u128 * u128::from(SECOND) / u128::from(rate.max(1));
    Nanos::try_from(time).unwrap_or(Nanos::MAX)
}

fn first_with_room(spent: Nanos) -> Nanos {
    (spent.saturating_add(1)).saturating_sub(SPAN)
}

#[cfg(test)]
mod tests;
