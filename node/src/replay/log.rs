//! The requests of an access log.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use tidegate_engine::IpKey;

use super::line::parse;

/// How much of a line is parsed, in bytes. A line may be longer.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// How much of a line is shown, in characters.
const MAX_SHOWN_CHARS: usize = 120;
/// The most requests of a log: about 10 GiB, with what deciding takes.
const MAX_REQUESTS: usize = 1 << 28;
/// The byte order mark that some editors put in front of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The requests of a log: 16 bytes each, and each client once.
#[derive(Debug, Default)]
pub struct Log {
    pub lines: u64,
    /// In the order of the log.
    pub requests: Vec<LoggedRequest>,
    /// Requests whose time is earlier than that of one before them.
    pub reordered: u64,
    /// The clients, as the engine limits them: an IPv4 address, or the /64 of an IPv6 address.
    pub keys: Vec<IpKey>,
    /// Lines that are neither a request nor blank.
    pub foreign: u64,
    /// The first of them.
    pub example: Option<Example>,
    /// Why what follows these lines cannot be decompressed, if anything does.
    pub damage: Option<io::Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub time: i64,
    /// Index into the keys of the log.
    pub key: usize,
}

/// A line, as it can be shown in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// From 1.
    pub line: u64,
    /// Its beginning, without what could control a terminal.
    pub text: String,
}

/// Reads a log to its end.
///
/// What is compressed and damaged, as a log that is still being written, ends where it is.
///
/// # Errors
/// When reading fails, also as it is damaged before the first request, and beyond [`MAX_REQUESTS`];
/// no line is an error.
pub fn read(mut input: impl BufRead) -> io::Result<Log> {
    let mut log = Log::default();
    let mut places = HashMap::new();
    let mut latest = i64::MIN;
    let mut line = Vec::new();
    loop {
        match read_line(&mut input, &mut line) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if is_damage(&error) && !log.requests.is_empty() => {
                log.damage = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
        log.lines += 1;
        let text = match log.lines {
            1 => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line),
            _ => &line,
        };
        let Some((key, time)) = parse(text) else {
            log.leave_out(text);
            continue;
        };
        let key = *places.entry(key).or_insert_with(|| {
            log.keys.push(key);
            log.keys.len() - 1
        });
        if log.requests.len() == MAX_REQUESTS {
            let problem = format!("more than {MAX_REQUESTS} requests: replay a part of them");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        log.requests.push(LoggedRequest { time, key });
        log.reordered += u64::from(time < latest);
        latest = latest.max(time);
    }
    Ok(log)
}

impl Log {
    /// Notes a line that is not a request.
    fn leave_out(&mut self, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        self.foreign += 1;
        if self.example.is_none() {
            let text = String::from_utf8_lossy(text.trim_ascii());
            let shown = text.chars().map(|c| if c.is_control() { '?' } else { c });
            let text = shown.take(MAX_SHOWN_CHARS).collect();
            self.example = Some(Example { line: self.lines, text });
        }
    }
}

/// Whether this is an error of what is compressed, not of the file.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};

    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// Reads up to and with the next line feed, and keeps the beginning; false at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line)?;
    if read as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
        input.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
