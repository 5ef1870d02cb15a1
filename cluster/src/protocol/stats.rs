//! Counters and gauges.

use std::net::SocketAddr;
use std::time::Duration;

use crate::steps::Steps;

/// What a node has done since its start, and sizes at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Deltas taken from the limiters: one a key and flush.
    pub deltas_recorded: u64,
    /// Deltas of other nodes that were applied.
    pub deltas_applied: u64,
    /// Deltas of limits that this node does not have. They are kept for when it does.
    pub deltas_unknown: u64,
    /// Of these, those that were dropped because too many keys of such limits were in debt.
    pub unknown_dropped: u64,
    /// Deltas of other nodes that came later than a burst tolerance after they were consumed, and
    /// were reduced to what had not drained.
    pub deltas_late: u64,
    /// Deltas of other nodes that were reduced because they exceeded what a node can owe.
    pub debts_refused: u64,
    /// Levels of keys deep in debt that were sent to the peers.
    pub levels_sent: u64,
    /// Levels of other nodes that were compared with this node's words.
    pub levels_compared: u64,
    /// Deltas for peers that are behind the log, dropped because too many keys were kept for them.
    pub deltas_dropped: u64,
    /// Peers for which nothing more was kept, because too many keys were and they acknowledged
    /// nothing. They take over this node's state when they return.
    pub peers_given_up: u64,
    /// Admissions that found no room in their thread's table, or whose thread has none, and were
    /// recorded in maps that threads share. They are sent all the same.
    pub records_shared: u64,
    /// Admissions that were not recorded because too many keys were unsent.
    pub records_dropped: u64,
    /// Frames sent, each to one peer.
    pub frames_sent: u64,
    /// Of these, those that were sent before a reconnect too.
    pub frames_resent: u64,
    /// Acknowledgements sent, each for all batches of one peer since the one before.
    pub acks_sent: u64,
    /// Deltas that were not sent because an even part of what refills covers them, on keys that are
    /// far from their limit; or because they had drained while they waited for room, as bytes are
    /// capped.
    pub deltas_covered: u64,
    /// Keys that wait to be sent, because they are far from their limit or as bytes are capped.
    pub waiting_keys: u64,
    /// Of these, keys that are to be sent and wait for room, as bytes are capped.
    pub capped_keys: u64,
    /// Times a key that was to be sent had to wait for room.
    pub deltas_capped: u64,
    /// For how long something has waited for room, in all: keys, frames or parts of a state. As of
    /// the last step of the protocol, which is no later than the next room.
    pub capped_for: Duration,
    /// Frames applied.
    pub frames_received: u64,
    /// Parts of a backlog applied: this node was behind another one's log.
    pub parts_received: u64,
    /// Bytes of messages and datagrams sent, without what QUIC and UDP add.
    pub bytes_sent: u64,
    /// Bytes of messages and datagrams received, without what QUIC and UDP add.
    pub bytes_received: u64,
    /// Frames received again, and not applied again.
    pub frames_repeated: u64,
    /// Times this node took over another key to hash by: with its first link, and whenever it
    /// meets a cluster that is older than its own.
    pub hash_keys: u64,
    /// States taken over from another node.
    pub states_received: u64,
    /// States given to another node.
    pub states_served: u64,
    /// States that ended early because too many keys were live: the nodes that took them over learn
    /// of the rest by what changes next.
    pub states_truncated: u64,
    /// States given while more keys that were not read yet changed than are noted (524,288): the
    /// node that took the state over counts some of these changes twice, also what was given back.
    pub states_inexact: u64,
    /// Times a peer's log did not reach back far enough, so its state was requested.
    pub gaps: u64,
    /// Links closed because the other side broke the protocol.
    pub violations: u64,
    /// Links this node dialled that did not open: no answer from the address, or a failed
    /// handshake, as with a node that has another secret, or refuses this node's certificate.
    /// Dialling continues: an unreachable peer adds one every few seconds.
    pub dials_failed: u64,
    /// Incoming handshakes that failed: the dialler has another secret, speaks another protocol, or
    /// gave up.
    pub handshakes_rejected: u64,
    /// Incoming connections that had to validate their address first, because a quarter of the
    /// places for handshakes was taken.
    pub handshakes_retried: u64,
    /// Incoming connections refused because too many were open or in their handshake.
    pub links_refused: u64,
    /// Down or left members that were forgotten early because too many members are known; the
    /// longest down first.
    pub members_forgotten: u64,
    /// Times a new member was ignored because too many are known and none of them is down. A member
    /// that is down when it is first mentioned is ignored then as well.
    pub members_refused: u64,
    /// Mentions of a member as another than it says itself on its link, which were ignored.
    pub member_claims_refused: u64,
    /// Membership packets to nodes without a link.
    pub packets_unroutable: u64,
    /// Open links this node dialled.
    pub links_out: u64,
    /// Open links that other nodes dialled.
    pub links_in: u64,
    /// Members that are up but not dialled, because [`MAX_PEERS`](crate::protocol::MAX_PEERS)
    /// others are: this node sends them no deltas. 0 in a cluster of the supported size whose
    /// members are all there.
    pub peers_undialled: u64,
    /// Keys of which deltas are kept for peers that are behind the log.
    pub pending_keys: u64,
    /// 1 when this node founded a cluster, 0 when it has taken over another node's state instead,
    /// or waits for one. A node that returns to a running cluster has not founded one: 1 says that
    /// it reached no node of it, and may have given away a burst.
    pub founded: u64,
    /// Times a key was near its limit and not followed for the estimate of over-admission, for
    /// want of room.
    pub estimates_left_out: u64,
    /// Entries of the version vector: origins whose position is known.
    pub origins: u64,
    /// Whether this node decides alone: it knows of other nodes, or a source of seeds is not found,
    /// and it has a link to none; or it has [failed](crate::Cluster::has_ended).
    pub is_alone: bool,
    /// Members that are alive and have lacked a link for 10 s, to them or from them: of each pair
    /// of nodes one does not count what the other consumes. Those that decide alone are among them.
    pub unlinked: u64,
    /// For how long this node has decided alone, in all, so far.
    pub alone_for: Duration,
    /// Times this node found that it had been stopped or starved, and waited to catch up with its
    /// peers.
    pub stale: u64,
    /// Of these, times after which it decided although it had not caught up with all of them.
    pub stale_not_caught_up: u64,
    /// For how long it has waited, in all.
    pub stale_for: Duration,
    /// The longest scheduling delay within the last 10 to 20 s: by how much this node was late when
    /// it sent, received or split something, as its peers have it from its last beat. It is more
    /// than a millisecond or two where the node lacks processor time. Meanwhile all nodes hold back
    /// more of a key that is nearly used up.
    pub run_delay: Duration,
    /// How long steps of the protocol take.
    pub steps: Steps,
}

