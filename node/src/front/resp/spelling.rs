//! Checks that are spelled as the one before, but for the key.
//!
//! A client asks for many keys under one quota, so what stands before and behind the key in a
//! command is mostly what it was in the last one. Where it is, byte for byte, the command is that
//! one with another key: its arguments and its terms need not be read again.

use super::command::{Command, MAX_ARG_BYTES};
use super::parser::length;

/// What is compared on either side, in bytes: a quota of usual numbers.
const MAX_BYTES: usize = 64;

/// How a check was spelled, but for its key.
#[derive(Clone, Debug)]
pub struct Spelling {
    /// Up to the header of the key.
    before: Side,
    /// From the line end of the key on.
    behind: Side,
}

#[derive(Clone, Debug)]
struct Side {
    bytes: [u8; MAX_BYTES],
    length: usize,
}

impl Side {
    fn new(bytes: &[u8]) -> Option<Self> {
        let mut side = Self { bytes: [0; MAX_BYTES], length: bytes.len() };
        side.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(side)
    }

    /// What follows it at the beginning of `input`, if that is how `input` begins.
    #[inline]
    fn strip<'a>(&self, input: &'a [u8]) -> Option<&'a [u8]> {
        input.strip_prefix(&self.bytes[..self.length])
    }
}

impl Spelling {
    /// Of a check, whose key is its first argument. `None` for one that is long, or was a line.
    pub fn of(command: &Command<'_>) -> Option<Self> {
        let (before, behind) = command.around_key()?;
        Some(Self { before: Side::new(before)?, behind: Side::new(behind)? })
    }

    /// The key of the command at the front of `input`, and the length of the command in bytes, if
    /// it is there as a whole and is spelled like this.
    #[inline]
    pub fn key<'a>(&self, input: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let rest = self.before.strip(input)?;
        let (length, begin) = length(rest, 0, b'$')?;
        if length > MAX_ARG_BYTES {
            return None;
        }
        let key = rest.get(begin..begin + length)?;
        let after = self.behind.strip(&rest[begin + length..])?;
        Some((key, input.len() - after.len()))
    }
}
