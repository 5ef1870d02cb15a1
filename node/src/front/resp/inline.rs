//! Inline commands: a line of words, with quotes as in a shell, for people with a terminal.

use std::ops::Range;

use super::command::MAX_ARGS;

/// A quote that is never closed, or is closed in the middle of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// Splits a line of fewer than 2^32 bytes into words. Their bytes are appended to `bytes`, where
/// they are to `words`; stops after one word more than a command may have.
///
/// Inside double quotes `\n`, `\r`, `\t`, `\a`, `\b` and `\xHH` stand for one byte and a backslash
/// takes any other byte literally; inside single quotes only `\'` is special.
pub fn split(
    line: &[u8],
    bytes: &mut Vec<u8>,
    words: &mut Vec<Range<u32>>,
) -> Result<(), UnbalancedQuotes> {
    let mut rest = line;
    while words.len() <= MAX_ARGS {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        let start = bytes.len() as u32;
        rest = word(rest, bytes)?;
        words.push(start..bytes.len() as u32);
    }
    Ok(())
}

/// Appends the first word of `line`; the rest of the line.
fn word<'a>(mut line: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match line {
            [] => return Ok(line),
            [b'"', rest @ ..] => return closed(double_quoted(rest, bytes)?),
            [b'\'', rest @ ..] => return closed(single_quoted(rest, bytes)?),
            [byte, ..] if byte.is_ascii_whitespace() => return Ok(line),
            [byte, rest @ ..] => {
                bytes.push(*byte);
                line = rest;
            }
        }
    }
}

fn double_quoted<'a>(
    mut line: &'a [u8],
    bytes: &mut Vec<u8>,
) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        line = match line {
            [] => return Err(UnbalancedQuotes),
            [b'"', rest @ ..] => return Ok(rest),
            [b'\\', b'x', high, low, rest @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                bytes.push((hex(*high) << 4) | hex(*low));
                rest
            }
            [b'\\', escaped, rest @ ..] => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 0x07,
                    b'b' => 0x08,
                    other => *other,
                });
                rest
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        }
    }
}

fn single_quoted<'a>(
    mut line: &'a [u8],
    bytes: &mut Vec<u8>,
) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        line = match line {
            [] => return Err(UnbalancedQuotes),
            [b'\'', rest @ ..] => return Ok(rest),
            [b'\\', b'\'', rest @ ..] => {
                bytes.push(b'\'');
                rest
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        }
    }
}

/// A closing quote ends its word.
fn closed(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// The value of a byte that is a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
