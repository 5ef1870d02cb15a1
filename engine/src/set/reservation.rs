//! A reservation of several limits.

use core::fmt;
use core::marker::PhantomData;

use crate::decision::Decision;

use super::Ask;
use super::decision::tightest;

/// Units taken from several limits until it is known how many are used; from
/// [`LimitSet::reserve`](crate::LimitSet::reserve).
///
/// All that [`Reservation`](crate::Reservation) says holds for each of the limits. Asks of one limit and key under one
/// quota are one charge, which is settled on the sum of what was used. Dropping it
/// gives everything back. One of asks that keep their limits alive ([`Limiter::ask_owned`](crate::Limiter::ask_owned)) goes
/// with a task.
///
/// Settling n asks, also by a drop, takes one step on each of their limits and O(n²) comparisons of asks.
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
    /// How many of the asks, from the first on, are not settled yet.
    open: usize,
    limits: PhantomData<Ask<'l>>,
}

impl<'l, const N: usize> SetReservation<'l, [Ask<'l>; N]> {
    /// Settles each ask on its actual cost, in the order of the asks, as
    /// [`Reservation::commit`](crate::Reservation::commit) does. That there are as many of both, the compiler checks; asks in a
    /// `Vec` or a slice are settled by [`SetReservation::commit_with`], and what was used as reserved by
    /// [`SetReservation::keep`].
    ///
    /// The answer is what is left of the limit with the least, a denial where even a cost of 1 has
    /// to wait for debt; `None` for a set of no asks.
    ///
    /// ```compile_fail,E0308
    /// # use tidegate_engine::{LimitSet, Quota, Single};
    /// # let (requests, tokens) = (Single::new(Quota::per_hour(9)).unwrap(), Single::new(Quota::per_hour(9)).unwrap());
    /// # let Ok(reserved) = LimitSet::new([requests.ask(1), tokens.ask(5)]).reserve() else { return };
    /// reserved.commit([3]); // of two asks
    /// ```
    #[allow(clippy::must_use_candidate, reason = "what is left need not matter to who has used it")]
    pub fn commit(self, actual: [u64; N]) -> Option<Decision> {
        self.commit_with(|index, _| actual[index])
    }
}

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> SetReservation<'l, A> {
    pub(super) fn new(asks: A) -> Self {
        let open = asks.as_ref().len();
        Self { asks, open, limits: PhantomData }
    }

    /// Settles each ask on what `actual(index, ask)` returns, which is called once for each, the last one first;
    /// [`Ask::cost`] is what is reserved. If it panics, that ask and those before it are given back. The answer is
    /// that of [`SetReservation::keep`].
    ///
    /// ```
    /// use tidegate_engine::{LimitSet, Quota, Single};
    ///
    /// let (requests, tokens) = (Single::new(Quota::per_hour(60))?, Single::new(Quota::per_hour(10_000))?);
    /// let asks = vec![requests.ask(1), tokens.ask(4_000).named("tokens")];
    /// if let Ok(reserved) = LimitSet::new(asks).reserve() {
    ///     let used = 812;
    ///     reserved.commit_with(|_, ask| if ask.name() == "tokens" { used } else { ask.cost() });
    /// }
    /// assert_eq!(requests.peek().remaining(), 59);
    /// # Ok::<(), tidegate_engine::QuotaError>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "what is left need not matter to who has used it")]
    pub fn commit_with(mut self, actual: impl FnMut(usize, &Ask<'l>) -> u64) -> Option<Decision> {
        self.settle(actual);
        self.agree();
        tightest(self.asks())
    }

    /// Keeps all that is reserved: everything was used. The answer is what is left of the limit with the least,
    /// a denial where even a cost of 1 has to wait for debt; `None` for a set of no asks.
    #[allow(clippy::must_use_candidate, reason = "what is left need not matter to who has used it")]
    pub fn keep(self) -> Option<Decision> {
        self.commit_with(|_, ask| ask.cost())
    }

    /// Gives everything back that still counts, as dropping the reservation does.
    pub fn cancel(self) {}

    /// What is reserved.
    pub fn asks(&self) -> &[Ask<'l>] {
        self.asks.as_ref()
    }

    /// Settles each ask that is open on what `actual(index, ask)` returns. The latest is the first, as when
    /// a set gives back: of charges to one key, under several quotas, the later one lies behind the earlier one.
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

    /// Lets asks of one key say what is left after all of them: under one quota the same, what the first of them was
    /// told, which was settled last.
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
