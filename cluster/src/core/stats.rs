//! Counters for the metrics page.

/// What a node has done since its start, and how large things are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Deltas taken from the limiters, a key counted once a flush.
    pub deltas_recorded: u64,
    /// Deltas of other nodes that were applied.
    pub deltas_applied: u64,
    /// Deltas of limits that do not exist here.
    pub deltas_unknown: u64,
    /// Keys whose delta was dropped for one peer because too many waited.
    pub deltas_dropped: u64,
    /// Admissions that were not recorded because too many keys waited for a flush.
    pub records_dropped: u64,
    /// Frames sealed and sent, once a peer.
    pub frames_sent: u64,
    /// Frames sent once more after a reconnect.
    pub frames_resent: u64,
    /// Frames applied.
    pub frames_received: u64,
    /// Frames that came again and were not applied again.
    pub frames_repeated: u64,
    /// States taken over from another node.
    pub states_received: u64,
    /// States given to another node.
    pub states_served: u64,
    /// Times a peer's history did not reach back far enough and its state was asked for.
    pub gaps: u64,
    /// Links closed because the other side broke the protocol.
    pub violations: u64,
    /// Links this node dialled that did not open: nobody answered at the address, or the handshake
    /// failed, as it does when the other node has another secret. Dialling goes on; a peer that is
    /// unreachable adds one every few seconds.
    pub dials_failed: u64,
    /// Handshakes others began that did not succeed: they have another secret, speak another
    /// protocol, or gave up.
    pub handshakes_rejected: u64,
    /// Connections of others that were refused because too many were open or being set up.
    pub links_refused: u64,
    /// Down or left members that were forgotten before their time, because too many members are
    /// known; the longest down go first.
    pub members_forgotten: u64,
    /// Times a member was not taken note of, because too many are known and none of them is down.
    /// A member that nobody knew before it was down is not taken note of then, either.
    pub members_refused: u64,
    /// Membership packets for which there was no link.
    pub packets_unroutable: u64,
    /// Open links this node dialled.
    pub links_out: u64,
    /// Open links others dialled.
    pub links_in: u64,
    /// Members that are up but not dialled, because [`MAX_PEERS`](crate::core::MAX_PEERS) others are:
    /// this node tells them nothing. 0 in a cluster of the supported size.
    pub peers_undialled: u64,
    /// Keys with deltas that wait, summed over the peers.
    pub pending_keys: u64,
    /// Lives of other nodes whose position is known.
    pub origins: u64,
}
