//! Reads what a node answers to pipelined checks.

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `CL.THROTTLE`.
    Redis,
    /// `POST /v1/check`.
    Http,
}

/// What a node answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Allowed,
    Denied,
    /// An error, or what is no reply to a check.
    Error,
}

/// Figures of a reply to `CL.THROTTLE`, a line each after the head.
const FIGURES: usize = 5;

/// Replies in the order of their requests, from bytes that arrive in any parts.
#[derive(Debug)]
pub struct Replies {
    protocol: Protocol,
    line: Vec<u8>,
    /// Lines of the present array, or bytes of the present body, that are still to come.
    left: usize,
    /// What the present head says: the reply, and the length of the body.
    head: Option<Reply>,
    length: usize,
}

impl Replies {
    pub const fn new(protocol: Protocol) -> Self {
        Self { protocol, line: Vec::new(), left: 0, head: None, length: 0 }
    }

    /// Takes bytes, and calls `see` for each reply that they complete.
    pub fn feed(&mut self, mut bytes: &[u8], mut see: impl FnMut(Reply)) {
        while !bytes.is_empty() {
            if self.protocol == Protocol::Http && self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end..];
            if self.line.ends_with(b"\n") {
                let reply = match self.protocol {
                    Protocol::Redis => self.redis_line(),
                    Protocol::Http => self.http_line(),
                };
                self.line.clear();
                reply.into_iter().for_each(&mut see);
            }
        }
    }

    /// Takes a line. The first figure of an array is the decision; the others are passed over.
    fn redis_line(&mut self) -> Option<Reply> {
        if self.left == 0 {
            let is_array = self.line == format!("*{FIGURES}\r\n").as_bytes();
            self.left = if is_array { FIGURES } else { 0 };
            return (!is_array).then_some(Reply::Error);
        }
        self.left -= 1;
        match &*self.line {
            _ if self.left + 1 < FIGURES => None,
            b":0\r\n" => Some(Reply::Allowed),
            b":1\r\n" => Some(Reply::Denied),
            _ => Some(Reply::Error),
        }
    }

    /// Takes a line of a head. The reply counts as seen at the end of its head.
    fn http_line(&mut self) -> Option<Reply> {
        let line = self.line.trim_ascii_end();
        if line.is_empty() {
            self.left = std::mem::take(&mut self.length);
            return Some(self.head.take().unwrap_or(Reply::Error));
        }
        if self.head.is_none() {
            self.head = Some(match line {
                b"HTTP/1.1 200 OK" => Reply::Allowed,
                b"HTTP/1.1 429 Too Many Requests" => Reply::Denied,
                _ => Reply::Error,
            });
        } else if let Some(length) = line.to_ascii_lowercase().strip_prefix(b"content-length:") {
            let length = std::str::from_utf8(length).ok().and_then(|text| text.trim().parse().ok());
            self.length = length.unwrap_or(0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Protocol, Replies, Reply};

    fn expect(protocol: Protocol, text: &str, expected: &[Reply]) {
        for part in 1..text.len() {
            let (mut replies, mut seen) = (Replies::new(protocol), Vec::new());
            for bytes in text.as_bytes().chunks(part) {
                replies.feed(bytes, |reply| seen.push(reply));
            }
            assert_eq!(seen, expected, "in parts of {part} bytes");
        }
    }

    #[test]
    fn replies_of_redis_arrive_in_parts() {
        let text = "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n-ERR no\r\n\
                    *5\r\n:1\r\n:10\r\n:0\r\n:6\r\n:6\r\n";
        expect(Protocol::Redis, text, &[Reply::Allowed, Reply::Error, Reply::Denied]);
    }

    #[test]
    fn replies_of_http_arrive_in_parts() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1\n\
                    HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n\
                    HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\n\
                    content-length: 2\r\n\r\n{}";
        expect(Protocol::Http, text, &[Reply::Allowed, Reply::Error, Reply::Denied]);
    }
}
