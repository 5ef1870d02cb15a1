//! Gossip between Tidegate nodes.
