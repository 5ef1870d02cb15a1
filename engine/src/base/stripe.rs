//! Stripes: state that is split among threads, and which stripe a thread uses.

use core::cell::Cell;

/// The stripe that a thread uses, in every limiter.
///
/// The first choice is a hash of the address of the thread-local cell; a thread that collides with
/// another one moves on. So threads that run at the same time spread out without shared state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat(usize);

/// Marks a seat that has been chosen.
const TAKEN: usize = 1 << (usize::BITS - 1);

thread_local! {
    static SEAT: Cell<usize> = const { Cell::new(0) };
}

impl Seat {
    /// The seat of this thread.
    #[inline]
    pub(crate) fn here() -> Self {
        let place = SEAT.get();
        if place == 0 { Self::choose() } else { Self(place) }
    }

    /// The stripe among `count`, a power of two.
    #[inline]
    pub(crate) fn among(self, count: usize) -> usize {
        self.0 & (count - 1)
    }

    /// Moves this thread to the next stripe; other threads keep this one.
    #[cold]
    pub(crate) fn move_on(self) {
        SEAT.set(self.0.wrapping_add(1) | TAKEN);
    }

    #[cold]
    fn choose() -> Self {
        /// From the golden ratio; spreads addresses that differ by a multiple of a stack's size.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let address = SEAT.with(|seat| std::ptr::from_ref(seat).addr()) as u64;
        let place = (address.wrapping_mul(SPREAD) >> 33) as usize | TAKEN;
        SEAT.set(place);
        Self(place)
    }
}

#[cfg(test)]
impl Seat {
    /// A seat at the given stripe.
    #[cfg(loom)]
    pub(crate) fn at(stripe: usize) -> Self {
        Self(stripe | TAKEN)
    }

    /// Moves this thread to the given stripe.
    #[cfg(not(any(loom, interleave)))]
    pub(crate) fn sit(stripe: usize) {
        SEAT.set(stripe | TAKEN);
    }
}
