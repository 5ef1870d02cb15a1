//! Giving this node's state to another node.
//!
//! The words are read in parts while they go on changing, so no step takes longer the more keys
//! there are. What has changed a word since the vector was read is taken off its entry: the entry
//! is as of the vector, aged to the present. A word that was empty meanwhile owes no more than
//! that, so nothing is left of its entry; the batches after the vector bring the rest.

use super::Core;
use crate::protocol::action::{Channel, LinkId};
use crate::protocol::bounds::MAX_BATCH_DELTAS;
use crate::protocol::delta::{Delta, KeyId};
use crate::protocol::host::{Host, Level, MAX_PART_KEYS, ScanPosition};
use crate::protocol::pull::{MAX_STATE_KEYS, Served};
use crate::protocol::split::Splits;
use crate::protocol::time::{Nanos, SECOND};
use crate::protocol::wire::Message;

/// Transfers served at the same time, at most.
const MAX_SERVED: usize = 4;
/// A transfer of which no chunk was acknowledged for this long gives its place to another one: over
/// a slow path it goes on as long as none wants that.
const UNACKED_AFTER: Nanos = 10 * SECOND;
/// Unacknowledged chunks of one transfer, at most.
const WINDOW: usize = 8;
/// Parts that are read for one chunk, at most: where few slots hold a key.
const MAX_PARTS: usize = 256;
/// Chunks that are read in a step and found empty, at most: they are not sent, as a receiver of
/// thousands of limits would wait for a round trip for each few of them. A table that is full of
/// drained keys takes longest, some milliseconds.
const MAX_EMPTY: usize = 4;
/// For how long reading pauses then, at least, and as a part of the flush interval: steps seal.
const MIN_READ_PAUSE: Nanos = SECOND / 1_000;
const READS_PER_FLUSH: u64 = 5;
/// After this long without a chunk one is sent that is empty: the transfer has not stalled.
const KEEP_ALIVE: Nanos = SECOND;
/// Keys that change during one transfer and are noted, at most: about 20 MiB.
const MAX_CHANGED_KEYS: usize = if cfg!(test) { 1 << 9 } else { 1 << 19 };

const _: () = assert!(MAX_PART_KEYS <= MAX_BATCH_DELTAS);

impl<H: Host> Core<H> {
    pub(super) fn serve_state(&mut self, now: Nanos, link: LinkId, request: u64) {
        self.end_serving(link);
        self.end_unacked(now);
        let torn = self.stale.has_unplayed() || self.awaits_rest(now);
        if torn || self.is_raising() || self.served.len() >= MAX_SERVED || !self.has_joined() {
            self.send(link, Channel::State, &Message::StateBusy { request });
            return;
        }
        self.apply_all_late(now);
        self.take_all(now);
        self.make_room_for_self(now);
        let own = self.log.last();
        let others = self.applied.iter().map(|(origin, applied)| (*origin, applied.entry()));
        let vector = others.chain([(self.me().origin(), own)]).collect();
        self.stats.states_served += 1;
        self.send_state(now, link, &Message::State { request, vector });
        let next = Some(ScanPosition::default());
        self.served.insert(link, Served { request, next, sent_at: now, ..Served::default() });
        self.serve_more(now, link, false);
    }

    /// Where all places are taken, ends the transfer of which nothing was acknowledged for longest.
    fn end_unacked(&mut self, now: Nanos) {
        if self.served.len() < MAX_SERVED {
            return;
        }
        let unacked = self.served.iter().filter(|(_, served)| served.in_flight > 0);
        let longest = unacked.map(|(link, served)| (served.acked_at, *link, served.request)).min();
        let is_over = |at: Nanos| at.saturating_add(UNACKED_AFTER) <= now;
        if let Some((_, link, request)) = longest.filter(|(at, ..)| is_over(*at)) {
            self.end_serving(link);
            self.send(link, Channel::State, &Message::StateBusy { request });
        }
    }

    /// Sends chunks up to the window; `acked` when one has been acknowledged.
    pub(super) fn serve_more(&mut self, now: Nanos, link: LinkId, acked: bool) {
        let Some(served) = self.served.get_mut(&link) else { return };
        if acked || served.in_flight == 0 {
            served.acked_at = now;
        }
        served.in_flight -= usize::from(acked && served.in_flight > 0);
        if served.in_flight >= WINDOW || served.next.is_none() {
            if served.in_flight == 0 {
                self.end_serving(link);
            }
            return;
        }
        (served.waits, served.read_at) = (!self.budget.has_room_for_states(now), None);
        if served.waits {
            return;
        }
        // What was consumed here since is in the words that are read.
        self.take_batch(now);
        let mut empty = 0;
        while empty < MAX_EMPTY && self.may_read(now, link) {
            empty += usize::from(!self.serve_chunk(now, link));
        }
        // Where chunks were sent, their acknowledgements have it go on.
        let pause = (self.options.flush_interval / READS_PER_FLUSH).max(MIN_READ_PAUSE);
        if let Some(served) = self.served.get_mut(&link).filter(|_| empty == MAX_EMPTY) {
            served.read_at = Some(now.saturating_add(pause));
        }
    }

