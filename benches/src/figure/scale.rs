//! A logarithmic scale of ratios.

use core::ops::RangeInclusive;

/// Whole powers of two at both ends, 1 within.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
}

/// A ratio beyond these is drawn at the end of the scale; its figure states it.
const ENDS: (f64, f64) = (-4.0, 7.0);

impl Scale {
    /// The scale that holds all of them and 1; none if there are none.
    pub fn of(ratios: impl Iterator<Item = f64>) -> Option<Self> {
        let logs: Vec<_> = ratios.map(f64::log2).filter(|log| !log.is_nan()).collect();
        let low = logs.iter().copied().reduce(f64::min)?;
        let high = logs.iter().copied().reduce(f64::max)?;
        Some(Self { low: low.floor().clamp(ENDS.0, -1.0), high: high.ceil().clamp(1.0, ENDS.1) })
    }

    /// Where a ratio stands, from 0 to 1.
    pub fn place(self, ratio: f64) -> f64 {
        (ratio.log2().clamp(self.low, self.high) - self.low) / (self.high - self.low)
    }

    /// The exponents of the powers of two on the scale.
    pub fn powers(self) -> RangeInclusive<i32> {
        self.low as i32..=self.high as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_factors_are_equal_distances() {
        let scale = Scale::of([0.5, 7.0].into_iter()).expect("ratios");
        assert_eq!(scale.powers(), -1..=3);
        let places: Vec<_> = scale.powers().map(|power| scale.place(2_f64.powi(power))).collect();
        assert_eq!(places, [0.0, 0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn one_is_always_within() {
        let scale = Scale::of([20.0].into_iter()).expect("a ratio");
        assert!((0.0..1.0).contains(&scale.place(1.0)));
        assert_eq!(Scale::of(core::iter::empty()), None);
    }

    #[test]
    fn what_is_beyond_stands_at_the_end() {
        let scale = Scale::of([0.0, f64::INFINITY].into_iter()).expect("ratios");
        assert_eq!((scale.place(0.0), scale.place(f64::INFINITY)), (0.0, 1.0));
    }
}
