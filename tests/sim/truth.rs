//! What really happened: an exact central bucket a key, fed in true time with all that nodes
//! admitted, and one fed with all that clients asked for.

use std::collections::BTreeMap;

use crate::rules::Rule;
use crate::time::Nanos;

/// Parts of a million.
const MILLION: u64 = 1_000_000;

/// A check that a node answered.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub at: Nanos,
    pub place: usize,
    pub rule: usize,
    pub key: u64,
    pub debt: Nanos,
    pub is_allowed: bool,
    /// How far the central bucket's debt exceeds its tolerance after this check.
    pub excess: Nanos,
    /// What a central limiter would have refused of this admission.
    pub refused: Nanos,
    /// The largest debt that the demand alone has ever made, in a central bucket.
    pub demand: Nanos,
}

#[derive(Debug, Default)]
struct Key {
    /// TATs in the time of the fastest clock: nodes cannot be slower to grant than that.
    admitted: Nanos,
    /// The same of a bucket that is charged only what fits.
    policed: Nanos,
    /// In the time of the slowest clock.
    asked: Nanos,
    most_asked: Nanos,
    /// What each life has admitted.
    lives: Vec<(u32, Nanos)>,
}

#[derive(Debug)]
pub struct Truth {
    rules: Vec<Rule>,
    keys: BTreeMap<(usize, u64), Key>,
    /// By how much nodes' clocks may run too fast or too slow.
    ppm: u64,
    /// Units entered on each life's ledger, by key.
    pub entered: BTreeMap<(u32, u64), u64>,
}

impl Truth {
    pub fn new(rules: &[Rule], ppm: u64) -> Self {
        let (keys, entered) = (BTreeMap::new(), BTreeMap::new());
        Self { rules: rules.to_vec(), keys, ppm, entered }
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn fastest(&self, at: Nanos) -> Nanos {
        at + at / MILLION * self.ppm
    }

    fn slowest(&self, at: Nanos) -> Nanos {
        at - at / MILLION * self.ppm
    }

    pub fn see(
        &mut self,
        at: Nanos,
        (place, life): (usize, u32),
        (rule, key, cost): (usize, u64, u64),
        is_allowed: bool,
    ) -> Seen {
        let (fast, slow) = (self.fastest(at), self.slowest(at));
        let debt = self.rules[rule].debt(cost);
        let tau = self.rules[rule].tau();
        let central = self.keys.entry((rule, key)).or_default();
        central.asked = central.asked.max(slow) + debt;
        central.most_asked = central.most_asked.max(central.asked - slow);
        let mut refused = 0;
        if is_allowed {
            central.policed = central.policed.max(fast) + debt;
            refused = central.policed.saturating_sub(fast + tau).min(debt);
            central.policed -= refused;
            central.admitted = central.admitted.max(fast) + debt;
            match central.lives.iter_mut().find(|(own, _)| *own == life) {
                Some((_, sum)) => *sum += debt,
                None => central.lives.push((life, debt)),
            }
        }
        let excess = central.admitted.saturating_sub(fast).saturating_sub(tau);
        Seen { at, place, rule, key, debt, is_allowed, excess, refused, demand: central.most_asked }
    }

    /// A node has given back debt.
    pub fn give_back(&mut self, at: Nanos, rule: usize, key: u64, debt: Nanos) {
        let fast = self.fastest(at);
        if let Some(central) = self.keys.get_mut(&(rule, key)) {
            for tat in [&mut central.admitted, &mut central.policed] {
                *tat = (*tat).saturating_sub(debt).max(fast.min(*tat));
            }
        }
    }

    /// Forgets what the central bucket knows and no node does: its debt becomes at most `debt`.
    pub fn rebase(&mut self, at: Nanos, rule: usize, key: u64, debt: Nanos) {
        let fast = self.fastest(at);
        if let Some(central) = self.keys.get_mut(&(rule, key)) {
            central.admitted = central.admitted.min(fast + debt);
            central.policed = central.policed.min(fast + debt);
        }
    }

    /// The debt that these lives have admitted on a key.
    pub fn admitted_by(&self, rule: usize, key: u64, lives: &[u32]) -> Nanos {
        let all = self.keys.get(&(rule, key)).map_or(&[][..], |central| &central.lives);
        all.iter().filter(|(life, _)| lives.contains(life)).map(|(_, sum)| sum).sum()
    }

    /// All keys that any client asked for.
    pub fn keys(&self) -> impl Iterator<Item = (usize, u64)> {
        self.keys.keys().copied()
    }

    pub fn enter(&mut self, life: u32, key: u64) {
        *self.entered.entry((life, key)).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MS;

    #[test]
    fn the_central_bucket_counts_what_exceeds_it() {
        let rules = [Rule::fast()];
        let mut truth = Truth::new(&rules, 0);
        let mut see = |at, cost, allowed| truth.see(at, (0, 1), (0, 1, cost), allowed);
        assert_eq!(see(0, 1_000, true).excess, 0);
        assert_eq!(see(10 * MS, 200, true).excess, 10 * MS);
        assert_eq!(see(10 * MS, 1_000, false).excess, 10 * MS);
        let last = see(30 * MS, 100, true);
        assert_eq!((last.excess, last.demand), (0, 210 * MS));
        // 100 ms are owed, of which 30 are given back; 80 more are 50 too much.
        truth.give_back(30 * MS, 0, 1, 30 * MS);
        assert_eq!(truth.see(30 * MS, (0, 1), (0, 1, 800), true).excess, 50 * MS);
        truth.give_back(30 * MS, 0, 1, 1_000 * MS);
        assert_eq!(truth.see(30 * MS, (0, 1), (0, 1, 1_010), true).excess, MS);
    }
}
