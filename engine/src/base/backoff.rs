//! The pause of a thread whose compare-and-swap lost to another thread, so that the winner keeps
//! the cache line for several operations in place of one.
//!
//! A line that two cores take from each other for every operation costs both of them more than all
//! the work costs one core. The pause is 16 to 64 `pause` instructions (0.4 to 1.7 microseconds on
//! Zen 5; others differ), about as long as a few dozen operations of one core; a thread that loses
//! again pauses for longer, up to that bound. The pause waits for no other thread: after it a
//! thread tries again, whatever others did meanwhile, so what is lock-free stays so. Uncontended
//! operations do not come here.

/// Pauses of the processor, in instructions, after the first exchange that an operation loses.
const FIRST_PAUSES: u32 = 16;

/// The most pauses after one lost exchange, in instructions of the processor.
const MOST_PAUSES: u32 = 64;

/// The pauses of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// Pauses after the next lost exchange.
    pauses: u32,
}

impl Backoff {
    /// For an operation that has lost no exchange yet.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { pauses: FIRST_PAUSES }
    }

    /// Pauses after a lost exchange; returns the pauses after the next one.
    // Out of line, so that uncontended callers carry no more than a number.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub(crate) fn pause(self) -> Self {
        // Models explore every order, independent of time.
        #[cfg(not(any(loom, interleave)))]
        for _ in 0..self.pauses {
            core::hint::spin_loop();
        }
        Self { pauses: (self.pauses * 2).min(MOST_PAUSES) }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut backoff = Backoff::new();
        let mut pauses = [0; 4];
        for count in &mut pauses {
            *count = backoff.pauses;
            backoff = backoff.pause();
        }
        assert_eq!(pauses, [FIRST_PAUSES, 2 * FIRST_PAUSES, MOST_PAUSES, MOST_PAUSES]);
    }
}
