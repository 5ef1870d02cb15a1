//! What each peer is sent of the log, and of the backlog.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::Bytes;

use super::Core;
use super::void::is_void;
use crate::protocol::action::{Action, Channel, LinkId};
use crate::protocol::bounds::MAX_BATCH_DELTAS;
use crate::protocol::budget::Frames;
#[cfg(test)]
use crate::protocol::cursor::Cursor;
use crate::protocol::cursor::Next;
use crate::protocol::delta::Delta;
use crate::protocol::host::Host;
use crate::protocol::peer::{Dial, Peer};
use crate::protocol::time::Nanos;
use crate::protocol::wire::{self, Message};

/// The peers to which there may be something to send. All others have been sent what they may be,
/// so a message that changes nothing for them costs no look at them.
#[derive(Debug, Default)]
pub(super) enum Unsent {
    /// Those that have acknowledged something since all were sent what there was.
    Some(BTreeSet<SocketAddr>),
    /// Any: something has been sealed, or frames flow to another peer.
    #[default]
    Any,
}

impl Unsent {
    pub(super) fn may_be_to(&mut self, addr: SocketAddr) {
        if let Self::Some(peers) = self {
            peers.insert(addr);
        }
    }
}

/// A peer that lacks something, and its link.
struct Lagging {
    addr: SocketAddr,
    link: LinkId,
    /// It has been sent the clock, by which what it receives is dated.
    beaten: bool,
    /// It lacks only what was sealed last.
    is_close: bool,
}

impl<H: Host> Core<H> {
    /// Sends each peer what it lacks, as far as it may be in flight and there is room for it: one
    /// frame after the other to each in turn, and on from there when there is room again.
    pub(super) fn send_frames(&mut self, now: Nanos) {
        let unsent = std::mem::replace(&mut self.unsent, Unsent::Some(BTreeSet::new()));
        let mut behind = match unsent {
            // Without room, a peer whose acknowledgement is awaited counts as waiting for room.
            Unsent::Some(peers) if !self.budget.is_capped() => {
                self.behind_of(now, peers.iter().filter_map(|addr| self.peers.get_key_value(addr)))
            }
            _ => self.behind_of(now, self.peers.iter()),
        };
        // A peer that is dialled anew while this node leaves is sent what it lacks at once, too.
        if behind.is_empty() && self.budget.is_lifted() && self.is_acknowledged() {
            self.budget.end_lift();
        }
        let next = behind.iter().position(|peer| Some(peer.addr) > self.last_sent_to).unwrap_or(0);
        behind.rotate_left(next);
        let mut waits = false;
        while !behind.is_empty() && !waits {
            behind.retain_mut(|peer| {
                waits |= !self.budget.has_room(now);
                waits || self.send_frame(now, peer)
            });
        }
        if waits {
            self.unsent = Unsent::Any;
        }
        let is_new = behind.iter().any(|peer| peer.is_close);
        self.budget.set_frames(match waits {
            false => Frames::None,
            true if is_new => Frames::New,
            true => Frames::Old,
        });
    }

    /// Those of some peers that lack something.
    fn behind_of<'a>(
        &self,
        now: Nanos,
        peers: impl Iterator<Item = (&'a SocketAddr, &'a Peer)>,
    ) -> Vec<Lagging> {
        let last = self.log.last();
        // A batch that has just been sealed says what a beat does.
        let newest = self.log.newest().next().is_some_and(|batch| batch.at == now);
        let behind = peers.filter_map(|(addr, peer)| match peer.dial {
            Dial::Open { link, flowing: true, .. } => {
                let cursor = peer.cursor().filter(|cursor| !cursor.has_been_sent(last))?;
                let beaten = newest && cursor.has_been_sent(last - 1);
                Some(Lagging { addr: *addr, link, beaten, is_close: cursor.is_close_to(last) })
            }
            _ => None,
        });
        behind.collect()
    }

    /// Whether a peer has been sent what it may be for now.
    #[cfg(test)]
    pub(super) fn is_sent(&self, peer: &Peer) -> bool {
        let waits = |cursor: &Cursor| cursor.waits(self.log.base(), self.log.last());
        !peer.is_flowing() || peer.cursor().is_none_or(waits)
    }

    /// Sends a peer its next frame; false where there is none for now.
    fn send_frame(&mut self, now: Nanos, peer: &mut Lagging) -> bool {
        let Some(frame) = self.next_frame(now, peer.addr) else { return false };
        if !std::mem::replace(&mut peer.beaten, true) {
            self.beat(now, peer.link);
        }
        self.last_sent_to = Some(peer.addr);
        self.budget.spend(now, frame.len());
        self.stats.frames_sent += 1;
        self.count_sent(Some(peer.addr), frame.len());
        let (link, channel) = (peer.link, Channel::Main);
        self.actions.push_back(Action::Message { link, channel, bytes: frame });
        true
    }

    /// The next batch for a peer, or the next part of the backlog.
    fn next_frame(&mut self, now: Nanos, addr: SocketAddr) -> Option<Bytes> {
        let (base, last) = (self.log.base(), self.log.last());
        let version = self.peers.get(&addr)?.version;
        let delivery = self.peers.delivery_mut(&addr)?;
        let cursor = delivery.cursor.as_mut()?;
        match cursor.next(base, last) {
            Next::Batch(number) => {
                let again = u64::from(cursor.was_sent(number));
                self.stats.frames_resent += again;
                delivery.traffic.frames_resent += again;
                delivery.traffic.frames_sent += 1;
                cursor.sent_batch(number);
                let newest = self.options.newest_version;
                let batch = self.log.get_mut(number)?;
                self.stats.deltas_dropped += batch.encode(newest);
                batch.message_as(version, newest)
            }
            Next::Part { from, to, after } => {
                let grace = self.options.grace;
                let void = |delta: &Delta| is_void(&self.host, delta, now, grace);
                let part = self.backlog.part((from, to), after, MAX_BATCH_DELTAS, void);
                cursor.sent_part(part.upto);
                delivery.traffic.frames_sent += 1;
                let groups = wire::group(&part.deltas, now);
                let message = Message::Missed { to, at: now, upto: part.upto, groups };
                let bytes = wire::encode_as(version, &message).ok();
                bytes.map(|(bytes, _)| Bytes::from(bytes))
            }
            Next::Wait => None,
        }
    }
}
