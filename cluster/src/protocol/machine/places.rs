//! Which nodes have a place among the peers, which are dialled.
//!
//! An address proves itself by a handshake: its node opens a link, or answers a dial, and either
//! takes a certificate of the cluster. What other members say of an address proves nothing. Where
//! all places are taken, one is freed for a newcomer:
//! * by an address that has not proven itself; for another such address only after a failed dial,
//!   so all of them have their turns;
//! * else by a node that is down, the longest down first.
//!
//! So neither crashed nodes nor invented members keep out a node that is there. A peer whose link
//! is open keeps its place, and so do seeds, which are at most half of all.

use std::net::SocketAddr;

use super::Core;
use crate::protocol::bounds::MAX_PEERS;
use crate::protocol::host::Host;
use crate::protocol::peer::{Claim, Peer};
use crate::protocol::time::Nanos;

impl<H: Host> Core<H> {
    /// Makes `addr` a peer if there is a place, or one can be freed.
    pub(super) fn add_peer(&mut self, now: Nanos, addr: SocketAddr, claim: Claim) {
        if addr == self.me().addr {
            return;
        }
        if !self.peers.contains_key(&addr) {
            if !self.has_place(now, claim) {
                self.wait_for_place(addr);
                return;
            }
            self.peers.insert(addr, Peer::new(now));
        }
        self.undialled.retain(|waiting| *waiting != addr);
        if let Some(peer) = self.peers.get_mut(&addr) {
            peer.proven |= claim == Claim::Proven;
        }
    }

    /// Gives places that are free to members without one.
    pub(super) fn fill_places(&mut self, now: Nanos) {
        while let Some(addr) = self.undialled.front().copied() {
            if !self.membership.is_active(addr) {
                self.undialled.pop_front();
                continue;
            }
            if !self.has_place(now, Claim::Hearsay) {
                return;
            }
            self.add_peer(now, addr, Claim::Hearsay);
        }
    }

    /// Whether there is a place, after freeing one if need be.
    pub(super) fn has_place(&mut self, now: Nanos, claim: Claim) -> bool {
        if self.peers.len() < MAX_PEERS {
            return true;
        }
        let Some(victim) = self.victim(claim) else { return false };
        let link = self.peers.remove(&victim).and_then(|peer| peer.link());
        if let Some(link) = link {
            self.close(now, link);
        }
        if self.membership.is_active(victim) {
            self.wait_for_place(victim);
        }
        true
    }

    fn wait_for_place(&mut self, addr: SocketAddr) {
        if !self.undialled.contains(&addr) {
            self.undialled.push_back(addr);
        }
    }

    /// The peer that gives its place to a newcomer.
    fn victim(&self, claim: Claim) -> Option<SocketAddr> {
        let idle =
            || self.peers.iter().filter(|(_, peer)| !peer.seed && peer.open_link().is_none());
        let unproven =
            idle().find(|(_, peer)| !peer.proven && (peer.attempts > 0 || claim == Claim::Proven));
        let down = || {
            let down = idle().filter(|(addr, _)| !self.membership.is_active(**addr));
            let since = down.filter_map(|(addr, peer)| Some((peer.down_since?, *addr)));
            since.min().map(|(_, addr)| addr)
        };
        unproven.map(|(addr, _)| *addr).or_else(down)
    }
}
