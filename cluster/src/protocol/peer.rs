//! A node that this one dials.

use std::net::SocketAddr;

use super::action::LinkId;
use super::bounds::VERSION;
use super::cursor::Cursor;
use super::id::NodeId;
use super::subject::Subject;
use super::time::{Nanos, SECOND};
use super::wire::Position;

/// How an address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Other members say that it is a member.
    Hearsay,
    /// Its node has opened a link.
    Proven,
}

/// Where an earlier run of a node is there, links to it are closed at most this often because
/// another run is.
const CONTENDED_EVERY: Nanos = 10 * SECOND;

/// A node that is dialled.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) seed: bool,
    /// Its node is known by this other address.
    pub(super) alias: Option<SocketAddr>,
    /// It has shown by a handshake that it is a node of the cluster.
    pub(super) proven: bool,
    pub(super) dial: Dial,
    /// When its link was opened last.
    pub(super) opened_at: Nanos,
    /// Its node has opened a link, and is to have answered on this one by then.
    pub(super) answer_by: Option<Nanos>,
    pub(super) attempts: u32,
    /// The version that both speak on the present link.
    pub(super) version: u16,
    /// What the certificate of the last link names.
    pub(super) subject: Option<Subject>,
    /// Its identity, once it has sent `Welcome`.
    pub(super) id: Option<NodeId>,
    /// It has a state: it founded its cluster, or has taken over another node's state.
    pub(super) joined: bool,
    /// The position and freshness the peer has sent, kept until this node has joined.
    pub(super) resume: Option<(Option<Position>, bool)>,
    pub(super) down_since: Option<Nanos>,
    pub(super) announce_at: Nanos,
    /// When its link was closed last because an earlier run of it has opened one.
    pub(super) contended_at: Option<Nanos>,
    pub(super) delivery: Delivery,
}

/// What has been sent to a peer.
#[derive(Debug)]
pub(super) struct Delivery {
    /// Where it stands in this node's log.
    pub(super) cursor: Option<Cursor>,
    /// When it acknowledged something last, or sent its position.
    pub(super) acked_at: Nanos,
    pub(super) traffic: Traffic,
}

/// What has passed between this node and a peer since it is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) frames_sent: u64,
    pub(super) frames_resent: u64,
    pub(super) frames_received: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) gaps: u64,
}

/// The state of the link to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dial {
    Waiting { until: Nanos },
    Dialling { link: LinkId, since: Nanos },
    Open { link: LinkId, welcomed: bool, flowing: bool },
}

impl Peer {
    pub(super) fn seed(now: Nanos) -> Self {
        Self { seed: true, ..Self::new(now) }
    }

    pub(super) fn new(now: Nanos) -> Self {
        Self {
            seed: false,
            alias: None,
            proven: false,
            dial: Dial::Waiting { until: now },
            opened_at: 0,
            answer_by: None,
            attempts: 0,
            version: VERSION,
            subject: None,
            id: None,
            joined: false,
            resume: None,
            down_since: None,
            announce_at: 0,
            contended_at: None,
            delivery: Delivery { cursor: None, acked_at: now, traffic: Traffic::default() },
        }
    }

    pub(super) fn cursor(&self) -> Option<&Cursor> {
        self.delivery.cursor.as_ref()
    }

    pub(super) fn open_link(&self) -> Option<LinkId> {
        match self.dial {
            Dial::Open { link, .. } => Some(link),
            _ => None,
        }
    }

    /// The link, once the peer has sent `Welcome`.
    pub(super) fn welcomed_link(&self) -> Option<LinkId> {
        match self.dial {
            Dial::Open { link, welcomed: true, .. } => Some(link),
            _ => None,
        }
    }

    /// By when it is to have answered on its link, if it is there and has not.
    pub(super) fn unanswered_by(&self) -> Option<Nanos> {
        let is_unanswered = matches!(self.dial, Dial::Open { welcomed: false, .. });
        self.answer_by.filter(|_| is_unanswered)
    }

    /// Whether frames are sent to it.
    pub(super) fn is_flowing(&self) -> bool {
        matches!(self.dial, Dial::Open { flowing: true, .. })
    }

    /// Whether the link is one to another run than that of this generation, which is there. Whether
    /// a later run is over is not certain: another node may have the same address, and then both
    /// are there again and again.
    pub(super) fn is_over(&self, now: Nanos, generation: u64) -> bool {
        let is_recent = |at: Nanos| now.saturating_sub(at) < CONTENDED_EVERY;
        let is_contended = self.contended_at.is_some_and(is_recent);
        !is_contended && self.generation().is_some_and(|known| known != generation)
    }

    pub(super) fn generation(&self) -> Option<u64> {
        self.id.map(|id| id.generation)
    }

    pub(super) fn link(&self) -> Option<LinkId> {
        match self.dial {
            Dial::Dialling { link, .. } | Dial::Open { link, .. } => Some(link),
            Dial::Waiting { .. } => None,
        }
    }
}
