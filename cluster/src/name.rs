//! Names: of a cluster, and those that a certificate gives a node.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::protocol::Subject;

/// The longest name, in bytes, as that of a DNS label.
const MAX_BYTES: usize = 63;
/// The scheme of the URIs by which certificates name nodes.
const SCHEME: &str = "tidegate://";

/// The name of a cluster: 1 to 63 lower-case letters, digits and hyphens.
///
/// Every node's certificate states it, and no node accepts one that states another: clusters with
/// different names stay apart even if they share a secret or a certificate authority.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterName(Box<str>);

impl ClusterName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URI by which a certificate names the node at this address.
    pub(crate) fn uri_of(&self, node: SocketAddr) -> String {
        format!("{SCHEME}{self}/{node}")
    }

    /// The nodes of this cluster among the URIs of a certificate; `None` when there are none.
    ///
    /// A URI names the cluster as its host, and the node as its path: `tidegate://CLUSTER/IP:PORT`,
    /// or `tidegate://CLUSTER/IP` for nodes at any port. An IPv6 address with a port is in
    /// brackets. Others are left out.
    pub(crate) fn subject_of<'a>(&self, uris: impl Iterator<Item = &'a str>) -> Option<Subject> {
        Subject::new(uris.filter_map(|uri| self.node_of(uri)))
    }

    fn node_of(&self, uri: &str) -> Option<(IpAddr, Option<u16>)> {
        let (cluster, node) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        if cluster != self.as_str() {
            return None;
        }
        let host = || Some((node.parse().ok()?, None));
        let addr = |addr: SocketAddr| (addr.ip(), Some(addr.port()));
        node.parse().ok().map(addr).or_else(host)
    }
}

impl Default for ClusterName {
    /// `tidegate`.
    fn default() -> Self {
        Self("tidegate".into())
    }
}

impl FromStr for ClusterName {
    type Err = ClusterNameError;

    fn from_str(text: &str) -> Result<Self, ClusterNameError> {
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(is_allowed) {
            Ok(Self(text.into()))
        } else {
            Err(ClusterNameError(()))
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterName({})", self.0)
    }
}

/// The text is not a cluster name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterNameError(());

impl fmt::Display for ClusterNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the name of a cluster is 1 to {MAX_BYTES} lower-case letters, digits and hyphens"
        )
    }
}

impl std::error::Error for ClusterNameError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(uris: &[&str]) -> Option<Subject> {
        "prod".parse::<ClusterName>().unwrap().subject_of(uris.iter().copied())
    }

    #[test]
    fn a_certificate_names_nodes_of_its_cluster_alone() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (uri, covered) in [
            ("tidegate://prod/10.0.0.1:7381", "10.0.0.1:7381"),
            ("tidegate://prod/10.0.0.1", "10.0.0.1:9"),
            ("tidegate://prod/[2001:db8::1]:7381", "[2001:db8::1]:7381"),
            ("tidegate://prod/2001:db8::1", "[2001:db8::1]:9"),
        ] {
            assert!(subject(&[uri]).unwrap().covers(addr(covered)), "{uri}");
            assert!(!subject(&[uri]).unwrap().covers(addr("10.0.0.2:7381")), "{uri}");
        }
        for uri in [
            "tidegate://test/10.0.0.1:7381",
            "tidegate://prod2/10.0.0.1:7381",
            "tidegate://prod",
            "tidegate://prod/",
            "tidegate://prod/*",
            "tidegate://prod/10.0.0.1:7381/x",
            "tidegate://prod/10.0.0.1:70000",
            "tidegate:///10.0.0.1",
            "spiffe://prod/10.0.0.1",
            "",
        ] {
            assert_eq!(subject(&[uri]), None, "{uri}");
        }
        let both = subject(&["https://example.org/", "tidegate://prod/10.0.0.1:7381"]).unwrap();
        assert!(both.covers(addr("10.0.0.1:7381")));
    }

    #[test]
    fn its_own_uri_names_the_node() {
        for text in ["10.0.0.1:7381", "[2001:db8::1]:7381"] {
            let addr: SocketAddr = text.parse().unwrap();
            let uri = "prod".parse::<ClusterName>().unwrap().uri_of(addr);
            assert_eq!(subject(&[&uri]), Some(Subject::node(addr)), "{uri}");
        }
    }

    #[test]
    fn names_are_those_of_a_dns_label() {
        for name in ["a", "prod-1", &"x".repeat(63)] {
            assert_eq!(name.parse::<ClusterName>().unwrap().as_str(), name);
        }
        for name in ["", "Prod", "a.b", "a/b", "ä", &"x".repeat(64)] {
            assert!(name.parse::<ClusterName>().is_err(), "{name}");
        }
    }
}
