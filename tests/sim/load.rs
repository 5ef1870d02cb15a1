//! Clients: how many checks each node gets, when, of which keys.

use rand::{Rng, RngExt};

use crate::time::{Nanos, SECOND};

/// After this long without a check a flow's rate is looked at again.
const LOOK_AGAIN: Nanos = SECOND / 20;

/// Checks of one limit at one node.
#[derive(Clone, Debug)]
pub struct Flow {
    pub place: usize,
    pub rule: usize,
    pub keys: Keys,
    pub cost: u64,
    /// Checks a second, on average over the places of its demand.
    pub rate: f64,
    /// Arrivals at even distances, not at random ones.
    pub is_even: bool,
    pub wander: Option<Wander>,
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    One(u64),
    /// One of as many from the first, each as often.
    Any {
        first: u64,
        count: u64,
    },
    /// A new one each time, from the first.
    New {
        next: u64,
    },
}

/// Demand that moves: most of it is at one place at a time.
#[derive(Clone, Copy, Debug)]
pub struct Wander {
    pub every: Nanos,
    pub places: usize,
    pub seed: u64,
}

/// The part of wandering demand that is at one place.
const MOST: f64 = 0.8;

impl Flow {
    /// Checks a second at present.
    fn rate_at(&self, at: Nanos) -> f64 {
        let Some(wander) = self.wander.filter(|wander| wander.places > 1) else { return self.rate };
        let turn = crate::rules::key_bits(wander.seed ^ (at / wander.every));
        let is_here = turn % wander.places as u64 == self.place as u64;
        let all = self.rate * wander.places as f64;
        if is_here { all * MOST } else { all * (1.0 - MOST) / (wander.places - 1) as f64 }
    }

    /// When the next check comes, and whether one comes then.
    pub fn next(&self, now: Nanos, rng: &mut impl Rng) -> (Nanos, bool) {
        let rate = self.rate_at(now);
        let mean = SECOND as f64 / rate.max(1e-9);
        let gap = if self.is_even { mean } else { mean * exponential(rng) };
        if gap > LOOK_AGAIN as f64 && !self.is_even {
            (now + LOOK_AGAIN, false)
        } else {
            (now + (gap.min(1e15) as Nanos).max(1), true)
        }
    }

    pub fn key(&mut self, rng: &mut impl Rng) -> u64 {
        let number = match &mut self.keys {
            Keys::One(key) => *key,
            Keys::Any { first, count } => *first + rng.random_range(0..*count),
            Keys::New { next } => {
                *next += 1;
                *next
            }
        };
        crate::rules::key_bits(number)
    }
}

/// Of mean 1.
fn exponential(rng: &mut impl Rng) -> f64 {
    // 53 bits, never 0.
    let unit = (rng.random::<u64>() >> 11) as f64 + 0.5;
    -(unit / (1_u64 << 53) as f64).ln()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn a_flow_has_its_rate() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for rate in [3.0, 50.0, 20_000.0] {
            let keys = Keys::One(1);
            let wander = None;
            let flow = Flow { place: 0, rule: 0, keys, cost: 1, rate, is_even: false, wander };
            let (mut at, mut checks) = (0, 0_u32);
            while checks < 10_000 {
                let (next, is_check) = flow.next(at, &mut rng);
                (at, checks) = (next, checks + u32::from(is_check));
            }
            let seen = f64::from(checks) / crate::time::seconds(at);
            assert!((seen / rate - 1.0).abs() < 0.05, "{seen} {rate}");
        }
    }
}
