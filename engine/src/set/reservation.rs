//! A reservation of several limits.

use core::fmt;
use core::marker::PhantomData;

use crate::decision::Decision;

use super::Ask;
use super::decision::tightest;

/// Units taken from several limits until it is known how many are used; from
/// [`LimitSet::reserve`](crate::LimitSet::reserve).
///
/// All that [`Reservation`](crate::Reservation) says holds for each of the limits. Dropping it
/// gives everything back.
///
/// ```
/// use tidegate_engine::{LimitSet, Limiter, Quota};
///
/// let requests = Limiter::builder(Quota::per_minute(60)).build()?;
/// let tokens = Limiter::builder(Quota::per_hour(10_000)).build()?;
/// let asks = [requests.ask("user:42", 1), tokens.ask("user:42", 4_000)];
/// if let Ok(reserved) = LimitSet::new(asks).reserve() {
///     let used = 812;
///     let left = reserved.commit(&[1, used]);
///     assert!(left.is_some_and(|tightest| tightest.remaining() == 59));
/// }
/// assert_eq!(requests.peek("user:42").remaining(), 59);
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[must_use = "a reservation that is dropped gives everything back"]
pub struct SetReservation<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> {
    asks: A,
    open: bool,
    limits: PhantomData<Ask<'l>>,
}

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> SetReservation<'l, A> {
    pub(super) fn new(asks: A) -> Self {
        Self { asks, open: true, limits: PhantomData }
    }

    /// Settles each ask on its actual cost, as [`Reservation::commit`](crate::Reservation::commit)
    /// does. `actual` is in the order of the asks; those beyond its end are settled on what they
    /// reserved, and what it has too much is ignored.
    ///
    /// The answer is what is left of the limit with the least, a denial where even a cost of 1 has
    /// to wait for debt; `None` for a set of no asks.
    #[allow(clippy::must_use_candidate, reason = "what is left need not matter to who has used it")]
    pub fn commit(mut self, actual: &[u64]) -> Option<Decision> {
        self.settle(|index, reserved| actual.get(index).copied().unwrap_or(reserved));
        tightest(self.asks())
    }

    /// Gives everything back that still counts, as dropping the reservation does.
    pub fn cancel(self) {}

    /// What is reserved.
    pub fn asks(&self) -> &[Ask<'l>] {
        self.asks.as_ref()
    }

    /// Settles each ask on what `actual(index, reserved)` returns. The latest is the first, as when
    /// a set gives back: of asks of one key the later one lies behind the earlier one.
    fn settle(&mut self, actual: impl Fn(usize, u64) -> u64) {
        self.open = false;
        for (index, ask) in self.asks.as_mut().iter_mut().enumerate().rev() {
            ask.settle(actual(index, ask.cost()));
        }
    }
}

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> Drop for SetReservation<'l, A> {
    fn drop(&mut self) {
        if self.open {
            self.settle(|_, _| 0);
        }
    }
}

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> fmt::Debug for SetReservation<'l, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetReservation").field(&self.asks()).finish()
    }
}
