//! The network's conditions, and what changes them: cuts, and nodes that stop, start and end.

use rand::{Rng, RngExt};

use super::{Delivery, IDLE_TIMEOUT, Input, KEEP_ALIVE, MAX_BACKOFF, NetEvent, Network};
use crate::time::{MS, Nanos};

/// How packets travel.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The least delay of a direction; directions differ by `spread`.
    pub delay: Nanos,
    /// At most this much is added to a packet.
    pub jitter: Nanos,
    /// The delay of a direction is longer by up to this.
    pub spread: Nanos,
    pub loss: f64,
    pub doubled: f64,
    /// Beyond a round trip, how long it takes to mend a loss on a stream.
    pub mend: (Nanos, Nanos),
}

impl Conditions {
    /// The least delay from one node to another: each direction has its own.
    fn base(&self, from: usize, to: usize) -> Nanos {
        if self.spread == 0 {
            return self.delay;
        }
        let mixed = crate::rules::key_bits((from as u64) << 16 | to as u64);
        self.delay + mixed % self.spread
    }

    pub(super) fn delay(&self, rng: &mut impl Rng, from: usize, to: usize) -> Nanos {
        self.base(from, to) + rng.random_range(0..=self.jitter)
    }

    /// What the losses of a message on a stream add.
    pub(super) fn mending(&self, rng: &mut impl Rng, from: usize, to: usize) -> Nanos {
        let mut late = 0;
        while self.loss > 0.0 && rng.random_bool(self.loss) {
            late += self.base(from, to) + self.base(to, from) + self.jitter;
            late += rng.random_range(self.mend.0..=self.mend.1);
        }
        late
    }

    /// A node's estimate of the time in transit: half of a smoothed round trip.
    pub(super) fn transit(&self, a: usize, b: usize) -> Nanos {
        u64::midpoint(self.base(a, b), self.base(b, a)) + self.jitter / 2
    }

    /// The longest that something on a stream takes, but for one in a million.
    pub fn longest(&self) -> Nanos {
        let oneway = self.delay + self.spread + self.jitter;
        let losses = if self.loss > 0.0 { (-14.0 / self.loss.ln()).ceil() as u64 } else { 0 };
        oneway + losses * (2 * oneway + self.mend.1)
    }
}

impl Network {
    /// A node starts at a place.
    pub fn started(&mut self, place: usize, life: u32) {
        if self.lives.len() <= place {
            self.lives.resize(place + 1, None);
        }
        self.lives[place] = Some(life);
    }

    /// The node is gone, without a word: its peers receive nothing.
    pub fn ended(&mut self, now: Nanos, place: usize) {
        self.lives[place] = None;
        self.stopped.remove(&place);
        for link in 0..self.links.len() {
            for side in [0, 1] {
                if self.links[link].ends[side].place == place {
                    self.links[link].ends[side].closed_at.get_or_insert(now);
                    self.plan_silence(now, link, 1 - side);
                }
            }
        }
    }

    /// The node is stopped: it answers nothing until it goes on.
    pub fn stopped(&mut self, now: Nanos, place: usize) {
        self.stopped.insert(place, now);
        self.watch(now, |from, _| from == place);
    }

    pub fn goes_on(&mut self, now: Nanos, place: usize) {
        self.stopped.remove(&place);
        // Peers may have closed meanwhile: the first packets are answered by resets.
        for link in 0..self.links.len() {
            for side in [0, 1] {
                if self.links[link].ends[side].place == place {
                    self.events.plan(now + MS, NetEvent::Silence { link, side });
                }
            }
        }
    }

    /// Drops all packets from one node to another from now on.
    pub fn cut(&mut self, now: Nanos, from: usize, to: usize) {
        self.cuts.entry((from, to)).or_insert(now);
        self.watch(now, |a, b| (a, b) == (from, to));
    }

    /// Ends a cut; what streams hold arrives when its retransmission's turn has come.
    pub fn mend(&mut self, now: Nanos, from: usize, to: usize) {
        let Some(since) = self.cuts.remove(&(from, to)) else { return };
        for link in 0..self.links.len() {
            for side in [0, 1] {
                let ends = &mut self.links[link].ends;
                if ends[1 - side].place != from || ends[side].place != to {
                    continue;
                }
                let held = std::mem::take(&mut ends[side].held);
                let backoff = (now - since).min(MAX_BACKOFF);
                let at = now + self.rng.random_range(0..=backoff);
                for what in held {
                    let at = self.links[link].ends[side].in_order(&what, at);
                    self.events.plan(at, NetEvent::Carry { link, side, what });
                }
                self.events.plan(at + KEEP_ALIVE, NetEvent::Silence { link, side });
            }
        }
    }

    pub fn cuts(&self) -> Vec<(usize, usize)> {
        self.cuts.keys().copied().collect()
    }

    /// A link that has just opened may be silent already.
    pub(super) fn watch_link(&mut self, now: Nanos, link: usize) {
        for side in [0, 1] {
            self.plan_silence(now, link, side);
        }
    }

    /// Looks, after the idle timeout, at the ends that no longer receive anything.
    fn watch(&mut self, now: Nanos, silent: impl Fn(usize, usize) -> bool) {
        for link in 0..self.links.len() {
            for side in [0, 1] {
                let ends = &self.links[link].ends;
                if silent(ends[1 - side].place, ends[side].place) {
                    self.plan_silence(now, link, side);
                }
            }
        }
    }

    pub(super) fn plan_silence(&mut self, now: Nanos, link: usize, side: usize) {
        if self.links[link].ends[side].closed_at.is_none() {
            self.events.plan(now + IDLE_TIMEOUT, NetEvent::Silence { link, side });
        }
    }

    /// Closes an end that has received nothing for the idle timeout, or whose packets a living node
    /// answers with a reset.
    pub(super) fn fall_silent(&mut self, now: Nanos, link: usize, side: usize) -> Option<Delivery> {
        let [own, other] = [side, 1 - side].map(|side| &self.links[link].ends[side]);
        if own.closed_at.is_some() {
            return None;
        }
        let cut = self.cuts.get(&(other.place, own.place)).copied();
        let silent = [cut, self.stopped.get(&other.place).copied(), other.closed_at];
        let since = silent.into_iter().flatten().min()?;
        let is_reset = other.closed_at.is_some()
            && self.lives[other.place] == Some(other.life)
            && cut.is_none()
            && !self.is_cut(own.place, other.place);
        if since + IDLE_TIMEOUT > now && !is_reset {
            self.events.plan(since + IDLE_TIMEOUT, NetEvent::Silence { link, side });
            return None;
        }
        let (place, life, id) = (own.place, own.life, own.link);
        self.links[link].ends[side].closed_at = Some(now);
        // The other end receives nothing from now on either, or a reset.
        self.events.plan(now + KEEP_ALIVE, NetEvent::Silence { link, side: 1 - side });
        self.plan_silence(now, link, 1 - side);
        Some(Delivery { place, life, input: Input::Closed { link: id? } })
    }
}
