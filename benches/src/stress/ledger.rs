//! Checks every interval of a key's admissions against the bound.

/// One admitted unit: it happened at some moment from `before` to `after`, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The time before the check.
    pub before: u64,
    /// The time after it.
    pub after: u64,
}

/// The admissions of one key, a batch at a time.
///
/// In an interval `[s, t]` only admissions count that began at `s` or later and ended by `t`:
/// others may have happened outside. With an emission interval T the bound is `count * T + s - t <=
/// burst * T`, for all `s` and `t`; the ledger keeps the maximum of the left side. O(log n) per
/// admission in a batch of n.
#[derive(Clone, Debug)]
pub struct Ledger {
    interval: i64,
    /// The largest `count * T + s` over all `s` of earlier batches.
    carried: Option<i64>,
    worst: i64,
    admitted: u64,
}

impl Ledger {
    /// An empty ledger for an emission interval in nanoseconds.
    #[must_use]
    pub fn new(interval: u64) -> Self {
        Self { interval: interval.cast_signed(), carried: None, worst: i64::MIN, admitted: 0 }
    }

    /// The largest `count * T - (t - s)` of any interval so far, in nanoseconds.
    #[must_use]
    pub fn worst(&self) -> i64 {
        self.worst
    }

    /// The number of admissions entered.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.admitted
    }

    /// Enters admissions that all began after those of earlier batches had ended.
    pub fn enter(&mut self, batch: &mut [Admission]) {
        if batch.is_empty() {
            return;
        }
        self.admitted += batch.len() as u64;
        batch.sort_unstable_by_key(|admission| admission.before);
        let starts: Vec<_> = batch.iter().map(|admission| admission.before).collect();
        let mut sums = Sums::new(starts.len());
        let mut begun = 0;
        batch.sort_unstable_by_key(|admission| admission.after);
        for Admission { before, after } in &*batch {
            // It is in the intervals that begin at any start up to its own.
            let up_to = starts.partition_point(|start| start <= before);
            for (index, start) in starts.iter().enumerate().take(up_to).skip(begun) {
                sums.set(index, start.cast_signed());
            }
            begun = begun.max(up_to);
            sums.add(up_to, self.interval);
            self.carried = self.carried.map(|carried| carried + self.interval);
            let largest = sums.largest().max(self.carried.unwrap_or(i64::MIN));
            self.worst = self.worst.max(largest - after.cast_signed());
        }
        self.carried = self.carried.max(Some(sums.largest()));
    }
}

/// A tree of maxima over numbers, with addition to a prefix.
struct Sums {
    leaves: usize,
    /// The maximum below a node, without what was added above it.
    largest: Vec<i64>,
    /// What was added to all numbers below a node.
    added: Vec<i64>,
}

impl Sums {
    /// Numbers smaller than any that can be set.
    fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self { leaves, largest: vec![i64::MIN / 2; 2 * leaves], added: vec![0; 2 * leaves] }
    }

    /// Sets a number to which nothing was added yet.
    fn set(&mut self, index: usize, number: i64) {
        let leaf = self.leaves + index;
        self.largest[leaf] = number;
        self.update_above(leaf);
    }

    /// Adds to the first `count` numbers.
    fn add(&mut self, count: usize, amount: i64) {
        // The canonical nodes of the range, from its right end up: all left children on the way.
        if count == self.leaves {
            self.raise(1, amount);
            return;
        }
        let end = self.leaves + count;
        let mut node = end;
        while node > 1 {
            if node % 2 == 1 {
                self.raise(node - 1, amount);
            }
            node /= 2;
        }
        self.update_above(end);
    }

    fn update_above(&mut self, leaf: usize) {
        let mut node = leaf / 2;
        while node > 0 {
            self.largest[node] =
                self.largest[2 * node].max(self.largest[2 * node + 1]) + self.added[node];
            node /= 2;
        }
    }

    fn raise(&mut self, node: usize, amount: i64) {
        self.largest[node] += amount;
        self.added[node] += amount;
    }

    fn largest(&self) -> i64 {
        self.largest[1]
    }
}
