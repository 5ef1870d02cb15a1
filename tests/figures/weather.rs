//! What the network between places does to packets.

use std::collections::BTreeSet;
use std::time::Duration;

/// Conditions of all paths.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// One way.
    pub delay: Duration,
    /// Added to the delay of a packet, from 0 to this: packets overtake each other.
    pub jitter: Duration,
    /// The part of packets that are lost.
    pub loss: f64,
    /// The part of packets that arrive twice.
    pub doubled: f64,
    /// Larger packets are lost, in bytes.
    pub mtu: usize,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(1),
            jitter: Duration::ZERO,
            loss: 0.0,
            doubled: 0.0,
            mtu: usize::MAX,
        }
    }
}

/// Conditions, and the paths that are cut. Changes apply to packets that are sent from then on.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    pub conditions: Conditions,
    cuts: BTreeSet<(usize, usize)>,
}

impl Weather {
    /// Cuts the path from one place to another, and not the way back.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    /// Ends all cuts.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains(&(from, to))
    }
}
