//! Messages and their encoding. Every decoder bounds what it allocates and rejects trailing bytes.

use std::cmp::Ordering;
use std::fmt;

use bincode::config::{Configuration, Limit};
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode, config};
use bytes::{Buf, BufMut};
use foca::Codec as _;

use super::bounds::{
    MAX_BATCH_DELTAS, MAX_LEVELS, MAX_MESSAGE_BYTES, MAX_ORIGINS, MAX_SHIFTS, VERSION,
};
use super::change::Change;
use super::delta::{Delta, KeyId, signed};
use super::hash_key::HashKey;
use super::host::Level;
use super::id::{NodeId, Origin};
use super::time::Nanos;

/// How far a receiver has applied the deltas of one origin: an entry of its version vector, and
/// where it stands in the origin's backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(super) struct Position {
    /// The watermark: every batch of the origin up to this number is contained.
    pub through: u64,
    /// Of the backlog after it, up to a batch, every key up to this one.
    pub missed: Option<(u64, KeyId)>,
}

impl Position {
    /// Whether what is contained of the backlog, and of the batches, ends before that of a node
    /// that contains every batch up to `number`.
    pub(super) fn is_before(&self, number: u64) -> bool {
        self.missed.map_or(self.through < number, |(to, _)| to <= number)
    }
}

/// The changes of one limit's keys, with dates relative to the message's `at`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Group {
    pub limit: u64,
    /// Key, debt, and how long before `at` it was consumed.
    pub changes: Vec<(u64, i64, i64)>,
}

/// The levels of some keys right after a batch, and the cut: how far the words that they are of
/// contain each origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(super) struct Agreement {
    pub cut: Vec<(Origin, u64)>,
    pub levels: Vec<Level>,
    /// How many of the first levels are of keys that are scarce at the sender.
    pub scarce: u64,
    pub shifts: Vec<Shift>,
}

/// By how much one other node moves its word of a key: the counterpart of a move by the same
/// amount, the other way, of the node that sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Shift {
    pub to: Origin,
    pub limit: u64,
    pub key: u64,
    pub by: i64,
}

/// A message on a stream of a link. The dialler is the node that opened the link, the acceptor the
/// other one. Times are of the sender's clock.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) enum Message {
    /// Dialler, first: the newest and the oldest version that it speaks.
    Hello { version: u16, oldest: u16, id: NodeId, key: HashKey },
    /// Acceptor's answer: the version that both speak; `rank_floor` is the highest rank it knows at
    /// the dialler's address for another generation, 0 if none; whether it has `joined`.
    Welcome { version: u16, id: NodeId, rank_floor: u64, key: HashKey, joined: bool },
    /// Acceptor: frames may flow, the first one after `position`. `fresh` when the acceptor founded
    /// its cluster and has never taken over another node's state.
    Resume { position: Option<Position>, fresh: bool },
    /// Dialler: its log does not reach back to that position; the acceptor needs its state first.
    Gap,
    /// Dialler: its clock at sending. Precedes what is dated by it, and is repeated while nothing
    /// else is sent. With the smallest (received - sent) that it has of the acceptor's beats, how
    /// old what it receives of any node usually is, at most, and its longest scheduling delay of
    /// late (from version 4 on; zero before).
    Beat { now: Nanos, delay: Option<i64>, lag: Nanos, run_delay: Nanos },
    /// Dialler: the next batch, the same bytes for every peer.
    Batch { number: u64, at: Nanos, groups: Vec<Group>, levels: Agreement },
    /// Dialler: of the batches up to `to` that the acceptor lacks, the changes of the next keys, in
    /// order, up to `upto`; `None` in the last part.
    Missed { to: u64, at: Nanos, upto: Option<KeyId>, groups: Vec<Group> },
    /// Acceptor: every batch up to `number` is applied.
    Ack { number: u64 },
    /// Acceptor: of the batches up to `to`, the keys up to `key` are applied.
    AckPart { to: u64, key: KeyId },
    /// Dialler: it leaves the cluster.
    Leaving,
    /// Dialler: requests the acceptor's state. `request` is new on this link, and is repeated in
    /// the answer.
    StateRequest { request: u64 },
    /// Dialler: it cancels its request.
    StateStop,
    /// Acceptor: it cannot serve the request at present, or go on with it.
    StateBusy { request: u64 },
    /// Acceptor: a state follows, which contains what the version `vector` says.
    State { request: u64, vector: Vec<(Origin, u64)> },
    /// Acceptor: some of the entries, as of its sending; `last` in the last chunk.
    StateChunk { last: bool, entries: Vec<Level> },
    /// Dialler: acknowledges a chunk.
    StateAck,
    /// Both: the key under which it hashes keys has changed.
    Key { key: HashKey },
}

