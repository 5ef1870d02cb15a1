//! When flushes are due, and the keys that are split among the nodes.

use rand::RngExt;

use rustc_hash::FxHashSet;

use super::Core;
use crate::protocol::clock::RemoteClock;
use crate::protocol::delta::{Delta, KeyId};
use crate::protocol::host::{Host, PREFETCHED};
use crate::protocol::split::SplitTerms;
use crate::protocol::time::Nanos;

/// Keys are split anew `REFRESHES_PER_FLUSH` times in a flush interval, but not at shorter
/// distances than `MIN_REFRESH`: a node's part is then spread over the interval.
const REFRESHES_PER_FLUSH: u64 = 5;
const MIN_REFRESH: Nanos = 1_000_000;
/// Only while no more keys are split than this; else once in an interval.
const MAX_REFRESHED: usize = 64;
/// What refills until the next split is split as well: for a flush interval if that is longer, as
/// words differ by what is not sealed yet, and until the next split of the node that is delayed
/// most if that is. What is held back of it is left unused once. For each of the other nodes that
/// is at most an even part of the burst tolerance divided by the first of these, by the second
/// where a node is delayed; or what refills until the next split if that is more.
const USUAL_PART_DIVISOR: u64 = 10;
const DELAYED_PART_DIVISOR: u64 = 5;
/// Most nodes learn of use sooner than the slowest path between any two takes, by its propagation
/// time divided by this.
const SOONER_DIVISOR: u64 = 4;
/// A flush comes early by up to the interval divided by this, by chance. Where nodes flushed in
/// step, the same one would take first what has refilled, each time.
const FLUSH_JITTER_DIVISOR: u64 = 4;

/// Within this time something is sent that was recorded concurrently with a flush which did not see
/// it, if nothing else is recorded: long enough that keys which are used now and then cause no
/// wake-up for it.
const SEEN_LATE_WITHIN: Nanos = 50_000_000;

/// What decides how much is held back of a scarce key. All nodes take it for the same: one that
/// holds back less than others do takes more than its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::protocol) struct Common {
    nodes: usize,
    /// How long until others know what is consumed at one node.
    lag: Nanos,
    /// The scheduling delay of the node that is delayed most.
    run_delay: Nanos,
}

impl<H: Host> Core<H> {
    /// The host has recorded something, which the next flush takes.
    pub fn recorded(&mut self, now: Nanos) {
        self.flush_by(self.next_flush.max(now));
    }

    /// The host may have recorded something concurrently with the last flush, which did not see it:
    /// another one follows within 50 ms, or the flush interval if that is longer.
    pub fn recorded_late(&mut self, now: Nanos) {
        self.flush_by(now.saturating_add(SEEN_LATE_WITHIN).max(self.next_flush));
    }

    #[cfg(test)]
    pub(in crate::protocol) fn flush_at(&self) -> Option<Nanos> {
        self.flush_at
    }

    /// Keys whose room is split.
    #[cfg(test)]
    pub(in crate::protocol) fn split_count(&self) -> usize {
        self.splits.len()
    }

    fn flush_by(&mut self, due: Nanos) {
        self.flush_at = Some(self.flush_at.map_or(due, |at| at.min(due)));
    }

    /// A key's debt without what is provisional.
    pub(super) fn debt(&mut self, now: Nanos, id: KeyId) -> Nanos {
        self.host.debt(now, id.0, id.1).saturating_sub(self.splits.provisional(id))
    }

    /// Splits the room of keys that were used here, where it is scarce.
    pub(super) fn split_new_keys(&mut self, now: Nanos, deltas: &[Delta]) {
        if self.nodes_alive() == 1 {
            return;
        }
        let (mut common, mut new) = (None, FxHashSet::default());
        for deltas in deltas.chunks(PREFETCHED) {
            self.host.prefetch(deltas);
            for delta in deltas {
                if self.splits.is_split(delta.id()) {
                    // It was split for what was consumed under another quota.
                    if new.contains(&delta.word_id()) {
                        self.splits.add_own(delta);
                    }
                } else if self.is_scarce(now, delta.id()) {
                    let common = *common.get_or_insert_with(|| self.common());
                    self.split_key(now, delta.id(), delta.change.debt, common);
                    new.insert(delta.word_id());
                }
            }
        }
    }

    fn is_scarce(&mut self, now: Nanos, id: KeyId) -> bool {
        let Some(tolerance) = self.host.tolerance(id.0) else { return false };
        let debt = self.host.debt(now, id.0, id.1);
        self.splits.is_scarce(now, id, debt, tolerance)
    }

    /// Splits keys anew when all that was recorded is sealed, and says when the next flush is due.
    pub(super) fn split_keys(&mut self, now: Nanos) {
        if self.splits.len() > 0 {
            let common = self.common();
            for id in self.splits.keys().collect::<Vec<_>>() {
                self.split_key(now, id, 0, common);
            }
        }
        self.next_flush = self.draw_flush(now);
        self.flush_at = None;
        self.refresh_at = now.saturating_add(self.refresh_interval());
        self.answer_asked(now);
        if self.splits.len() > 0 {
            self.recorded(now);
        } else if let Some(due) = self.pace_deadline() {
            self.flush_by(due.max(self.next_flush));
        }
    }

