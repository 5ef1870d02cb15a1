//! A link and its two ends.

use std::collections::VecDeque;

use bytes::Bytes;
use tidegate_cluster::protocol::{Channel, LinkId};

use crate::time::Nanos;

/// One end of a link: the node's place, its life, and its name for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    pub place: usize,
    pub life: u32,
    pub link: LinkId,
}

/// What travels to one end of a link.
#[derive(Debug)]
pub(super) enum Carried {
    /// The end of the handshake; first on the stream.
    Accept,
    Message(Channel, Bytes),
    Datagram(Bytes),
    Close,
}

/// The dialler's end is the first.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) ends: [LinkEnd; 2],
}

#[derive(Debug)]
pub(super) struct LinkEnd {
    pub(super) place: usize,
    pub(super) life: u32,
    /// `None` until the node has accepted the link.
    pub(super) link: Option<LinkId>,
    /// What has arrived on the streams before that: a node that is stopped accepts nothing.
    pub(super) unread: VecDeque<Carried>,
    pub(super) closed_at: Option<Nanos>,
    /// Sent to this end while the path to it was cut.
    pub(super) held: VecDeque<Carried>,
    /// When the last message of each channel arrives here.
    last: [Nanos; 2],
}

impl Link {
    pub(super) fn new(from: End, to: (usize, u32), gone: Option<Nanos>) -> Self {
        let end = |place, life, link, closed_at| LinkEnd {
            place,
            life,
            link,
            unread: VecDeque::new(),
            closed_at,
            held: VecDeque::new(),
            last: [0; 2],
        };
        let dialler = end(from.place, from.life, Some(from.link), None);
        Self { ends: [dialler, end(to.0, to.1, None, gone)] }
    }
}

impl LinkEnd {
    /// When something arrives that would arrive `at`: behind what was sent before it on its
    /// channel. The handshake is before both.
    pub(super) fn in_order(&mut self, what: &Carried, at: Nanos) -> Nanos {
        match what {
            Carried::Accept => {
                self.last = [at; 2];
                at
            }
            Carried::Message(channel, _) => {
                let last = &mut self.last[usize::from(*channel == Channel::State)];
                *last = at.max(*last);
                *last
            }
            Carried::Datagram(_) | Carried::Close => at,
        }
    }
}
