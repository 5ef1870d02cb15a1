//! After peace every live node has applied all that each life admitted, once: the units on its word
//! of each life's ledger are those that were entered. Of a life that crashed, what it had not sent
//! is lost, but nothing is applied twice. A life that left is complete at the nodes of its time if
//! everything was acknowledged and it held every live node alive. What a node counts as dropped, as
//! a small backlog has no room for what a slow peer lacks, is missing there.

use super::property::{Check, Findings};
use crate::host::UNIT;
use crate::world::World;

/// What time may take of a word within a run, far below a unit.
const MAX_OFF: u64 = UNIT / 4;

#[derive(Default)]
pub struct ExactlyOnce(Findings);

impl Check for ExactlyOnce {
    fn name(&self) -> &'static str {
        "exactly_once"
    }

    fn finish(&mut self, world: &mut World) {
        let now = world.now();
        let entered: Vec<_> = world.truth.entered.iter().map(|(life, n)| (*life, *n)).collect();
        let dropping = |place: usize| {
            let node = world.node(place).filter(|node| node.stats().deltas_dropped > 0);
            node.map(|node| node.ledger)
        };
        let dropping: Vec<u32> = world.live().into_iter().filter_map(dropping).collect();
        for place in world.live() {
            let Some(own) = world.node(place).map(|node| node.ledger) else { continue };
            for ((life, key), admitted) in &entered {
                let is_exact = world.must_know(own, *life) && !dropping.contains(life);
                let Some(node) = world.node_mut(place) else { continue };
                let (applied, off) = node.limits(now).entered(*life, *key);
                let is_right = if is_exact { applied == *admitted } else { applied <= *admitted };
                if !is_right || off > MAX_OFF {
                    self.0.add(|| {
                        format!(
                            "node {place} applied {applied} of {admitted} units of life {life}, \
                             key {key}, off by {off} ns"
                        )
                    });
                }
            }
        }
    }

    fn findings(&self) -> &Findings {
        &self.0
    }
}
