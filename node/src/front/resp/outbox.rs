//! Replies that the socket has not taken.

/// Bytes that are written at the end and sent from the front. Adding and sending cost O(1) a byte.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// How many of these are sent.
    sent: usize,
}

impl Outbox {
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that are kept, those among them that are sent already.
    pub const fn held(&self) -> usize {
        self.bytes.len()
    }

    /// What is to be sent.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub fn push(&mut self, bytes: &[u8]) {
        // No more is moved than was sent since.
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The first `count` bytes of the rest are sent.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.bytes.len() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outbox;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_come() {
        let (mut outbox, mut sent, mut next) = (Outbox::default(), Vec::new(), 0_u8);
        for round in 0..200_usize {
            let bytes: Vec<u8> = (0..round % 7).map(|more| next.wrapping_add(more as u8)).collect();
            next = next.wrapping_add(bytes.len() as u8);
            outbox.push(&bytes);
            let count = outbox.rest().len().min(round % 5);
            sent.extend_from_slice(&outbox.rest()[..count]);
            outbox.advance(count);
            assert!(outbox.held() <= 2 * outbox.rest().len() + 7, "{outbox:?}");
        }
        sent.extend_from_slice(outbox.rest());
        assert!(sent.iter().enumerate().all(|(at, byte)| *byte == at as u8));
        outbox.advance(outbox.rest().len());
        assert!(outbox.is_empty() && outbox.held() == 0);
    }
}
