//! One command, as it was received.

use std::ops::Range;

/// The most arguments a command may have, its name included.
pub const MAX_ARGS: usize = 64;
/// The longest argument, in bytes.
pub const MAX_ARG_BYTES: usize = 64 * 1024;

/// The bytes of a line end.
const LINE_END: usize = 2;

/// One command: its name and arguments, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    bytes: &'a [u8],
    args: &'a [Range<u32>],
    /// Each argument stands behind a header with its length, and a line end behind each.
    has_headers: bool,
}

impl<'a> Command<'a> {
    /// A command whose arguments are the ranges `args` of `bytes`, the name first.
    pub const fn new(bytes: &'a [u8], args: &'a [Range<u32>]) -> Self {
        Self { bytes, args, has_headers: false }
    }

    /// The same of arguments as a client sends them, each with a header.
    pub const fn with_headers(bytes: &'a [u8], args: &'a [Range<u32>]) -> Self {
        Self { bytes, args, has_headers: true }
    }

    /// The number of arguments, the name included. 0 for an empty line, which is ignored.
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

    /// The bytes before the header of the first argument and those behind it, where arguments have
    /// headers.
    pub fn around_key(&self) -> Option<(&'a [u8], &'a [u8])> {
        let [name, key, ..] = self.args else { return None };
        let (before, behind) = (name.end as usize + LINE_END, key.end as usize);
        self.has_headers.then(|| (&self.bytes[..before], &self.bytes[behind..]))
    }

    /// The arguments from `first` on.
    pub fn args_from(&self, first: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let args = self.args.get(first..).unwrap_or(&[]);
        args.iter().map(|range| &bytes[range.start as usize..range.end as usize])
    }
}

/// The digits of which each number fits an `i64`.
const SURE_DIGITS: usize = 18;

/// A decimal integer as Redis accepts them: no plus, no spaces, no leading zeros.
#[inline]
pub fn integer_of(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] if text.len() <= SURE_DIGITS => {
            text.iter().try_fold(0, |value, digit| {
                digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
            })
        }
        [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::integer_of;

    #[test]
    fn integers_are_taken_as_redis_takes_them() {
        let sure = 10_i64.pow(18);
        for value in [0, 7, -7, 10, sure - 1, sure, 1 - sure, i64::MAX, i64::MIN] {
            assert_eq!(integer_of(value.to_string().as_bytes()), Some(value));
        }
        for text in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "-01",
            "00",
            "1.0",
            "9223372036854775808",
            "x",
            "1x",
            "99999999999999999/",
        ] {
            assert_eq!(integer_of(text.as_bytes()), None, "{text}");
        }
    }
}
