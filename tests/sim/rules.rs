//! The limits that all simulated nodes share.

use tidegate_engine::Quota;

use crate::time::Nanos;

/// A limit.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub name: &'static str,
    pub quota: Quota,
    /// How many keys a node's table holds.
    pub capacity: usize,
    /// The quota comes with each check, and each time another one of [`Rule::UNITS`]. At most one
    /// rule may have that: the keys of all such quotas are one namespace.
    pub comes_with_checks: bool,
}

impl Rule {
    /// 10,000 a second with a burst of 1,000: tau is 100 ms.
    pub const fn fast() -> Self {
        Self {
            name: "fast",
            quota: Quota::per_second(10_000).burst(1_000),
            capacity: 64,
            comes_with_checks: false,
        }
    }

    /// The same with another burst.
    pub const fn burst(self, burst: u64) -> Self {
        Self { quota: self.quota.burst(burst), ..self }
    }

    /// 1,000 a minute: tau is a minute.
    pub const fn minute() -> Self {
        Self {
            name: "minute",
            quota: Quota::per_minute(1_000),
            capacity: 64,
            comes_with_checks: false,
        }
    }

    /// 100 an hour: tau is an hour.
    pub const fn hour() -> Self {
        Self { name: "hour", quota: Quota::per_hour(100), capacity: 64, comes_with_checks: false }
    }

    /// A limit under a spray of keys.
    pub const fn sprayed(capacity: usize) -> Self {
        Self {
            name: "sprayed",
            quota: Quota::per_minute(60).burst(10),
            capacity,
            comes_with_checks: false,
        }
    }

    /// 100 an hour, for many keys that stay live.
    pub const fn scaled(capacity: usize) -> Self {
        Self { name: "scaled", quota: Quota::per_hour(100), capacity, comes_with_checks: false }
    }

    /// Into how many parts quotas that come with checks divide a unit. They say the same, and nodes
    /// know each by an id of its own.
    pub const UNITS: [u64; 6] = [1, 2, 4, 5, 8, 10];

    /// The quota of which a check costs this many units for each one of the rule.
    pub fn divided(&self, by: u64) -> Quota {
        Quota::new(self.quota.count() * by, self.quota.period()).burst(self.quota.burst_size() * by)
    }

    /// The debt of `cost` units.
    pub fn debt(&self, cost: u64) -> Nanos {
        self.quota.debt_of(cost).as_nanos() as Nanos
    }

    /// The burst tolerance.
    pub fn tau(&self) -> Nanos {
        self.debt(self.quota.burst_size())
    }

    /// Units a second.
    pub fn rate(&self) -> f64 {
        self.quota.count() as f64 / self.quota.period().as_secs_f64()
    }
}

/// The number of the key under even demand, as chaos ends.
pub const EVEN: u64 = 1;

/// The hash of the key of this number: all 59 bits used, the same at every node.
pub fn key_bits(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) >> 5
}
