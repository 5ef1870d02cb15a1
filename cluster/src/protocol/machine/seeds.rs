//! Seeds: addresses of nodes that a node dials before it knows any member.
//!
//! Some are listed from the start. Where others are looked up ([`Options::looked_up`]), the caller
//! passes those that there are at present to [`Core::seeds`], as often as it knows better. Until it
//! says that each of its sources has been found, a source counts as a seed that has not answered.
//! What is looked up may lack nodes that start at the same time, so that a list without any other
//! node is not a complete one either: then [`Options::found_after`] decides.
//!
//! An address that is no longer listed stays a peer if it has proven itself or is that of a member,
//! and then is forgotten as any other peer. Else nothing speaks for it any more.
//!
//! [`Options::looked_up`]: crate::protocol::Options::looked_up
//! [`Options::found_after`]: crate::protocol::Options::found_after

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::Core;
use crate::protocol::action::LinkId;
use crate::protocol::bounds::MAX_SEEDS;
use crate::protocol::host::Host;
use crate::protocol::peer::{Claim, Peer};
use crate::protocol::time::Nanos;

/// The seeds at present.
#[derive(Debug)]
pub(super) struct Seeds {
    /// At most [`MAX_SEEDS`], without this node's own address.
    listed: BTreeSet<SocketAddr>,
    /// Those of them at which this node has met itself.
    own: BTreeSet<SocketAddr>,
    /// The list changes.
    looked_up: bool,
    /// A source has not been found yet.
    awaited: bool,
}

impl Seeds {
    pub(super) fn new(me: SocketAddr, join: &[SocketAddr], looked_up: bool) -> Self {
        let listed = bounded(me, join);
        Self { listed, own: BTreeSet::new(), looked_up, awaited: looked_up }
    }

    /// Whether there is no other node, and never will be one.
    pub(super) fn are_none(&self) -> bool {
        self.listed.is_empty() && !self.looked_up
    }

    /// Whether there may be nodes that a source would name if it were found.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Peers to begin with.
    pub(super) fn peers(&self, now: Nanos) -> impl Iterator<Item = (SocketAddr, Peer)> {
        self.others().map(move |addr| (addr, Peer::seed(now)))
    }

    fn others(&self) -> impl Iterator<Item = SocketAddr> {
        self.listed.difference(&self.own).copied()
    }
}

fn bounded(me: SocketAddr, list: &[SocketAddr]) -> BTreeSet<SocketAddr> {
    let mut found = BTreeSet::new();
    for addr in list.iter().filter(|addr| **addr != me) {
        if found.len() >= MAX_SEEDS {
            break;
        }
        found.insert(*addr);
    }
    found
}

impl<H: Host> Core<H> {
    /// The seeds have been looked up: these are all of them, those of [`Options::join`] included,
    /// and [`MAX_SEEDS`] of them count. `complete` says that each source has been found.
    ///
    /// [`Options::join`]: crate::protocol::Options::join
    pub fn seeds(&mut self, now: Nanos, list: &[SocketAddr], complete: bool) {
        self.begin_step(now);
        let listed = bounded(self.me().addr, list);
        self.seeds.own.retain(|addr| listed.contains(addr));
        self.seeds.awaited = !complete;
        let before = std::mem::replace(&mut self.seeds.listed, listed);
        for addr in before {
            if !self.seeds.listed.contains(&addr) {
                self.end_seed(now, addr);
            }
        }
        for addr in self.seeds.others().collect::<Vec<_>>() {
            // The source that lists an address vouches for it, as a handshake does.
            if self.peers.contains_key(&addr) || self.has_place(now, Claim::Proven) {
                self.peers.get_or_insert_with(addr, || Peer::new(now)).seed = true;
                self.undialled.retain(|waiting| *waiting != addr);
            }
        }
        self.settle(now);
    }

    /// An address is no longer a seed.
    fn end_seed(&mut self, now: Nanos, addr: SocketAddr) {
        let active = self.membership.is_active(addr);
        let Some(peer) = self.peers.get_mut(&addr) else { return };
        peer.seed = false;
        if peer.proven || active {
            return;
        }
        let link = peer.link();
        self.peers.remove(&addr);
        if let Some(link) = link {
            self.close(now, link);
        }
    }

    /// At the other end of a link that was dialled for `addr` is this node: it is an address of its
    /// own, which is not dialled again as long as it is listed.
    pub(super) fn met_itself(&mut self, now: Nanos, link: LinkId, addr: SocketAddr) {
        if self.seeds.listed.contains(&addr) {
            self.seeds.own.insert(addr);
        }
        self.peers.remove(&addr);
        self.close(now, link);
    }

    /// Whether every seed has answered, so that none can have a state that this node misses.
    pub(super) fn all_seeds_have_answered(&self) -> bool {
        let mut seeds = self.peers.iter().filter(|(_, peer)| peer.seed).peekable();
        let complete = if self.seeds.looked_up {
            !self.seeds.awaited && seeds.peek().is_some()
        } else {
            !self.seeds.listed.is_empty()
        };
        complete && seeds.all(|(addr, seed)| self.has_answered(seed.alias.unwrap_or(*addr)))
    }

    fn has_answered(&self, addr: SocketAddr) -> bool {
        self.peers.get(&addr).is_some_and(|peer| peer.welcomed_link().is_some())
    }
}
