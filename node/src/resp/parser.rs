//! Requests of the Redis protocol, from bytes as they arrive.
//!
//! The parser remembers how far it has looked into an unfinished command, so a command that
//! arrives in many pieces is scanned once.

use std::ops::Range;

use super::inline::{self, UnbalancedQuotes};

/// The most arguments a command may have, its name included.
pub const MAX_ARGS: usize = 64;
/// The longest argument, in bytes.
pub const MAX_ARG_BYTES: usize = 64 * 1024;
/// The longest inline command, in bytes without its line end.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;
/// The longest line that gives a count or a length, in bytes with its line end.
const MAX_HEADER_BYTES: usize = 32;
/// What an inline command may leave allocated behind it, in bytes.
const KEPT_BYTES: usize = 1024;

/// Reads commands off the front of a byte stream.
#[derive(Debug, Default)]
pub struct Parser {
    state: State,
    /// Bytes of the unfinished command that need no second look.
    at: usize,
    args: Vec<Range<u32>>,
    /// The arguments of an inline command, unquoted.
    unquoted: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// At the first byte of a command.
    #[default]
    Start,
    /// Looking for the end of an inline command's line.
    Inline,
    /// At the header of an argument, with so many to come.
    Header { left: usize },
    /// Inside an argument of `length` bytes, with so many to come.
    Body { left: usize, length: usize },
}

/// One command: its name and arguments, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    bytes: &'a [u8],
    args: &'a [Range<u32>],
}

impl<'a> Command<'a> {
    /// Arguments, the name included. 0 for an empty line, which asks for nothing.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// The argument at `index`, with the name at 0; empty beyond the last.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args
            .get(index)
            .map_or(&[], |range| &self.bytes[range.start as usize..range.end as usize])
    }

    /// The arguments from `first` on.
    pub fn args_from(&self, first: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let args = self.args.get(first..).unwrap_or(&[]);
        args.iter().map(|range| &bytes[range.start as usize..range.end as usize])
    }
}

/// A peer that does not speak the protocol: where its next command starts can not be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    ArgumentCount,
    TooManyArguments,
    ExpectedArgument,
    ArgumentLength,
    ArgumentTooLong,
    ArgumentEnd,
    HeaderTooLong,
    InlineTooLong,
    UnbalancedQuotes,
}

impl ProtocolError {
    pub const fn message(self) -> &'static str {
        match self {
            Self::ArgumentCount => "Protocol error: invalid multibulk length",
            Self::TooManyArguments => {
                "Protocol error: invalid multibulk length, at most 64 arguments are accepted"
            }
            Self::ExpectedArgument => "Protocol error: expected '$' before an argument",
            Self::ArgumentLength => "Protocol error: invalid bulk length",
            Self::ArgumentTooLong => {
                "Protocol error: invalid bulk length, at most 65536 bytes are accepted"
            }
            Self::ArgumentEnd => "Protocol error: expected CRLF after an argument",
            Self::HeaderTooLong => "Protocol error: too big count string",
            Self::InlineTooLong => "Protocol error: too big inline request",
            Self::UnbalancedQuotes => "Protocol error: unbalanced quotes in request",
        }
    }
}

impl From<UnbalancedQuotes> for ProtocolError {
    fn from(_: UnbalancedQuotes) -> Self {
        Self::UnbalancedQuotes
    }
}

impl Parser {
    /// The next command of `input` and how many bytes it took, or `None` until more arrive.
    ///
    /// `input` begins where the previous command ended; after `None` it begins with the same bytes
    /// again, and more behind them.
    pub fn next<'a>(
        &'a mut self,
        input: &'a [u8],
    ) -> Result<Option<(Command<'a>, usize)>, ProtocolError> {
        loop {
            match self.state {
                State::Start => {
                    self.release();
                    let Some(first) = input.first() else { return Ok(None) };
                    self.args.clear();
                    self.at = 0;
                    if *first != b'*' {
                        self.state = State::Inline;
                        continue;
                    }
                    let Some(count) = self.header(input)? else { return Ok(None) };
                    let count = number(count).ok_or(ProtocolError::ArgumentCount)?;
                    // As Redis does, none and fewer are an empty command.
                    let left = usize::try_from(count).unwrap_or(0);
                    if left > MAX_ARGS {
                        return Err(ProtocolError::TooManyArguments);
                    }
                    self.state = State::Header { left };
                }
                State::Inline => {
                    let Some(used) = self.inline(input)? else { return Ok(None) };
                    self.state = State::Start;
                    return Ok(Some((Command { bytes: &self.unquoted, args: &self.args }, used)));
                }
                State::Header { left: 0 } => {
                    self.state = State::Start;
                    return Ok(Some((Command { bytes: input, args: &self.args }, self.at)));
                }
                State::Header { left } => {
                    match input.get(self.at) {
                        None => return Ok(None),
                        Some(b'$') => {}
                        Some(_) => return Err(ProtocolError::ExpectedArgument),
                    }
                    let Some(length) = self.header(input)? else { return Ok(None) };
                    let length = number(length).and_then(|length| usize::try_from(length).ok());
                    let length = length.ok_or(ProtocolError::ArgumentLength)?;
                    if length > MAX_ARG_BYTES {
                        return Err(ProtocolError::ArgumentTooLong);
                    }
                    self.state = State::Body { left, length };
                }
                State::Body { left, length } => {
                    let end = self.at + length;
                    let Some(line_end) = input.get(end..end + 2) else { return Ok(None) };
                    if line_end != b"\r\n" {
                        return Err(ProtocolError::ArgumentEnd);
                    }
                    // A command is at most MAX_ARGS * (MAX_ARG_BYTES + headers) bytes: far below 2^32.
                    self.args.push(self.at as u32..end as u32);
                    self.at = end + 2;
                    self.state = State::Header { left: left - 1 };
                }
            }
        }
    }

    /// Gives back what a large inline command has needed: there are many connections, and most
    /// of them idle.
    fn release(&mut self) {
        if self.args.capacity() > MAX_ARGS {
            self.args = Vec::new();
        }
        if self.unquoted.capacity() > KEPT_BYTES {
            self.unquoted = Vec::new();
        }
    }

    /// The rest of the header line whose sign is at `self.at`, which moves behind the line.
    fn header<'a>(&mut self, input: &'a [u8]) -> Result<Option<&'a [u8]>, ProtocolError> {
        let rest = &input[self.at..];
        let line = &rest[..rest.len().min(MAX_HEADER_BYTES)];
        let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
            return if line.len() < MAX_HEADER_BYTES {
                Ok(None)
            } else {
                Err(ProtocolError::HeaderTooLong)
            };
        };
        self.at += end + 2;
        Ok(Some(&line[1..end]))
    }

    /// Splits the line that `input` begins with; how long it is with its end.
    fn inline(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(end) = memchr::memchr(b'\n', &input[self.at..]).map(|found| self.at + found)
        else {
            self.at = input.len();
            // One more for a carriage return.
            return if self.at <= MAX_INLINE_BYTES + 1 {
                Ok(None)
            } else {
                Err(ProtocolError::InlineTooLong)
            };
        };
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > MAX_INLINE_BYTES {
            return Err(ProtocolError::InlineTooLong);
        }
        self.unquoted.clear();
        inline::split(line, &mut self.unquoted, &mut self.args)?;
        if self.args.len() > MAX_ARGS {
            return Err(ProtocolError::TooManyArguments);
        }
        Ok(Some(end + 1))
    }
}

/// A decimal integer of at most 18 digits with an optional minus.
fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0_i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
