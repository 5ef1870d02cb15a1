//! Reads replies to `CL.THROTTLE`.

/// What a node answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Allowed,
    Denied,
    /// An error, or what is no reply to this command.
    Error,
}

/// Lines of an array after its head.
const FIGURES: u8 = 5;

/// Replies in the order of their commands, from bytes that arrive in any parts.
#[derive(Debug, Default)]
pub struct Replies {
    line: Vec<u8>,
    /// Lines of the present array that are still to come.
    left: u8,
}

impl Replies {
    /// Takes bytes, and calls `see` for each reply that they complete.
    pub fn feed(&mut self, bytes: &[u8], mut see: impl FnMut(Reply)) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(line);
            if self.line.ends_with(b"\n") {
                if let Some(reply) = self.complete() {
                    see(reply);
                }
                self.line.clear();
            }
        }
    }

    /// Takes a line. The first figure of an array is the decision; the others are passed over.
    fn complete(&mut self) -> Option<Reply> {
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
}

#[cfg(test)]
mod tests {
    use super::{Replies, Reply};

    #[test]
    fn replies_arrive_in_parts() {
        let text = b"*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n-ERR no\r\n\
            *5\r\n:1\r\n:10\r\n:0\r\n:6\r\n:6\r\n";
        for part in 1..text.len() {
            let (mut replies, mut seen) = (Replies::default(), Vec::new());
            for bytes in text.chunks(part) {
                replies.feed(bytes, |reply| seen.push(reply));
            }
            assert_eq!(seen, [Reply::Allowed, Reply::Error, Reply::Denied]);
        }
    }
}
