//! The links that other nodes opened.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Deref;

use super::action::LinkId;
use super::inbound::{Flow, Inbound};
use super::time::Nanos;

/// The links, and what is asked of all of them with every message: which are due, of which node
/// they are, and which wait for a state.
#[derive(Debug, Default)]
pub(super) struct Inbounds {
    by_link: BTreeMap<LinkId, Inbound>,
    due: BTreeSet<(Nanos, LinkId)>,
    by_addr: BTreeMap<SocketAddr, LinkId>,
    gaps: BTreeSet<LinkId>,
}

/// How a link is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Index {
    due: Option<Nanos>,
    addr: Option<SocketAddr>,
    is_gap: bool,
}

impl Index {
    fn of(inbound: &Inbound) -> Self {
        let (due, addr) = (inbound.due(), inbound.id.map(|id| id.addr));
        Self { due, addr, is_gap: inbound.flow == Flow::Gap }
    }
}

impl Deref for Inbounds {
    type Target = BTreeMap<LinkId, Inbound>;

    fn deref(&self) -> &Self::Target {
        &self.by_link
    }
}

impl Inbounds {
    pub(super) fn insert(&mut self, link: LinkId, inbound: Inbound) {
        self.remove(link);
        self.enter(link, Index::of(&inbound));
        self.by_link.insert(link, inbound);
    }

    pub(super) fn remove(&mut self, link: LinkId) -> Option<Inbound> {
        let inbound = self.by_link.remove(&link)?;
        self.delete(link, Index::of(&inbound));
        Some(inbound)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Changes a link. `None` where there is none.
    pub(super) fn change<T>(
        &mut self,
        link: LinkId,
        change: impl FnOnce(&mut Inbound) -> T,
    ) -> Option<T> {
        let inbound = self.by_link.get_mut(&link)?;
        let before = Index::of(inbound);
        let result = change(inbound);
        let after = Index::of(inbound);
        if before != after {
            self.delete(link, before);
            self.enter(link, after);
        }
        Some(result)
    }

    /// When the next link is due.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The links that are due, in their order.
    pub(super) fn due(&self, now: Nanos) -> Vec<LinkId> {
        let due = self.due.range(..=(now, LinkId(u64::MAX)));
        let mut links: Vec<LinkId> = due.map(|(_, link)| *link).collect();
        links.sort_unstable();
        links
    }

    /// The link that the node at an address has opened, once it has identified itself.
    pub(super) fn from(&self, addr: SocketAddr) -> Option<LinkId> {
        self.by_addr.get(&addr).copied()
    }

    /// The oldest link on which no node has identified itself; a member may open any number of
    /// those.
    pub(super) fn oldest_silent(&self) -> Option<LinkId> {
        self.by_link.iter().find(|(_, inbound)| inbound.id.is_none()).map(|(link, _)| *link)
    }

    /// The links whose diallers have announced a gap.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (LinkId, &Inbound)> {
        self.gaps.iter().filter_map(|link| Some((*link, self.by_link.get(link)?)))
    }

    fn enter(&mut self, link: LinkId, index: Index) {
        self.due.extend(index.due.map(|at| (at, link)));
        self.by_addr.extend(index.addr.map(|addr| (addr, link)));
        self.gaps.extend(index.is_gap.then_some(link));
    }

    fn delete(&mut self, link: LinkId, index: Index) {
        if let Some(at) = index.due {
            self.due.remove(&(at, link));
        }
        if let Some(addr) = index.addr.filter(|addr| self.from(*addr) == Some(link)) {
            self.by_addr.remove(&addr);
        }
        if index.is_gap {
            self.gaps.remove(&link);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::id::NodeId;
    use crate::protocol::subject::Subject;

    fn addr(port: u64) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port as u16))
    }

    proptest! {
        #[test]
        fn links_are_found_as_by_a_search(
            changes in proptest::collection::vec((0..6_u64, 0..6_u64, 0..20_u64), 1..60),
        ) {
            let mut inbounds = Inbounds::default();
            for (link, change, value) in changes {
                let subject = Subject::node(addr(link));
                let set = |inbounds: &mut Inbounds, flow| {
                    inbounds.change(LinkId(link), |inbound| inbound.flow = flow)
                };
                match change {
                    0 => inbounds.insert(LinkId(link), Inbound::new(value, subject)),
                    1 => drop(inbounds.remove(LinkId(link))),
                    // Each node has one link that has greeted.
                    2 => drop(inbounds.change(LinkId(link), |inbound| {
                        inbound.id = Some(NodeId::new(addr(link), value));
                    })),
                    3 => drop(inbounds.change(LinkId(link), |inbound| {
                        inbound.ack_at = (value > 0).then_some(value);
                    })),
                    4 => drop(set(&mut inbounds, Flow::Gap)),
                    _ => drop(set(&mut inbounds, Flow::Frames)),
                }
                let all = || inbounds.iter();
                prop_assert_eq!(inbounds.deadline(), all().filter_map(|(_, l)| l.due()).min());
                let due = all().filter(|(_, l)| l.due().is_some_and(|at| at <= value));
                prop_assert_eq!(inbounds.due(value), due.map(|(id, _)| *id).collect::<Vec<_>>());
                let gaps = all().filter(|(_, l)| l.flow == Flow::Gap).map(|(id, _)| *id);
                let found = inbounds.gaps().map(|(id, _)| id);
                prop_assert_eq!(found.collect::<Vec<_>>(), gaps.collect::<Vec<_>>());
                for port in 0..6 {
                    let is_from = |l: &Inbound| l.id.is_some_and(|id| id.addr == addr(port));
                    let from = all().find(|(_, l)| is_from(l)).map(|(id, _)| *id);
                    prop_assert_eq!(inbounds.from(addr(port)), from);
                }
            }
        }
    }
}
