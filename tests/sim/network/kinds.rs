//! What the bytes are of.

use tidegate_cluster::protocol::Channel;

/// The first byte of messages, which says what they are (docs/internals/wire.md).
const BEAT: u8 = 4;
const BATCH: u8 = 5;
const ACK: u8 = 7;

/// Bytes that nodes have sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kinds {
    pub batches: u64,
    pub acks: u64,
    pub beats: u64,
    pub states: u64,
    pub membership: u64,
    pub others: u64,
}

impl Kinds {
    pub(super) fn add(&mut self, channel: Channel, bytes: &[u8]) {
        let kind = match (channel, bytes.first()) {
            (Channel::State, _) => &mut self.states,
            (Channel::Main, Some(&BATCH)) => &mut self.batches,
            (Channel::Main, Some(&ACK)) => &mut self.acks,
            (Channel::Main, Some(&BEAT)) => &mut self.beats,
            _ => &mut self.others,
        };
        *kind += bytes.len() as u64;
    }

    /// With their names, those that were sent since.
    pub fn since(&self, before: &Self) -> [(&'static str, u64); 6] {
        [
            ("batches", self.batches - before.batches),
            ("acks", self.acks - before.acks),
            ("beats", self.beats - before.beats),
            ("states", self.states - before.states),
            ("membership", self.membership - before.membership),
            ("others", self.others - before.others),
        ]
    }
}
