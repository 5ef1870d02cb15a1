//! The identity of the node at the other end of a link, by its certificate.

use std::net::{IpAddr, SocketAddr};

/// Nodes that one certificate names, at most.
pub const MAX_SUBJECT_NODES: usize = 16;

/// The nodes of this cluster that a certificate names: a node that holds its key may speak for
/// these addresses, and for no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject(Vec<(IpAddr, Option<u16>)>);

impl Subject {
    /// The node that peers dial at this address.
    #[must_use]
    pub fn node(addr: SocketAddr) -> Self {
        Self(vec![(addr.ip(), Some(addr.port()))])
    }

    /// Hosts, each with the port of its one node, or without for nodes at any of its ports. `None`
    /// without any; those beyond [`MAX_SUBJECT_NODES`] are left out.
    pub fn new(nodes: impl IntoIterator<Item = (IpAddr, Option<u16>)>) -> Option<Self> {
        let nodes: Vec<_> = nodes.into_iter().take(MAX_SUBJECT_NODES).collect();
        (!nodes.is_empty()).then_some(Self(nodes))
    }

    /// Whether it may speak for the node at this address.
    #[must_use]
    pub fn covers(&self, addr: SocketAddr) -> bool {
        let is = |(ip, port): &(IpAddr, Option<u16>)| {
            *ip == addr.ip() && port.is_none_or(|port| port == addr.port())
        };
        self.0.iter().any(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_left_out_is_any() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let node = Subject::node(addr("10.0.0.1:7381"));
        assert!(node.covers(addr("10.0.0.1:7381")));
        assert!(!node.covers(addr("10.0.0.1:7382")) && !node.covers(addr("10.0.0.2:7381")));
        let host = Subject::new([("10.0.0.1".parse().unwrap(), None)]).unwrap();
        assert!(host.covers(addr("10.0.0.1:7382")) && !host.covers(addr("10.0.0.2:7381")));
        assert_eq!(Subject::new([]), None);
    }
}
