//! The oracle of fixed windows and sliding-window counters: it keeps all charges in a list.
//!
//! It numbers windows, and times are unbounded integers. It solves no equations: whether a cost
//! fits follows from the list, and when it fits, how much fits and when nothing counts any more is
//! found by searching over that question.

use tidegate_engine::{BuildError, Decision, Limiter, ManualClock, QuotaError, Rule};

#[derive(Clone)]
pub struct Oracle {
    limit: i128,
    length: i128,
    /// The highest count of a window.
    most: i128,
    /// Whether the previous window has a weight.
    slides: bool,
    /// Units and the windows they are charged to.
    charges: Vec<(i128, i128)>,
    /// The window of the last change.
    pub changed_in: i128,
}

/// The figures of a decision, in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    allowed: bool,
    remaining: i128,
    retry_after: Option<i128>,
    reset_after: i128,
}

impl Oracle {
    /// For a limit on windows of `length` nanoseconds, which count no more than `most`.
    pub fn new((limit, length, most): (u64, u64, u64), slides: bool) -> Self {
        let (limit, length, most) = (limit.into(), length.into(), most.into());
        Self { limit, length, most, slides, charges: Vec::new(), changed_in: 0 }
    }

    pub fn number(&self, now: i128) -> i128 {
        now.div_euclid(self.length) + 1
    }

    /// The window in which the key is decided: it never goes back.
    fn window(&self, now: i128) -> i128 {
        self.number(now).max(self.changed_in)
    }

    fn start(&self, window: i128) -> i128 {
        (window - 1) * self.length
    }

    fn charged_in(&self, window: i128) -> i128 {
        self.charges.iter().filter(|(number, _)| *number == window).map(|(_, units)| units).sum()
    }

    /// The estimate, times the length.
    pub fn estimate(&self, now: i128) -> i128 {
        let window = self.window(now);
        let elapsed = (now - self.start(window)).max(0);
        let previous = if self.slides { self.charged_in(window - 1) } else { 0 };
        self.charged_in(window) * self.length + previous * (self.length - elapsed)
    }

    fn fits(&self, now: i128, cost: i128) -> bool {
        self.estimate(now) + cost * self.length <= self.limit * self.length
    }

    /// The first time from `now` on at which `holds` is true; it stays true from then on.
    fn first(&self, now: i128, holds: impl Fn(i128) -> bool) -> i128 {
        let (mut from, mut to) = (now, now.max(self.start(self.changed_in)) + 3 * self.length);
        assert!(holds(to));
        if to - from < 200 {
            return (from..=to).find(|at| holds(*at)).unwrap();
        }
        while from < to {
            // Rounded down, also before time 0, so that each step leaves less.
            let middle = (from + to).div_euclid(2);
            if holds(middle) { to = middle } else { from = middle + 1 }
        }
        to
    }

    fn answer(&self, now: i128, cost: i128, allowed: bool) -> Answer {
        let fresh = |at: i128| at >= self.start(self.changed_in) && self.estimate(at) == 0;
        let (mut least, mut most) = (0, self.limit);
        while least < most {
            let middle = (least + most + 1) / 2;
            if self.fits(now, middle) { least = middle } else { most = middle - 1 }
        }
        let retry_after = if allowed {
            Some(0)
        } else if cost > self.limit {
            None
        } else {
            Some(self.first(now, |at| self.fits(at, cost)) - now)
        };
        Answer { allowed, remaining: least, retry_after, reset_after: self.first(now, fresh) - now }
    }

    pub fn check(&mut self, now: i128, cost: i128) -> Answer {
        let allowed = self.fits(now, cost);
        if allowed && cost > 0 {
            self.charge(now, cost);
        }
        self.answer(now, cost, allowed)
    }

    pub fn charge(&mut self, now: i128, cost: i128) {
        let window = self.window(now);
        let units = cost.min(self.most - self.charged_in(window));
        if units > 0 {
            self.charges.push((window, units));
            self.changed_in = window;
        }
    }

    /// Takes units off the list, those of the present window first.
    pub fn refund(&mut self, now: i128, cost: i128) {
        let (window, mut left) = (self.window(now), cost);
        for number in if self.slides { window - 1..=window } else { window..=window }.rev() {
            for (_, units) in self.charges.iter_mut().filter(|charge| charge.0 == number) {
                let taken = left.min(*units);
                *units -= taken;
                left -= taken;
            }
        }
        if left < cost {
            self.changed_in = window;
        }
    }

    pub fn reset(&mut self, now: i128) {
        if now < self.start(self.changed_in) || self.estimate(now) > 0 {
            self.charges.clear();
            self.changed_in = self.number(now);
        }
    }
}

pub fn answer(decision: &Decision) -> Answer {
    Answer {
        allowed: decision.is_allowed(),
        remaining: decision.remaining().into(),
        retry_after: decision.retry_after().map(|wait| wait.as_nanos().cast_signed()),
        reset_after: decision.reset_after().as_nanos().cast_signed(),
    }
}

/// The highest count of windows of one length, from the error for a limit above it.
pub fn most(rule: impl Rule) -> u64 {
    match Limiter::builder(rule).capacity(1).clock(ManualClock::new()).build().err() {
        Some(BuildError::Quota(QuotaError::LimitTooHigh { max })) => max,
        other => panic!("{other:?}"),
    }
}
