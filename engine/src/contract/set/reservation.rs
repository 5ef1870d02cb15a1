//! A reservation of several limits.

use core::fmt;
use core::marker::PhantomData;

use crate::base::decision::Decision;

use super::Ask;
use super::decision::tightest;

/// Units taken from several limits before it is known how many are used; from
/// [`LimitSet::reserve`](crate::LimitSet::reserve).
///
/// Everything that [`Reservation`](crate::Reservation) states holds for each of the limits. Asks of
/// one limit and key under one quota are one charge, which is settled on the sum of what was used.
/// A drop gives everything back. With asks that keep their limits alive
/// ([`Limiter::ask_owned`](crate::Limiter::ask_owned)) it can move into a task.
///
/// Settling n asks, also by a drop, takes one step on each of their limits and O(n^2) comparisons
/// of asks.
///
/// ```
/// use tidegate_engine::{LimitSet, Limiter, Quota};
///
/// let requests = Limiter::builder(Quota::per_minute(60)).build()?;
/// let tokens = Limiter::builder(Quota::per_hour(10_000)).build()?;
/// let asks = [requests.ask("user:42", 1), tokens.ask("user:42", 4_000)];
/// if let Ok(reserved) = LimitSet::new(asks).reserve() {
///     let used = 812;
///     let left = reserved.commit([1, used]);
///     assert!(left.is_some_and(|tightest| tightest.remaining() == 59));
/// }
/// assert_eq!(requests.peek("user:42").remaining(), 59);
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[must_use = "a reservation that is dropped gives everything back"]
pub struct SetReservation<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> {
    asks: A,
    /// The number of asks, from the first, that are not settled yet.
    open: usize,
    limits: PhantomData<Ask<'l>>,
}

impl<'l, const N: usize> SetReservation<'l, [Ask<'l>; N]> {
    /// Settles each ask on its actual cost, in the order of the asks, as
    /// [`Reservation::commit`](crate::Reservation::commit) does. The compiler checks that there is
    /// one cost for each ask. Asks in a `Vec` or a slice are settled by
    /// [`SetReservation::commit_with`]; if everything was used, by [`SetReservation::keep`].
    ///
    /// The answer is that of the limit with the least remaining, a denial where even a cost of 1
    /// has to wait for debt; `None` for a set of no asks.
    ///
    /// ```compile_fail,E0308
    /// # use tidegate_engine::{DirectLimiter, LimitSet, Quota};
    /// # let requests = DirectLimiter::new(Quota::per_hour(9)).unwrap();
    /// # let tokens = DirectLimiter::new(Quota::per_hour(9)).unwrap();
    /// # let set = LimitSet::new([requests.ask(1), tokens.ask(5)]);
    /// # let Ok(reserved) = set.reserve() else { return };
    /// reserved.commit([3]); // of two asks
    /// ```
    #[allow(clippy::must_use_candidate, reason = "a caller may have no use for what remains")]
    pub fn commit(self, actual: [u64; N]) -> Option<Decision> {
        self.commit_with(|index, _| actual[index])
    }
}

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> SetReservation<'l, A> {
    pub(super) fn new(asks: A) -> Self {
        let open = asks.as_ref().len();
        Self { asks, open, limits: PhantomData }
    }

    /// Settles each ask on the result of `actual(index, ask)`, which is called once for each, the
    /// last one first; [`Ask::cost`] is what is reserved. If it panics, that ask and those before
    /// it are given back. The answer is that of [`SetReservation::keep`].
    ///
    /// ```
    /// use tidegate_engine::{DirectLimiter, LimitSet, Quota};
    ///
    /// let requests = DirectLimiter::new(Quota::per_hour(60))?;
    /// let tokens = DirectLimiter::new(Quota::per_hour(10_000))?;
    /// let asks = vec![requests.ask(1), tokens.ask(4_000).named("tokens")];
    /// if let Ok(reserved) = LimitSet::new(asks).reserve() {
    ///     let used = 812;
    ///     reserved.commit_with(|_, ask| if ask.name() == "tokens" { used } else { ask.cost() });
    /// }
    /// assert_eq!(requests.peek().remaining(), 59);
    /// # Ok::<(), tidegate_engine::QuotaError>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "a caller may have no use for what remains")]
    pub fn commit_with(mut self, actual: impl FnMut(usize, &Ask<'l>) -> u64) -> Option<Decision> {
        self.settle(actual);
        self.agree();
        tightest(self.asks())
    }

    /// Keeps everything that is reserved: all of it was used. The answer is that of the limit with
    /// the least remaining, a denial where even a cost of 1 has to wait for debt; `None` for a set
    /// of no asks.
    #[allow(clippy::must_use_candidate, reason = "a caller may have no use for what remains")]
    pub fn keep(self) -> Option<Decision> {
        self.commit_with(|_, ask| ask.cost())
    }

    /// Gives back everything that still counts, like a drop.
    pub fn cancel(self) {}

    /// What is reserved.
    pub fn asks(&self) -> &[Ask<'l>] {
        self.asks.as_ref()
    }

    /// Settles each open ask on the result of `actual(index, ask)`, the last one first, like a set
    /// that gives back: of the charges to one key under several quotas, the later one is behind the
    /// earlier one.
    fn settle(&mut self, mut actual: impl FnMut(usize, &Ask<'l>) -> u64) {
        while let Some(index) = self.open.checked_sub(1) {
            let Some((earlier, [ask, ..])) = self.asks.as_mut().split_at_mut_checked(index) else {
                return;
            };
            let actual = actual(index, ask);
            self.open = index;
            ask.settle(earlier, actual);
        }
    }

    /// Makes asks of one key report what remains after all of them: under one quota the answer of
    /// the first of them, which was settled last.
    fn agree(&mut self) {
        let asks = self.asks.as_mut();
        for index in 1..asks.len() {
            let (earlier, rest) = asks.split_at_mut(index);
            if let Some(ask) = rest.first_mut() {
                ask.agree_with(earlier);
            }
        }
    }
}

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> Drop for SetReservation<'l, A> {
    fn drop(&mut self) {
        self.settle(|_, _| 0);
    }
}

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> fmt::Debug for SetReservation<'l, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetReservation").field(&self.asks()).finish()
    }
}