/// The changes as they are sent, with dates relative to `at`; they are sorted by limit.
pub(super) fn group(deltas: &[Delta], at: Nanos) -> Vec<Group> {
    let of_limit = |deltas: &[Delta]| Group {
        limit: deltas[0].limit,
        changes: deltas
            .iter()
            .map(|d| (d.key, d.change.debt, signed(at).saturating_sub(d.change.date)))
            .collect(),
    };
    deltas.chunk_by(|a, b| a.limit == b.limit).map(of_limit).collect()
}

/// The changes of a message whose `at` is `local` on this node's clock.
pub(super) fn ungroup(groups: Vec<Group>, local: i64) -> impl Iterator<Item = Delta> {
    groups.into_iter().flat_map(move |Group { limit, changes }| {
        changes.into_iter().flat_map(move |(key, debt, ago)| {
            let change = Change { debt, date: local.saturating_sub(ago) };
            change.parts(local).map(move |change| Delta { limit, key, change })
        })
    })
}

/// Why bytes are not a message, or a message does not fit.
#[derive(Debug)]
pub struct WireError(ErrorKind);

#[derive(Debug)]
enum ErrorKind {
    Encode(EncodeError),
    Decode(DecodeError),
    Trailing,
    TooMany,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ErrorKind::Encode(error) => write!(f, "encode: {error}"),
            ErrorKind::Decode(error) => write!(f, "decode: {error}"),
            ErrorKind::Trailing => f.write_str("trailing bytes"),
            ErrorKind::TooMany => f.write_str("more than a message may have"),
        }
    }
}

impl std::error::Error for WireError {}

/// The number of [`Message::Beat`], with which its bytes begin.
const BEAT: u32 = 4;

const CONFIG: Configuration<config::LittleEndian, config::Varint, Limit<MAX_MESSAGE_BYTES>> =
    config::standard().with_limit::<MAX_MESSAGE_BYTES>();

pub(super) fn encode<T: Encode>(value: &T) -> Result<Vec<u8>, WireError> {
    bincode::encode_to_vec(value, CONFIG).map_err(|error| WireError(ErrorKind::Encode(error)))
}

/// What the version after this one adds to a message: bytes that follow those of this version. So a
/// message of a version is one of the version before with more at its end. Greetings have no
/// additions.
fn added_next(version: u16, message: &Message) -> &'static [u8] {
    let is_greeting = matches!(message, Message::Hello { .. } | Message::Welcome { .. });
    if version > VERSION && !is_greeting { b"next" } else { b"" }
}

/// How many of a message's bytes this version adds to those of the version before.
fn added(message: &Message) -> Result<usize, WireError> {
    match message {
        Message::Beat { run_delay, .. } => encode(run_delay).map(|bytes| bytes.len()),
        _ => Ok(0),
    }
}

/// A message in a version of the format, and how many bytes of it are of the version before.
pub(super) fn encode_as(version: u16, message: &Message) -> Result<(Vec<u8>, usize), WireError> {
    let mut bytes = encode(message)?;
    let mut before = bytes.len() - added(message)?;
    match version.cmp(&VERSION) {
        Ordering::Less => bytes.truncate(before),
        Ordering::Equal => {}
        Ordering::Greater => {
            before = bytes.len();
            bytes.extend_from_slice(added_next(version, message));
        }
    }
    Ok((bytes, before))
}

