//! How a node came into its cluster.

/// How a node came into its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// It has taken over the state of another node.
    Joined,
    /// It founded the cluster: it was given no other node, or all that it was given answered and
    /// none of them had joined either.
    Founded,
    /// It founded a cluster because no node with a state answered in time. It goes on dialling:
    /// when it meets another cluster, the two become one.
    FoundedAlone,
}

impl JoinKind {
    /// Whether the node founded its cluster.
    #[must_use]
    pub fn is_founding(self) -> bool {
        self != Self::Joined
    }
}
