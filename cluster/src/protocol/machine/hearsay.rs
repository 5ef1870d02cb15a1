//! What a membership packet may say.
//!
//! Its source is the node at the other end of the link, in the generation that this node has stated
//! there; a node that sends for another breaks the protocol. What it says of third nodes is
//! hearsay, as SWIM needs it, except where this node has a link to the third: then only that one
//! states its identity, and hearsay may at most find it silent. So a member can make others look
//! down, which they refute, but neither take their place nor push their rank to where they cannot
//! follow.

use std::borrow::Cow;
use std::net::SocketAddr;

use super::{Core, Violation};
use crate::protocol::action::LinkId;
use crate::protocol::host::Host;
use crate::protocol::id::NodeId;
use crate::protocol::time::Nanos;
use crate::protocol::wire::MemberPacket;

impl<H: Host> Core<H> {
    /// A membership packet on a link.
    pub(super) fn on_packet(
        &mut self,
        now: Nanos,
        link: LinkId,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        // Before the greeting, which datagrams may overtake, and after the end of a link they are
        // as good as lost; so are malformed ones.
        let Some(stated) = self.stated_on(link) else { return Ok(()) };
        let Ok(mut packet) = MemberPacket::decode(bytes) else { return Ok(()) };
        let source = packet.header.src;
        if source.origin() != stated.origin() {
            return Err(Violation);
        }
        if source != stated {
            self.state_on(link, source);
        }
        let before = packet.updates.len();
        packet.updates.retain(|update| self.is_credible(*update.id()));
        self.stats.member_claims_refused += (before - packet.updates.len()) as u64;
        let bytes = if packet.updates.len() == before {
            Cow::Borrowed(bytes)
        } else {
            // It was decoded, so encoding does not fail; if it did, it would be lost.
            Cow::Owned(packet.encode().unwrap_or_default())
        };
        self.membership.packet(now, &bytes);
        Ok(())
    }

    /// Whether hearsay about this identity counts: this node has no link to that address, or the
    /// node there has stated it. It may be one rank ahead, as after a packet that was lost.
    fn is_credible(&self, id: NodeId) -> bool {
        self.stated_at(id.addr).is_none_or(|stated| {
            let next = stated.rank.wrapping_add(1).max(1);
            id.generation == stated.generation && !id.outranks(next)
        })
    }

    /// The identity that the node at the other end of a link has stated.
    fn stated_on(&self, link: LinkId) -> Option<NodeId> {
        if let Some(inbound) = self.inbound.get(&link) {
            return inbound.id;
        }
        let peer = self.dialled.get(&link).and_then(|addr| self.peers.get(addr));
        peer.filter(|peer| peer.welcomed_link() == Some(link)).and_then(|peer| peer.id)
    }

    /// That node has stated another rank.
    fn state_on(&mut self, link: LinkId, id: NodeId) {
        if self.inbound.change(link, |inbound| inbound.id = Some(id)).is_none()
            && let Some(peer) = self.dialled.get(&link).and_then(|addr| self.peers.get_mut(addr))
        {
            peer.id = Some(id);
        }
    }

    /// The identity that the node at an address has stated on a link that is open.
    fn stated_at(&self, addr: SocketAddr) -> Option<NodeId> {
        let own = self.peers.get(&addr).filter(|peer| peer.welcomed_link().is_some());
        let id = own.and_then(|peer| peer.id);
        id.or_else(|| self.inbound.get(&self.inbound.from(addr)?)?.id)
    }
}
