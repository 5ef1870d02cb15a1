//! What a thread does that has lost an exchange to another one: it pauses, so that the winner keeps the cache line for
//! several operations in place of one.
//!
//! A line that two cores take from each other for every operation costs both of them more than it would cost one to do
//! all the work. The loser's pause is 16 to 64 `pause` instructions (0.4 to 1.7 microseconds on Zen 5; others differ), about
//! as long as a few dozen operations of one core; who loses again pauses for longer, up to that bound. It waits for nobody:
//! after its pause a thread tries again, whatever others did meanwhile, so what is lock-free stays so. Who loses nothing does
//! not come here.

/// Pauses of the processor, in instructions, after the first exchange that an operation loses.
const FIRST_PAUSES: u32 = 16;

/// The most pauses after one lost exchange, in instructions.
const MOST_PAUSES: u32 = 64;

/// The pauses of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// Of the next lost exchange.
    pauses: u32,
}

impl Backoff {
    /// Of an operation that has lost nothing yet.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { pauses: FIRST_PAUSES }
    }

    /// Pauses after an exchange that was lost; what to do after the next one.
    // Apart, so that who loses nothing has no more to carry along than a number.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub(crate) fn pause(self) -> Self {
        // A model explores every order without the time that passes.
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