    /// When the next flush may be, after one.
    fn draw_flush(&mut self, now: Nanos) -> Nanos {
        let interval = self.options.flush_interval;
        let early = self.rng.random_range(0..=interval / FLUSH_JITTER_DIVISOR);
        now.saturating_add(interval - early)
    }

    fn split_key(&mut self, now: Nanos, id: KeyId, own: i64, common: Common) {
        let Some(terms) = self.terms(id, common) else { return self.splits.forget(id) };
        let debt = self.host.debt(now, id.0, id.1);
        let split = self.splits.split(now, id, debt, own, terms);
        if split.was_empty {
            self.watches.emptied(now, id);
        }
        self.change_provisional(id, split.by);
    }

    fn refresh_splits(&mut self, now: Nanos) {
        let common = self.common();
        self.refresh_at = now.saturating_add(self.refresh_interval());
        for id in self.splits.keys().collect::<Vec<_>>() {
            self.refresh_split(now, id, common);
        }
    }

    fn refresh_split(&mut self, now: Nanos, id: KeyId, common: Common) {
        let Some(terms) = self.terms(id, common) else { return self.splits.forget(id) };
        let debt = self.host.debt(now, id.0, id.1);
        let by = self.splits.refresh(now, id, debt, terms);
        self.change_provisional(id, by);
    }

    /// Changes the provisional debt in a word.
    fn change_provisional(&mut self, id: KeyId, by: i64) {
        if by != 0 {
            self.watches.charged(id, by);
            self.host.shift(id.0, id.1, by);
        }
    }

    /// `None` where nothing is known of the limit.
    fn terms(&self, id: KeyId, common: Common) -> Option<SplitTerms> {
        let (tolerance, unit) = (self.host.tolerance(id.0)?, self.host.unit(id.0)?);
        let refresh = self.refresh_interval();
        let Common { nodes, lag, run_delay } = common;
        let part = |of: Nanos| tolerance / of / (nodes.max(2) as Nanos - 1);
        let usual = self.options.flush_interval.min(part(USUAL_PART_DIVISOR));
        let ahead = refresh
            .max(usual)
            .max(refresh.saturating_add(run_delay).min(part(DELAYED_PART_DIVISOR)));
        let most_know_after =
            lag - lag.saturating_sub(self.options.flush_interval) / SOONER_DIVISOR;
        Some(SplitTerms { tolerance, unit, refresh, ahead, lag, most_know_after, nodes })
    }

    fn refresh_interval(&self) -> Nanos {
        let interval = self.options.flush_interval;
        if self.splits.len() > MAX_REFRESHED {
            return interval;
        }
        (interval / REFRESHES_PER_FLUSH).max(MIN_REFRESH).min(interval)
    }

    /// The nodes that admit: this one, and the peers that are alive.
    pub(super) fn nodes_alive(&self) -> usize {
        1 + self.census().active
    }

    /// What all nodes take for the same, so each counts of itself what it has reported.
    pub(in crate::protocol) fn common(&self) -> Common {
        let delays = self.active_clocks().map(RemoteClock::reported_run_delay).max().unwrap_or(0);
        let run_delay = self.reported_run_delay().max(delays);
        Common { nodes: self.nodes_alive(), lag: self.lag(), run_delay }
    }

    /// How long until others know what is consumed at a node: a flush interval, and what the
    /// slowest way between any two nodes takes.
    pub(in crate::protocol) fn lag(&self) -> Nanos {
        let lags = self.active_clocks().map(RemoteClock::reported_lag).max().unwrap_or(0);
        self.options.flush_interval.saturating_add(self.reported_way().max(lags))
    }

    /// How old what this node receives usually is, of the node for which it takes longest.
    pub(super) fn own_way(&self) -> Nanos {
        self.active_clocks().map(RemoteClock::lag).max().unwrap_or(0)
    }

    fn active_clocks(&self) -> impl Iterator<Item = &RemoteClock> {
        let active = |addr| self.membership.is_active(addr);
        let active = self.clocks.iter().filter(move |(origin, _)| active(origin.addr));
        active.map(|(_, clock)| clock)
    }

    /// When the next flush is due, or keys are to be split anew.
    pub(super) fn flush_deadline(&self) -> Option<Nanos> {
        let refresh = (self.splits.len() > 0).then_some(self.refresh_at);
        self.flush_at.into_iter().chain(refresh).min()
    }

    pub(super) fn tick_flush(&mut self, now: Nanos) {
        if self.flush_at.is_some_and(|at| at <= now) {
            if self.take_step(now) {
                self.compare_levels(now);
            }
        } else if self.splits.len() > 0 && self.refresh_at <= now {
            self.refresh_splits(now);
        }
    }
}
