//! Where a thread keeps its leases.

use core::cell::Cell;

/// A thread's place among the stripes of every limiter.
///
/// The first place follows from where the thread's own memory lies; a thread that meets another one
/// there moves on. So threads that run side by side spread out, with no state they share.
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

    /// Leaves the stripe to whoever else uses it.
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
    pub(super) fn at(stripe: usize) -> Self {
        Self(stripe | TAKEN)
    }

    /// Moves this thread to the given stripe.
    #[cfg(not(any(loom, interleave)))]
    pub(super) fn sit(stripe: usize) {
        SEAT.set(stripe | TAKEN);
    }
}
