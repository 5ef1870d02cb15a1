//! The limiter: look the key up, update its word, answer.

mod refund;

use core::time::Duration;

use crate::builder::LimiterBuilder;
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::gcra::{self, Gcra, Tat};
use crate::key::{Key, KeyHash, KeyHasher};
use crate::lease::{self, Check, Leases, Seat};
use crate::overflow::{Event, OverflowCounts, OverflowPolicy, answer};
use crate::quota::{Quota, QuotaError};
use crate::table::{Home, Table, Update};
use crate::tsc::TscClock;

/// A rate limiter for many keys, shared by reference between any number of threads.
///
/// State is one 64-bit word a key in a table of fixed size: a check neither locks nor allocates,
/// and memory does not grow. Keys need no set-up and no clean-up: a key that has been idle until
/// its debt drained is exactly as if it had never been seen.
///
/// # Guarantees
/// * For each key and every interval `[s, t]`, the admitted cost is at most
///   `burst + rate * (t - s)`, for any number of threads. Time is counted in units of 1 to 2 ns
///   (exactly 1 ns where the emission interval is a whole number of nanoseconds), and one unit is
///   the error of `t - s`. [`Limiter::refund`] adds what it gives back, and [`Limiter::reset`]
///   begins anew.
/// * Lock-free: a thread that is stopped anywhere never keeps another from deciding.
/// * When more keys are live than fit, the [`OverflowPolicy`] says what happens, and
///   [`Limiter::overflow`] counts it. By default the key that loses least among those that compete
///   for a place is forgotten, and keys that are being denied are forgotten last. No debt is lost
///   but what is counted there.
///
/// # Leases
/// Two cores that write one word are slower than one. [`LimiterBuilder::leases`] lets threads charge
/// several units of a hot key at once and use them one by one, so that what is allowed on one
/// key scales with cores too. A key becomes hot by being admitted at least 64 times by one thread.
/// * The first guarantee stays as it is, exactly. Leased units drain with the time they were
///   charged for, and nobody uses one that has begun to.
/// * Nobody is denied a cost of 1 while another thread has leased units of the key that have not
///   drained and lies idle, unless that thread is just taking them. A higher cost is paid by the word
///   or by one lease as a whole, so it can be denied while up to 1/16 of the burst is leased in parts.
/// * Units that drain in a lease unused are lost to everybody: about 1/16 of what is admitted, at
///   the worst 1/8, of keys whose threads keep changing or fall idle for as long as a lease takes
///   to drain, and of keys that are refunded as often as they are charged.
/// * `remaining` counts what other threads have leased as taken, and `reset_after` counts leased
///   units as used. Both describe the key's word at a moment during the call. Where told debt has
///   taken the word beyond the burst, [`Limiter::peek`] says so and leaves this thread's lease out,
///   from which a check may still be admitted.
/// * [`Limiter::check_with`] and the charging of debt look at the word alone; so does
///   [`Limiter::live`], which counts leased units as debt. Debt that is charged does not take leased
///   units back.
/// * When a key is forgotten, or a refund reaches into what is leased, those leases are void
///   until the word has grown past them; then what is used of them, at most 1/16 of the burst,
///   comes on top of what the word admits.
///
/// ```
/// use tidegate_engine::{Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_second(100).burst(2)).capacity(1_000).build()?;
/// assert!(limiter.check("user:42").is_allowed());
/// assert_eq!(limiter.check("user:42").remaining(), 0);
/// let denied = limiter.check("user:42");
/// assert!(!denied.is_allowed());
/// assert!(denied.retry_after().is_some());
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Limiter<C = TscClock> {
    gcra: Gcra,
    hasher: KeyHasher,
    clock: C,
    table: Table<Tat>,
    leases: Option<Leases>,
    quota: Quota,
}

impl Limiter {
    /// Starts building a limiter for `quota`, on the time-stamp counter unless told otherwise.
    pub fn builder(quota: Quota) -> LimiterBuilder {
        LimiterBuilder::new(quota)
    }
}

