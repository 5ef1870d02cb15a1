//! An incremental parser of the Redis protocol.
//!
//! The parser remembers how far it has scanned an incomplete command, so a command that arrives in
//! many pieces is scanned once.

use std::ops::Range;

use super::command::{Command, MAX_ARG_BYTES, MAX_ARGS};
use super::inline::{self, UnbalancedQuotes};

/// The longest inline command, in bytes without its line end.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;
/// The longest line that gives a count or a length, in bytes with its line end.
const MAX_HEADER_BYTES: usize = 32;
/// The most arguments of a command before a password is given, the name included.
const MAX_GUARDED_ARGS: usize = 10;
/// The longest argument before that, and the longest inline command, in bytes.
const MAX_GUARDED_BYTES: usize = 16 * 1024;
/// What may stay allocated after an inline command, in bytes.
const KEPT_BYTES: usize = 1024;

/// Parses commands at the front of a byte stream.
#[derive(Debug, Default)]
pub struct Parser {
    /// Whether the client has yet to give a password: its commands are short.
    pub is_guarded: bool,
    state: State,
    /// Bytes of the incomplete command that have been scanned.
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
    /// In an inline command, before the end of its line.
    Inline,
    /// At the header of an argument, with `left` arguments to come.
    Header { left: usize },
    /// Inside an argument of `length` bytes, with `left` arguments to come.
    Body { left: usize, length: usize },
}

/// A violation of the protocol, after which the start of the next command is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    ArgumentCount,
    TooManyArguments,
    ExpectedArgument,
    ArgumentLength,
    ArgumentTooLong,
    GuardedArguments,
    GuardedArgument,
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
            Self::GuardedArguments => "Protocol error: unauthenticated multibulk length",
            Self::GuardedArgument => "Protocol error: unauthenticated bulk length",
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
    /// The next command of `input` and its length in bytes, or `None` if it is incomplete.
    ///
    /// `input` begins where the previous command ended; after `None` it begins with the same bytes
    /// and has more after them.
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
                    if !self.is_guarded
                        && let Some(length) = self.whole(input)
                    {
                        return Ok(Some((
                            Command::with_headers(&input[..length], &self.args),
                            length,
                        )));
                    }
                    self.args.clear();
                    if *first != b'*' {
                        self.state = State::Inline;
                        continue;
                    }
                    let Some(count) = self.header(input)? else { return Ok(None) };
                    let count = number(count).ok_or(ProtocolError::ArgumentCount)?;
                    let left = self.arguments(count)?;
                    self.state = State::Header { left };
                }
                State::Inline => {
                    let Some(used) = self.inline(input)? else { return Ok(None) };
                    self.state = State::Start;
                    return Ok(Some((Command::new(&self.unquoted, &self.args), used)));
                }
                State::Header { left: 0 } => {
                    self.state = State::Start;
                    return Ok(Some((
                        Command::with_headers(&input[..self.at], &self.args),
                        self.at,
                    )));
                }
                State::Header { left } => {
                    match input.get(self.at) {
                        None => return Ok(None),
                        Some(b'$') => {}
                        Some(_) => return Err(ProtocolError::ExpectedArgument),
                    }
                    let Some(length) = self.header(input)? else { return Ok(None) };
                    let length = self.argument_length(length)?;
                    self.state = State::Body { left, length };
                }
                State::Body { left, length } => {
                    let end = self.at + length;
                    let Some(line_end) = input.get(end..end + 2) else { return Ok(None) };
                    if line_end != b"\r\n" {
                        return Err(ProtocolError::ArgumentEnd);
                    }
                    // A command is at most MAX_ARGS * (MAX_ARG_BYTES + headers) bytes: far below
                    // 2^32.
                    self.args.push(self.at as u32..end as u32);
                    self.at = end + 2;
                    self.state = State::Header { left: left - 1 };
                }
            }
        }
    }

    /// Whether `input` begins with a command of which nothing was scanned.
    pub const fn is_at_start(&self) -> bool {
        matches!(self.state, State::Start)
    }

    /// How many arguments follow. As Redis does, none and fewer are an empty command.
    fn arguments(&self, count: i64) -> Result<usize, ProtocolError> {
        match usize::try_from(count).unwrap_or(0) {
            count if self.is_guarded && count > MAX_GUARDED_ARGS => {
                Err(ProtocolError::GuardedArguments)
            }
            count if count > MAX_ARGS => Err(ProtocolError::TooManyArguments),
            count => Ok(count),
        }
    }

    /// How long an argument is, in bytes.
    fn argument_length(&self, text: &[u8]) -> Result<usize, ProtocolError> {
        let length = number(text).and_then(|length| usize::try_from(length).ok());
        match length.ok_or(ProtocolError::ArgumentLength)? {
            length if self.is_guarded && length > MAX_GUARDED_BYTES => {
                Err(ProtocolError::GuardedArgument)
            }
            length if length > MAX_ARG_BYTES => Err(ProtocolError::ArgumentTooLong),
            length => Ok(length),
        }
    }

    /// Reads a command that is there as a whole, in one pass: its length in bytes. `None` where it
    /// is not, or is anything else than clients send: the steps of [`Parser::next`] say what that
    /// is.
    #[inline]
    fn whole(&mut self, input: &[u8]) -> Option<usize> {
        let (count, mut at) = length(input, 0, b'*')?;
        if !(1..=MAX_ARGS).contains(&count) {
            return None;
        }
        for _ in 0..count {
            let (length, begin) = length(input, at, b'$')?;
            let end = begin + length;
            if length > MAX_ARG_BYTES || input.get(end..end + 2)? != b"\r\n" {
                return None;
            }
            self.args.push(begin as u32..end as u32);
            at = end + 2;
        }
        Some(at)
    }

    /// Frees the memory of a large inline command: there are many connections, most of them idle.
    fn release(&mut self) {
        if self.args.capacity() > MAX_ARGS {
            self.args = Vec::new();
        }
        if self.unquoted.capacity() > KEPT_BYTES {
            self.unquoted = Vec::new();
        }
    }

    /// The header line at `self.at` without its sign; moves `self.at` behind the line.
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

    const fn max_inline_bytes(&self) -> usize {
        if self.is_guarded { MAX_GUARDED_BYTES } else { MAX_INLINE_BYTES }
    }

    /// Splits the first line of `input`; its length with its end.
    fn inline(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(end) = memchr::memchr(b'\n', &input[self.at..]).map(|found| self.at + found)
        else {
            self.at = input.len();
            // One more for a carriage return.
            return if self.at <= self.max_inline_bytes() + 1 {
                Ok(None)
            } else {
                Err(ProtocolError::InlineTooLong)
            };
        };
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > self.max_inline_bytes() {
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

/// The number of a header line at `at`, which has this sign and at most six digits, and where the
/// line ends. `None` where there is no such line.
#[inline]
pub fn length(input: &[u8], at: usize, sign: u8) -> Option<(usize, usize)> {
    let line = input.get(at..)?;
    if *line.first()? != sign {
        return None;
    }
    let mut value = 0;
    for (digits, byte) in line[1..].iter().take(7).enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + usize::from(byte - b'0'),
            b'\r' if digits > 0 && line.get(digits + 2) == Some(&b'\n') => {
                return Some((value, at + digits + 3));
            }
            _ => return None,
        }
    }
    None
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