/// Reads a message of a version of the format. What an older one does not have is zero.
pub(super) fn decode_as(version: u16, bytes: &[u8]) -> Result<Message, WireError> {
    // A number may come in more bytes than it needs, so its first byte alone says nothing.
    if version < VERSION && decode_first::<u32>(bytes)?.0 == BEAT {
        let (_, now, delay, lag): (u32, _, _, _) = decode(bytes)?;
        return Ok(Message::Beat { now, delay, lag, run_delay: 0 });
    }
    let (message, used) = decode_first(bytes)?;
    if bytes.get(used..) != Some(added_next(version, &message)) {
        return Err(WireError(ErrorKind::Trailing));
    }
    if is_bounded(&message) { Ok(message) } else { Err(WireError(ErrorKind::TooMany)) }
}

/// Whether a message has no more of anything than any node sends: what one costs its receiver
/// follows from that, and not from its size.
fn is_bounded(message: &Message) -> bool {
    let are_few = |groups: &[Group]| {
        let changes: usize = groups.iter().map(|group| group.changes.len()).sum();
        groups.len().max(changes) <= MAX_BATCH_DELTAS
    };
    match message {
        Message::Batch { groups, levels: Agreement { cut, levels, shifts, .. }, .. } => {
            let is_agreement = cut.len() <= MAX_ORIGINS && levels.len() <= MAX_LEVELS;
            is_agreement && shifts.len() <= MAX_SHIFTS && are_few(groups)
        }
        Message::Missed { groups, .. } => are_few(groups),
        // Those of others, and the sender's own.
        Message::State { vector, .. } => vector.len() <= MAX_ORIGINS + 1,
        Message::StateChunk { entries, .. } => entries.len() <= MAX_BATCH_DELTAS,
        _ => true,
    }
}

pub(super) fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, WireError> {
    let (value, used) = decode_first(bytes)?;
    if used == bytes.len() { Ok(value) } else { Err(WireError(ErrorKind::Trailing)) }
}

/// The value with which `bytes` begin, and its length in bytes.
fn decode_first<T: Decode<()>>(bytes: &[u8]) -> Result<(T, usize), WireError> {
    bincode::decode_from_slice(bytes, CONFIG).map_err(|error| WireError(ErrorKind::Decode(error)))
}

/// The encoding of membership packets.
pub(super) struct PacketCodec;

#[derive(Encode, Decode)]
struct Header {
    src: NodeId,
    src_incarnation: u16,
    dst: NodeId,
    message: Packet,
}

/// [`foca::Message`], which has no encoding of its own.
#[derive(Encode, Decode)]
enum Packet {
    Ping(u8),
    Ack(u8),
    PingReq(NodeId, u8),
    IndirectPing(NodeId, u8),
    IndirectAck(NodeId, u8),
    ForwardedAck(NodeId, u8),
    Announce,
    Feed,
    Gossip,
    Broadcast,
    TurnUndead,
}

impl From<&foca::Message<NodeId>> for Packet {
    fn from(message: &foca::Message<NodeId>) -> Self {
        use foca::Message as M;
        match *message {
            M::Ping(n) => Self::Ping(n),
            M::Ack(n) => Self::Ack(n),
            M::PingReq { target, probe_number } => Self::PingReq(target, probe_number),
            M::IndirectPing { origin, probe_number } => Self::IndirectPing(origin, probe_number),
            M::IndirectAck { target, probe_number } => Self::IndirectAck(target, probe_number),
            M::ForwardedAck { origin, probe_number } => Self::ForwardedAck(origin, probe_number),
            M::Announce => Self::Announce,
            M::Feed => Self::Feed,
            M::Gossip => Self::Gossip,
            M::Broadcast => Self::Broadcast,
            M::TurnUndead => Self::TurnUndead,
        }
    }
}