impl<C: Clock> Limiter<C> {
    pub(crate) fn from_parts(
        quota: Quota,
        gcra: Gcra,
        hasher: KeyHasher,
        clock: C,
        table: Table<Tat>,
        leases: Option<Leases>,
    ) -> Self {
        Self { gcra, hasher, clock, table, leases, quota }
    }

    /// Asks for one unit: [`Limiter::check_n`] with a cost of 1.
    #[inline]
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Asks for `cost` units and takes them when they fit, at the clock's present reading.
    ///
    /// A cost of 0 takes nothing: it is a [`Limiter::peek`]. O(1).
    #[inline]
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        // The counter is read before the table: it waits for what was asked of memory before.
        let key = self.hash(key);
        let now = self.clock.now();
        if let Some(leases) = &self.leases {
            return self.decide_leased(leases, key, cost, now, || self.clock.now());
        }
        let home = self.table.home(key);
        self.decide(&self.gcra, home, cost, now, || self.clock.now())
    }

    /// As [`Limiter::check_n`], at a time the caller gives: for a batch that shares one reading, or
    /// a recorded sequence. `now` is on the scale of the limiter's clock.
    ///
    /// A `now` earlier than that of a previous check never mints tokens on a key that is still in
    /// the table. Between concurrent callers whose `now`s differ by `d`, a key whose debt drained
    /// for one and not yet for the other may be admitted up to `rate * d` beyond the guarantee.
    #[inline]
    pub fn check_at(&self, key: impl Key, cost: u64, now: Timestamp) -> Decision {
        let key = self.hash(key);
        if let Some(leases) = &self.leases {
            return self.decide_leased(leases, key, cost, now, || now);
        }
        let home = self.table.home(key);
        self.decide(&self.gcra, home, cost, now, || now)
    }

    /// As [`Limiter::check_n`], under a quota given with the call. The key's debt is kept as a
    /// duration, so calls with different quotas share it.
    ///
    /// The emission interval is rounded up to a whole unit of this limiter, so the quota is never
    /// exceeded, and a burst is still exactly a burst. On a limiter whose own quota has an emission
    /// interval of whole nanoseconds the unit is 1 ns: exact for such intervals, else too slow by
    /// less than 0.1 % at 10^6 units a second and 10 % at 10^8. On others the unit is up to 2 ns.
    ///
    /// # Errors
    /// When the quota can not be enforced; nothing is charged.
    #[inline]
    pub fn check_with(
        &self,
        key: impl Key,
        cost: u64,
        quota: &Quota,
    ) -> Result<Decision, QuotaError> {
        let home = self.table.home(self.hash(key));
        let gcra = Gcra::in_scale(quota, self.gcra.scale())?;
        Ok(self.decide(&gcra, home, cost, self.clock.now(), || self.clock.now()))
    }

    /// Asks for one unit of each key, at one reading of the clock, and puts the decisions into
    /// `decisions` in the order of the keys, instead of what was there.
    ///
    /// Each decision is atomic, the batch is not: others may check in between, and a key that
    /// stands twice is charged twice. Keys are looked up ahead, so that waiting for memory
    /// overlaps; this pays from a handful of keys on. Allocates only if `decisions` lacks room.
    pub fn check_many<K: Key>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        /// How many keys are looked up ahead: about as many as a core fetches lines at a time.
        const AHEAD: usize = 16;

        decisions.clear();
        decisions.reserve(keys.len());
        if let Some(leases) = &self.leases {
            return self.check_many_leased(leases, keys, decisions);
        }
        let Some(first) = keys.first() else { return };
        let home = |key: &K| self.table.home(self.hash(key));
        let now = self.gcra.scale().instant(self.clock.now());
        let admit = |tat, now| self.gcra.admit(tat, now, 1);

        let mut ahead = [home(first); AHEAD];
        for (place, key) in ahead.iter_mut().zip(keys).skip(1) {
            *place = home(key);
        }
        // Keys that lie further away are fetched while others are decided.
        let (mut away, mut count) = ([(0, ahead[0]); AHEAD], 0);
        for index in 0..keys.len() {
            let place = &mut ahead[index % AHEAD];
            let current = *place;
            if let Some(key) = keys.get(index + AHEAD) {
                *place = home(key);
            }
            let update = current.update_at_home::<false>(now, admit);
            decisions.push(if let Some(update) = update {
                answer(&self.table, &self.gcra, current, update, 1)
            } else {
                current.prefetch_block();
                away[count] = (index, current);
                count += 1;
                Decision::OPEN
            });
            if count == AHEAD {
                self.decide_away(&away, now, decisions);
                count = 0;
            }
        }
        self.decide_away(&away[..count], now, decisions);
    }

    /// [`Limiter::check_many`] with leases: one key at a time, once their lines are on their way.
    fn check_many_leased<K: Key>(
        &self,
        leases: &Leases,
        keys: &[K],
        decisions: &mut Vec<Decision>,
    ) {
        const AHEAD: usize = 16;

        let now = self.clock.now();
        for keys in keys.chunks(AHEAD) {
            let mut ahead = [None; AHEAD];
            for (hash, key) in ahead.iter_mut().zip(keys) {
                let key = self.hash(key);
                let _ = self.table.home(key);
                *hash = Some(key);
            }
            let decide = |&key| self.decide_leased(leases, key, 1, now, || self.clock.now());
            decisions.extend(ahead.iter().flatten().map(decide));
        }
    }

    /// Makes the decisions of a batch on keys that were not found in their home lines.
    #[inline(never)]
    fn decide_away(&self, away: &[(usize, Home<'_, Tat>)], now: u64, decisions: &mut [Decision]) {
        let admit = |tat, now| self.gcra.admit(tat, now, 1);
        for (index, home) in away {
            match home.update_in_block(now, admit) {
                Some(update) => {
                    decisions[*index] = answer(&self.table, &self.gcra, *home, update, 1);
                }
                None => home.prefetch_beyond_block(),
            }
        }
        for (index, home) in away {
            if decisions[*index] == Decision::OPEN {
                let reread = || self.gcra.scale().instant(self.clock.now());
                let update = home.update_beyond_block(now, reread, admit);
                decisions[*index] = answer(&self.table, &self.gcra, *home, update, 1);
            }
        }
    }

    /// What a check would find, without charging anything: `remaining` is what is left.
    #[inline]
    pub fn peek(&self, key: impl Key) -> Decision {
        self.check_n(key, 0)
    }

    /// Charges debt that was consumed elsewhere at time `at`, whether or not it fits: debt that
    /// has drained since `at` on a key that was idle is not charged again. Debt may exceed the
    /// burst tolerance; then even a cost of 1 waits. Saturates 18 years after the clock's origin.
    /// For a key without a place this follows the [`OverflowPolicy`].
    pub fn charge_debt(&self, key: KeyHash, debt: Duration, at: Timestamp) {
        let scale = self.gcra.scale();
        let debt = scale.to_units(saturating_nanos(debt));
        let at = scale.instant(at);
        self.force(key, |tat| gcra::charge(tat, at, debt));
    }

    /// Raises the key's debt to at least `debt` as of now. Idempotent.
    pub fn raise_debt(&self, key: KeyHash, debt: Duration) {
        let scale = self.gcra.scale();
        let debt = scale.to_units(saturating_nanos(debt));
        let now = scale.instant(self.clock.now());
        self.force(key, |tat| tat.max(gcra::charge(0, now, debt)));
    }

    /// Every key that has debt now, with its debt, in no particular order. O(capacity).
    ///
    /// Not a snapshot: each key is read at its own moment while others go on checking.
    pub fn live(&self) -> impl Iterator<Item = (KeyHash, Duration)> + '_ {
        let scale = self.gcra.scale();
        self.table.entries().filter_map(move |(key, tat)| {
            let debt = tat.saturating_sub(scale.instant(self.clock.now()));
            (debt > 0).then(|| (key, Duration::from_nanos(scale.to_nanos(debt))))
        })
    }

    /// The key's hash under this limiter's hasher.
    #[inline]
    pub fn hash(&self, key: impl Key) -> KeyHash {
        key.hash_with(&self.hasher)
    }

    /// The quota the limiter was built with.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The clock that [`Limiter::check`] reads.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// How many keys can be live at once at the fill the table is sized for, at least what the
    /// builder asked for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Bytes reserved for the table. Pages no key has touched take no memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// How many units a thread leases of a hot key at most; 0 where nothing is leased. Set by
    /// [`LimiterBuilder::leases`].
    #[must_use]
    pub fn lease_units(&self) -> u64 {
        self.leases.as_ref().map_or(0, Leases::most)
    }

    /// How many units of a key all threads together have leased and not used, drained ones left out:
    /// what others would still be admitted after `peek` says that nothing remains. O(threads).
    ///
    /// Not a snapshot: each thread's share is read at its own moment.
    #[must_use]
    pub fn leased(&self, key: impl Key) -> u64 {
        let Some(leases) = &self.leases else { return 0 };
        let (key, now) = (self.hash(key), self.gcra.scale().instant(self.clock.now()));
        leases.units(&self.gcra, key, lease::look(&self.table, key, now), now)
    }

    /// Gives back what this thread, and those that share its part, have leased and not used, as far as nothing has been charged
    /// to the same key since; the rest can still be used by others until it has drained. For
    /// a thread that goes idle; never needed for correctness. O(1), at most 64 keys.
    pub fn return_leases(&self) {
        if let Some(leases) = &self.leases {
            leases.give_back_all(Seat::here(), &self.gcra, &self.table);
        }
    }

    /// What happens to a key that finds no place.
    #[must_use]
    pub fn overflow_policy(&self) -> OverflowPolicy {
        self.table.policy()
    }

    /// How often keys have found no place, and what became of it.
    #[must_use]
    pub fn overflow(&self) -> OverflowCounts {
        self.table.counts()
    }

    /// How many live keys have been forgotten to make room, since the limiter was built:
    /// [`OverflowCounts::evicted`].
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    #[inline]
    fn decide(
        &self,
        gcra: &Gcra,
        home: Home<'_, Tat>,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let now = self.gcra.scale().instant(now);
        let admit = |tat, now| if cost == 0 { None } else { gcra.admit(tat, now, cost) };
        let update = if C::STALLS {
            home.update_at_home::<true>(now, admit)
        } else {
            home.update_at_home::<false>(now, admit)
        };
        match update {
            Some(update) => answer(&self.table, gcra, home, update, cost),
            None => self.decide_beyond_home(gcra, home, cost, now, reread),
        }
    }

    /// [`Limiter::decide`] for a key that was not found in its home line.
    #[inline(never)]
    fn decide_beyond_home(
        &self,
        gcra: &Gcra,
        home: Home<'_, Tat>,
        cost: u64,
        now: u64,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let reread = || self.gcra.scale().instant(reread());
        let admit = |tat, now| if cost == 0 { None } else { gcra.admit(tat, now, cost) };
        answer(&self.table, gcra, home, home.update_beyond_home(now, reread, admit), cost)
    }

    /// [`Limiter::decide`] under the limiter's own quota, with leases.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn decide_leased(
        &self,
        leases: &Leases,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
        reread: impl Fn() -> Timestamp,
    ) -> Decision {
        let (gcra, table, scale) = (&self.gcra, &self.table, self.gcra.scale());
        let now = scale.instant(now);
        let check = Check { gcra, table, key, cost, now, reread: || scale.instant(reread()) };
        let seat = Seat::here();
        if cost == 0 { leases.peek(seat, &check) } else { leases.decide(seat, &check) }
    }

    #[cfg(all(test, not(any(loom, interleave))))]
    pub(crate) fn parts(&self) -> (&Table<Tat>, &Gcra) {
        (&self.table, &self.gcra)
    }

    #[cfg(all(test, not(any(loom, interleave))))]
    pub(crate) fn leases(&self) -> &Leases {
        self.leases.as_ref().expect("leases are on")
    }

    /// Updates a key whether or not it has a place yet.
    fn force(&self, key: KeyHash, raise: impl Fn(u64) -> u64) {
        let now = || self.gcra.scale().instant(self.clock.now());
        let update = self.table.home(key).update(now(), now, |tat, now| {
            let raised = raise(tat);
            // A word that does not change, or that is not live, needs no place.
            (raised > tat && raised > now).then_some(raised)
        });
        if matches!(update, Update::Full { .. }) {
            self.table.count(Event::ChargeDropped);
        }
    }
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
