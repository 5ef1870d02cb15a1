//! What follows from all peers together. It is asked for with every message, and computed anew only
//! once a peer or a member has changed: what a message costs does not grow with the nodes.

use std::cell::Cell;

use super::Core;
use crate::protocol::host::Host;
use crate::protocol::peer::Dial;
use crate::protocol::time::Nanos;

/// The peers, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    /// Those that are alive.
    pub(super) active: usize,
    /// Those to which frames flow.
    pub(super) flowing: usize,
    /// Those that have sent `Welcome` on the present link.
    pub(super) welcomed: usize,
    /// When one is to be dialled next.
    pub(super) dial_at: Option<Nanos>,
    /// By when one that is there is to have answered on its link.
    pub(super) answer_by: Option<Nanos>,
    /// When this node announces itself next to one that is not an active member.
    pub(super) announce_at: Option<Nanos>,
    /// Since when the one is down that has been so for longest.
    pub(super) down_since: Option<Nanos>,
}

/// The last census, and the revisions of peers and members that it is of.
pub(super) type LastCensus = Cell<Option<((u64, u64), Census)>>;

impl<H: Host> Core<H> {
    pub(super) fn census(&self) -> Census {
        let revisions = (self.peers.revision(), self.membership.revision());
        match self.census.get() {
            Some((of, census)) if of == revisions => census,
            _ => {
                let census = self.count_peers();
                self.census.set(Some((revisions, census)));
                census
            }
        }
    }

    /// Whether the census is that of the present, and all have been sent what they may be.
    #[cfg(test)]
    pub(in crate::protocol) fn knows_its_peers(&self) -> bool {
        self.census() == self.count_peers() && self.peers.values().all(|peer| self.is_sent(peer))
    }

    fn count_peers(&self) -> Census {
        let mut census = Census::default();
        for (addr, peer) in self.peers.iter() {
            let is_active = self.membership.is_active(*addr);
            census.active += usize::from(is_active);
            census.flowing += usize::from(peer.is_flowing());
            census.down_since = earlier(census.down_since, peer.down_since);
            census.answer_by = earlier(census.answer_by, peer.unanswered_by());
            match peer.dial {
                Dial::Waiting { until } => census.dial_at = earlier(census.dial_at, Some(until)),
                Dial::Open { welcomed: true, .. } => {
                    census.welcomed += 1;
                    if !is_active {
                        let at = Some(peer.announce_at);
                        census.announce_at = earlier(census.announce_at, at);
                    }
                }
                Dial::Open { .. } | Dial::Dialling { .. } => {}
            }
        }
        census
    }
}

/// The earlier of two times, where there are any.
fn earlier(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    one.into_iter().chain(other).min()
}