impl From<Packet> for foca::Message<NodeId> {
    fn from(packet: Packet) -> Self {
        match packet {
            Packet::Ping(n) => Self::Ping(n),
            Packet::Ack(n) => Self::Ack(n),
            Packet::PingReq(target, probe_number) => Self::PingReq { target, probe_number },
            Packet::IndirectPing(origin, probe_number) => {
                Self::IndirectPing { origin, probe_number }
            }
            Packet::IndirectAck(target, probe_number) => Self::IndirectAck { target, probe_number },
            Packet::ForwardedAck(origin, probe_number) => {
                Self::ForwardedAck { origin, probe_number }
            }
            Packet::Announce => Self::Announce,
            Packet::Feed => Self::Feed,
            Packet::Gossip => Self::Gossip,
            Packet::Broadcast => Self::Broadcast,
            Packet::TurnUndead => Self::TurnUndead,
        }
    }
}

/// A decoded membership packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MemberPacket {
    pub(super) header: foca::Header<NodeId>,
    pub(super) updates: Vec<foca::Member<NodeId>>,
}

impl MemberPacket {
    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, WireError> {
        let header = PacketCodec.decode_header(&mut bytes)?;
        // Without updates their number may be missing.
        let count = if bytes.is_empty() { Ok(0) } else { bytes.try_get_u16() };
        let count = count.map_err(|_| WireError(ErrorKind::Trailing))?;
        let updates = (0..count).map(|_| PacketCodec.decode_member(&mut bytes));
        let updates = updates.collect::<Result<Vec<_>, _>>()?;
        if bytes.is_empty() {
            Ok(Self { header, updates })
        } else {
            Err(WireError(ErrorKind::Trailing))
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mut bytes = Vec::new();
        PacketCodec.encode_header(&self.header, &mut bytes)?;
        if let Some(count) = u16::try_from(self.updates.len()).ok().filter(|count| *count > 0) {
            bytes.put_u16(count);
            for member in &self.updates {
                PacketCodec.encode_member(member, &mut bytes)?;
            }
        }
        Ok(bytes)
    }
}

fn put<T: Encode>(value: &T, mut buf: impl BufMut) -> Result<(), WireError> {
    // Encoded separately, so that an item that does not fit leaves the buffer unchanged.
    let bytes = encode(value)?;
    if buf.remaining_mut() < bytes.len() {
        return Err(WireError(ErrorKind::Encode(EncodeError::UnexpectedEnd)));
    }
    buf.put_slice(&bytes);
    Ok(())
}

fn get<T: Decode<()>>(mut buf: impl Buf) -> Result<T, WireError> {
    let (value, used) = bincode::decode_from_slice(buf.chunk(), CONFIG)
        .map_err(|error| WireError(ErrorKind::Decode(error)))?;
    buf.advance(used);
    Ok(value)
}

impl foca::Codec<NodeId> for PacketCodec {
    type Error = WireError;

    fn encode_header(
        &mut self,
        header: &foca::Header<NodeId>,
        buf: impl BufMut,
    ) -> Result<(), WireError> {
        let header = Header {
            src: header.src,
            src_incarnation: header.src_incarnation,
            dst: header.dst,
            message: Packet::from(&header.message),
        };
        put(&header, buf)
    }

    fn decode_header(&mut self, buf: impl Buf) -> Result<foca::Header<NodeId>, WireError> {
        let Header { src, src_incarnation, dst, message } = get(buf)?;
        Ok(foca::Header { src, src_incarnation, dst, message: message.into() })
    }

    fn encode_member(
        &mut self,
        member: &foca::Member<NodeId>,
        buf: impl BufMut,
    ) -> Result<(), WireError> {
        let state = match member.state() {
            foca::State::Alive => 0_u8,
            foca::State::Suspect => 1,
            foca::State::Down => 2,
        };
        put(&(*member.id(), member.incarnation(), state), buf)
    }

    fn decode_member(&mut self, buf: impl Buf) -> Result<foca::Member<NodeId>, WireError> {
        let (id, incarnation, state): (NodeId, u16, u8) = get(buf)?;
        let state = match state {
            0 => foca::State::Alive,
            1 => foca::State::Suspect,
            2 => foca::State::Down,
            _ => return Err(WireError(ErrorKind::Decode(DecodeError::Other("member state")))),
        };
        Ok(foca::Member::new(id, incarnation, state))
    }
}

#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(test)]
mod tests;
