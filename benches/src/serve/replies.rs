//! Where replies end, and whether they are the answer to a check.

use memchr::memchr;

use super::framing::{Malformed, Protocol, content_length};

/// A whole reply at the start of what was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its length in bytes.
    pub length: usize,
    /// Whether it says that a check is admitted or denied; it is an error otherwise.
    pub is_answer: bool,
}

impl Protocol {
    /// The reply at the start of `bytes`; `None` where its end is still to come.
    ///
    /// # Errors
    /// Where no further bytes make it a reply to a check, nor an error.
    #[inline]
    pub fn reply(self, bytes: &[u8]) -> Result<Option<Reply>, Malformed> {
        match self {
            Self::Resp => resp(bytes),
            Self::Http => http(bytes),
        }
    }
}

/// Five integers, or an error.
#[inline]
fn resp(bytes: &[u8]) -> Result<Option<Reply>, Malformed> {
    const HEADER: &[u8] = b"*5\r\n";
    const INTEGERS: usize = 5;
    if bytes.first() == Some(&b'-') {
        let end = memchr(b'\n', bytes);
        return Ok(end.map(|end| Reply { length: end + 1, is_answer: false }));
    }
    let Some(header) = bytes.get(..HEADER.len()) else {
        return if HEADER.starts_with(bytes) { Ok(None) } else { Err(Malformed) };
    };
    if header != HEADER {
        return Err(Malformed);
    }
    let mut length = HEADER.len();
    for _ in 0..INTEGERS {
        match bytes.get(length) {
            None => return Ok(None),
            Some(b':') => {}
            Some(_) => return Err(Malformed),
        }
        // Integers are short: a loop finds their end sooner than eight bytes at once do.
        let Some(end) = bytes[length..].iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        length += end + 1;
    }
    Ok(Some(Reply { length, is_answer: true }))
}

/// 200 or 429; anything else is an error.
fn http(bytes: &[u8]) -> Result<Option<Reply>, Malformed> {
    const VERSION: &[u8] = b"HTTP/1.1 ";
    let known = bytes.len().min(VERSION.len());
    if bytes[..known] != VERSION[..known] {
        return Err(Malformed);
    }
    let (mut end, mut body) = (0, None);
    loop {
        let Some(line) = memchr(b'\n', &bytes[end..]) else { return Ok(None) };
        let line = &bytes[end..=end + line];
        end += line.len();
        if line == b"\r\n" {
            break;
        }
        body = body.or(content_length(line)?);
    }
    let length = end.checked_add(body.ok_or(Malformed)?).ok_or(Malformed)?;
    let status = &bytes[VERSION.len()..];
    let is_answer = status.starts_with(b"200") || status.starts_with(b"429");
    Ok((length <= bytes.len()).then_some(Reply { length, is_answer }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At every byte at which the reply may be split, and with any part of the next one behind it.
    fn is_whole_at_its_last_byte(protocol: Protocol, reply: &str, is_answer: bool) {
        for cut in 0..reply.len() {
            assert_eq!(protocol.reply(&reply.as_bytes()[..cut]), Ok(None), "{reply:?} at {cut}");
        }
        let twice = [reply, reply].concat();
        let whole = Reply { length: reply.len(), is_answer };
        for end in reply.len()..=twice.len() {
            assert_eq!(protocol.reply(&twice.as_bytes()[..end]), Ok(Some(whole)), "{reply:?}");
        }
    }

    #[test]
    fn replies_are_whole_at_their_last_byte() {
        let five = "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
        is_whole_at_its_last_byte(Protocol::Resp, five, true);
        is_whole_at_its_last_byte(Protocol::Resp, "-ERR unknown command\r\n", false);
        let http = |status, length: &str, body| {
            format!("HTTP/1.1 {status}\r\n{length}\r\ndate: now\r\n\r\n{body}")
        };
        let reply = http("200 OK", "content-length: 2", "{}");
        is_whole_at_its_last_byte(Protocol::Http, &reply, true);
        let reply = http("429 Too Many Requests", "Content-Length:6", "\r\n\r\n{}");
        is_whole_at_its_last_byte(Protocol::Http, &reply, true);
        let reply = http("404 Not Found", "content-length: 0", "");
        is_whole_at_its_last_byte(Protocol::Http, &reply, false);
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in ["+OK\r\n", "*6", "*5\r\n$1\r\n", "$5\r\nhello\r\n", "*5\r\n:0\r\n-1"] {
            assert_eq!(Protocol::Resp.reply(bytes.as_bytes()), Err(Malformed), "{bytes:?}");
        }
        for bytes in ["HTTP/2", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"] {
            assert_eq!(Protocol::Http.reply(bytes.as_bytes()), Err(Malformed), "{bytes:?}");
        }
    }
}