    /// Whether there is something to read, and a chunk with it may be sent. Where bytes are capped
    /// the transfer waits for room.
    fn may_read(&mut self, now: Nanos, link: LinkId) -> bool {
        let Some(served) = self.served.get_mut(&link) else { return false };
        let is_next = served.in_flight < WINDOW && served.next.is_some();
        served.waits = is_next && !self.budget.has_room_for_states(now);
        is_next && !served.waits
    }

    /// Reads the next chunk, and sends it unless it is empty; whether it was sent.
    fn serve_chunk(&mut self, now: Nanos, link: LinkId) -> bool {
        let Some(served) = self.served.get_mut(&link) else { return false };
        let entries = read(&mut self.host, &self.splits, served);
        if served.next.is_some() && served.keys >= MAX_STATE_KEYS {
            served.next = None;
            self.stats.states_truncated += 1;
        }
        let last = served.next.is_none();
        let is_due = served.sent_at.saturating_add(KEEP_ALIVE) <= now;
        let is_sent = last || is_due || !entries.is_empty();
        if is_sent {
            served.in_flight += 1;
            served.sent_at = now;
            self.send_state(now, link, &Message::StateChunk { last, entries });
        }
        is_sent
    }

    /// When the next chunks are read of a transfer that has come upon empty ones.
    pub(super) fn serve_deadline(&self) -> Option<Nanos> {
        self.served.values().filter_map(|served| served.read_at).min()
    }

    /// Goes on with transfers that wait for room, or that have only read for a while.
    pub(super) fn serve_waiting(&mut self, now: Nanos) {
        let is_due =
            |served: &Served| served.waits || served.read_at.is_some_and(|read_at| read_at <= now);
        let due = self.served.iter().filter(|(_, served)| is_due(served));
        let due: Vec<_> = due.map(|(link, _)| *link).collect();
        for link in &due {
            self.serve_more(now, *link, false);
        }
        self.budget.set_states_wait(self.served.values().any(|served| served.waits));
        if !due.is_empty() {
            // What was sealed as they were read.
            self.send_frames(now);
        }
    }

    fn send_state(&mut self, now: Nanos, link: LinkId, message: &Message) {
        let before = self.stats.bytes_sent;
        self.send(link, Channel::State, message);
        let bytes = self.stats.bytes_sent - before;
        self.budget.spend_on_states(now, usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Words have changed by these: states that are being served are as of before.
    pub(super) fn note_changes(&mut self, deltas: &[Delta]) {
        for served in self.served.values_mut() {
            let mut are_noted = true;
            for delta in deltas {
                are_noted &= served.note(delta, MAX_CHANGED_KEYS);
            }
            if !are_noted && !std::mem::replace(&mut served.is_inexact, true) {
                self.stats.states_inexact += 1;
            }
        }
    }

    /// Ends transfers that are not all read; their receivers request again.
    pub(super) fn stop_serving(&mut self) {
        let stopped = self.served.iter().filter(|(_, served)| served.next.is_some());
        let stopped: Vec<_> = stopped.map(|(link, served)| (*link, served.request)).collect();
        for (link, request) in stopped {
            self.end_serving(link);
            self.send(link, Channel::State, &Message::StateBusy { request });
        }
    }

    pub(super) fn end_serving(&mut self, link: LinkId) {
        if let Some(served) = self.served.remove(&link) {
            self.discard.sums(served.since);
        }
    }
}

/// The entries of the next chunk.
fn read(host: &mut impl Host, splits: &Splits, served: &mut Served) -> Vec<Level> {
    let mut entries = Vec::new();
    for _ in 0..MAX_PARTS {
        let Some(part) = served.next else { break };
        if entries.len() + MAX_PART_KEYS > MAX_BATCH_DELTAS {
            break;
        }
        served.next = host.scan(part, &mut entries);
    }
    entries.retain_mut(|entry| {
        let id: KeyId = (entry.limit, entry.key);
        let since = served.since.get(&id).copied().unwrap_or(0);
        entry.debt = entry.debt.saturating_sub(splits.provisional(id));
        entry.debt = entry.debt.saturating_add_signed(since.saturating_neg());
        entry.debt > 0
    });
    served.keys += entries.len();
    entries
}
