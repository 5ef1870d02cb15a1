//! The protocol, as a function of its inputs: bytes, time and randomness come in as arguments;
//! datagrams, messages and deadlines come out. No sockets, clocks, threads or hash order.
//!
//! # Calling contract
//! One input at a time, each with `now` (nanoseconds since any fixed point, never going back); then
//! [`Core::poll`] until it yields nothing, carrying the actions out; then wait for the next input
//! or until [`Core::deadline`], whichever comes first, and call [`Core::tick`] for the latter.
//!
//! # Links
//! A link is an ordered, reliable, authenticated connection that one node dialled. Each node dials
//! every other one: its own frames, acknowledged by the other side, and its requests for state
//! travel on the link it dialled. Membership packets take whatever link there is.
//!
//! # Exactly once
//! What a node admits becomes batches, numbered within its generation and the same for all peers
//! (`log.rs`). A peer is a cursor into them, kept until it has acknowledged (`cursor.rs`). The
//! receiver applies number `n + 1` after `n` and nothing else, and sends its position whenever a
//! link is opened. `machine/transfer.rs` argues how a joining node enters this without missing or
//! doubling anything.
//!
//! # Modules
//! Each uses only those listed before it; a test reads this list.
//!
//! * Values: `time`, `bounds`, `action`, `id`, `subject`, `hash_key`, `join_kind`, `change`,
//!   `delta`, `host`, `event` and `stats`.
//! * Frames: `wire` encodes messages, `log` keeps numbered batches, `discard` frees what it drops
//!   in parts, `backlog` composes what the log no longer keeps, `cursor` is where a peer stands.
//! * Dates: `clock` reads another node's, `recent` keeps the batches of it that were applied,
//!   `history` the changes of a key in the order of dates, `given_back` what was given back around
//!   a stop, `unplayed` what comes while this node is stale, `idle` when a key's word was empty.
//! * Words: `agreement` compares those of two nodes, `refused` says which of this one lack what was
//!   refused, `watch` observes them, `schedule` says which levels are due, `split` shares what is
//!   left of a key among the nodes, `run_delay` says how late this one runs, `estimate` replays
//!   what was admitted beyond a limit.
//! * Sending: `drains` keeps what was drained and is not sealed, `budget` says how many bytes may
//!   be spent, `pace` which keys wait.
//! * `options`: what the core is started with.
//! * Peers: `peer` and `inbound` are the two ends of a link, `peers` and `inbounds` all of either,
//!   `pull` is a state transfer, `membership` wraps foca.
//! * `machine` owns all of them.

mod action;
mod agreement;
mod backlog;
mod bounds;
mod budget;
mod change;
mod clock;
mod cursor;
mod delta;
mod discard;
mod drains;
mod estimate;
mod event;
mod given_back;
mod hash_key;
mod history;
mod host;
mod id;
mod idle;
mod inbound;
mod inbounds;
mod join_kind;
mod log;
mod machine;
mod membership;
mod options;
mod pace;
mod peer;
mod peers;
mod pull;
mod recent;
mod refused;
mod run_delay;
mod schedule;
mod split;
mod stats;
mod subject;
mod time;
mod unplayed;
mod watch;
mod wire;

#[cfg(test)]
mod tests;

pub use action::{Action, Channel, LinkId};
pub use bounds::{
    MAX_HASH_KEYS, MAX_INBOUND, MAX_MESSAGE_BYTES, MAX_PACKET_BYTES, MAX_PEERS, MAX_SEEDS,
    MIN_BYTE_CAP,
};
#[cfg(test)]
pub(crate) use bounds::{NEXT_VERSION, OLDEST_VERSION};
pub use change::Change;
pub use delta::Delta;
pub use estimate::OverAdmission;
pub use event::Event;
pub use hash_key::HashKey;
pub use host::{Host, Level, MAX_PART_KEYS, ScanPosition};
pub use id::{NodeId, Origin};
pub use join_kind::JoinKind;
pub(crate) use machine::CATCH_UP_WITHIN;
pub use machine::Core;
pub use membership::SeenMember;
pub use options::Options;
pub use stats::{LinkState, PeerStats, Stats};
pub use subject::{MAX_SUBJECT_NODES, Subject};
pub use time::Nanos;
pub(crate) use time::nanos;
#[cfg(fuzzing)]
pub use wire::fuzzing;
