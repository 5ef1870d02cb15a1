//! The nodes that this one dials, by address.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;

use super::peer::{Delivery, Peer};

/// The peers, and how often one of them may have changed other than in what has been sent to it: so
/// what follows from all of them need not be computed anew with each message.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_addr: BTreeMap<SocketAddr, Peer>,
    revision: u64,
}

impl Deref for Peers {
    type Target = BTreeMap<SocketAddr, Peer>;

    fn deref(&self) -> &Self::Target {
        &self.by_addr
    }
}

impl Peers {
    /// Grows with each change but those of deliveries.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn get_mut(&mut self, addr: &SocketAddr) -> Option<&mut Peer> {
        self.changing().get_mut(addr)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&SocketAddr, &mut Peer)> {
        self.changing().iter_mut()
    }

    pub(super) fn get_or_insert_with(
        &mut self,
        addr: SocketAddr,
        peer: impl FnOnce() -> Peer,
    ) -> &mut Peer {
        self.changing().entry(addr).or_insert_with(peer)
    }

    pub(super) fn insert(&mut self, addr: SocketAddr, peer: Peer) {
        self.changing().insert(addr, peer);
    }

    pub(super) fn remove(&mut self, addr: &SocketAddr) -> Option<Peer> {
        self.changing().remove(addr)
    }

    /// All of them are replaced by others.
    pub(super) fn replace(&mut self, peers: impl Iterator<Item = (SocketAddr, Peer)>) {
        *self.changing() = peers.collect();
    }

    /// What has been sent to a peer, which changes with each message.
    pub(super) fn delivery_mut(&mut self, addr: &SocketAddr) -> Option<&mut Delivery> {
        self.by_addr.get_mut(addr).map(|peer| &mut peer.delivery)
    }

    fn changing(&mut self) -> &mut BTreeMap<SocketAddr, Peer> {
        self.revision += 1;
        &mut self.by_addr
    }
}
