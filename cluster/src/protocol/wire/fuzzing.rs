//! The decoders for fuzz targets: part of this crate under `--cfg fuzzing` alone.

use super::{Group, MemberPacket, Message, WireError, decode, decode_as, encode, encode_as};
use crate::protocol::bounds::OLDEST_VERSION;

/// What to decode bytes from another node as.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A message on a stream.
    Message,
    /// The same, in the oldest version of the format.
    Oldest,
    /// The changes in a batch.
    Groups,
    /// A membership packet.
    Packet,
}

/// The result of decoding bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded(DecodedForm);

#[derive(Debug, PartialEq, Eq)]
enum DecodedForm {
    Message(Message),
    Oldest(Message),
    Groups(Vec<Group>),
    Packet(MemberPacket),
}

impl Decoded {
    /// Decodes all of `bytes`.
    ///
    /// # Errors
    /// When they are not of this form.
    pub fn from_bytes(form: Form, bytes: &[u8]) -> Result<Self, WireError> {
        let kind = match form {
            Form::Message => DecodedForm::Message(decode(bytes)?),
            Form::Oldest => DecodedForm::Oldest(decode_as(OLDEST_VERSION, bytes)?),
            Form::Groups => DecodedForm::Groups(decode(bytes)?),
            Form::Packet => DecodedForm::Packet(MemberPacket::decode(bytes)?),
        };
        Ok(Self(kind))
    }

    /// The bytes that a node sends for this.
    ///
    /// # Errors
    /// When it is larger than a message may be.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        match &self.0 {
            DecodedForm::Message(message) => encode(message),
            DecodedForm::Oldest(message) => Ok(encode_as(OLDEST_VERSION, message)?.0),
            DecodedForm::Groups(groups) => encode(groups),
            DecodedForm::Packet(packet) => packet.encode(),
        }
    }
}