/// A node that this one dials, and what has passed between them since it does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStats {
    /// The address that is dialled.
    pub addr: SocketAddr,
    /// The link to it.
    pub link: LinkState,
    /// The age of what was last received from it, by its clock; a node that has nothing to send
    /// sends its clock every 2 to 4 s. `None` before the first time.
    pub staleness: Option<Duration>,
    /// Batches of this node that the peer has not acknowledged.
    pub unacked_batches: u64,
    /// The debt in them, as it was consumed: what has drained since is not taken off, and a debt of
    /// one limit counts as one of any other.
    pub unacked_debt: Duration,
    /// The age of the oldest of them; zero when there is none.
    pub unacked_for: Duration,
    /// Frames sent to it.
    pub frames_sent: u64,
    /// Of these, those that were sent before a reconnect too.
    pub frames_resent: u64,
    /// Frames of this peer that were applied.
    pub frames_received: u64,
    /// Bytes of messages to it, of membership too; without what QUIC and UDP add.
    pub bytes_sent: u64,
    /// Bytes of messages from it, of membership too; without what QUIC and UDP add.
    pub bytes_received: u64,
    /// Times its log did not reach back far enough.
    pub gaps: u64,
}

/// The state of a link that this node dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is dialled again after a delay.
    Waiting,
    /// It is being opened.
    Dialling,
    /// It is open; the peer has not said after which position it is to be sent frames.
    Open,
    /// Frames flow.
    Flowing,
}
