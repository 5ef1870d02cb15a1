//! Replies of the Redis protocol, in its versions 2 and 3.

use crate::telemetry::errors::RespError;

/// The longest text of an error, in bytes.
const MAX_ERROR_BYTES: usize = 512;

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    #[default]
    Resp2,
    Resp3,
}

impl Version {
    pub const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// The longest reply of nine integers, in bytes: each has a sign and 19 digits, at most.
const MAX_INTEGERS_BYTES: usize = 4 + 9 * (1 + 20 + 2);

/// Copies bytes into `text` at `at`; where they end.
#[inline]
fn put(text: &mut [u8; MAX_INTEGERS_BYTES], at: usize, bytes: &[u8]) -> usize {
    let end = at + bytes.len();
    text[at..end].copy_from_slice(bytes);
    end
}

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Reply<'a> {
    pub out: &'a mut Vec<u8>,
    pub version: Version,
    errors: usize,
    last_error: RespError,
}

impl<'a> Reply<'a> {
    pub const fn new(out: &'a mut Vec<u8>, version: Version) -> Self {
        Self { out, version, errors: 0, last_error: RespError::InvalidRequest }
    }

    /// The errors that it has appended: of one command all are of one kind.
    pub const fn errors(&self) -> (RespError, usize) {
        (self.last_error, self.errors)
    }

    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// A short text without line ends.
    pub fn simple(&mut self, text: &'static str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error about what the command asks for.
    pub fn error(&mut self, text: &[u8]) {
        self.error_of(RespError::InvalidRequest, text);
    }

    /// An error with its code in front, as in `ERR syntax error`. Bytes that could end the line or
    /// control a terminal become `?`, and what is too long is truncated.
    pub fn error_of(&mut self, kind: RespError, text: &[u8]) {
        self.errors += 1;
        self.last_error = kind;
        self.out.push(b'-');
        let shown = &text[..text.len().min(MAX_ERROR_BYTES)];
        self.out
            .extend(shown.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    pub fn integer(&mut self, value: i64) {
        self.line(b':', itoa::Buffer::new().format(value).as_bytes());
    }

    /// A count.
    pub fn count(&mut self, value: usize) {
        self.length(b':', value);
    }

    /// An array of fewer than ten integers: the answer to a check, so written at once.
    #[inline]
    pub fn integers<const N: usize>(&mut self, values: [i64; N]) {
        const { assert!(N < 10) };
        let mut text = [0; MAX_INTEGERS_BYTES];
        let mut end = put(&mut text, 0, &[b'*', b'0' + N as u8, b'\r', b'\n']);
        for value in values {
            // Most are short, and a copy whose length is known is a few instructions.
            let digit = |value: i64| b'0' + (value % 10) as u8;
            end = match value {
                0..10 => put(&mut text, end, &[b':', digit(value), b'\r', b'\n']),
                10..100 => {
                    put(&mut text, end, &[b':', digit(value / 10), digit(value), b'\r', b'\n'])
                }
                _ => {
                    let sign = put(&mut text, end, b":");
                    let digits = put(&mut text, sign, itoa::Buffer::new().format(value).as_bytes());
                    put(&mut text, digits, b"\r\n")
                }
            };
        }
        self.out.extend_from_slice(&text[..end]);
    }

    /// A string of any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A text to be shown as it is.
    pub fn verbatim(&mut self, text: &[u8]) {
        if self.version == Version::Resp2 {
            return self.bulk(text);
        }
        self.length(b'=', text.len() + 4);
        self.out.extend_from_slice(b"txt:");
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The head of an array: `length` replies follow.
    pub fn array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    /// The head of a map: `2 * pairs` replies follow, keys and values alternating.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', pairs * 2),
            Version::Resp3 => self.length(b'%', pairs),
        }
    }

    /// The head of a set: `length` replies follow.
    pub fn set(&mut self, length: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', length),
            Version::Resp3 => self.length(b'~', length),
        }
    }

    fn length(&mut self, sign: u8, length: usize) {
        self.line(sign, itoa::Buffer::new().format(length).as_bytes());
    }

    fn line(&mut self, sign: u8, text: &[u8]) {
        self.out.push(sign);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
