//! What a node keeps is bounded by the nodes and the keys there are.

use tidegate_cluster::protocol::Options;

use super::property::{Check, Findings};
use crate::world::World;

/// Links to a node and from it: one each way with each place, and one that is being replaced.
const LINKS_A_PLACE: u64 = 2;
/// Version vectors name the lives of a place that may still be reported.
const ORIGINS_A_PLACE: u64 = 8;
/// A peer may stand at each of the batches in flight to it, and at what it has acknowledged.
const SEGMENTS_A_PEER: u64 = 256 + 1;

#[derive(Default)]
pub struct Memory(Findings);

impl Check for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn sample(&mut self, world: &mut World) {
        let places = world.places() as u64;
        let ledgers = world.truth.entered.len() as u64;
        let keys = world.truth.keys().count() as u64 + ledgers;
        for place in world.live() {
            let Some(node) = world.node(place) else { continue };
            let stats = node.stats();
            let bounds = [
                ("links_out", stats.links_out, places),
                ("links_in", stats.links_in, LINKS_A_PLACE * places),
                ("origins", stats.origins, ORIGINS_A_PLACE * places),
                // One change a key in each segment: a peer may stand at the start of each.
                ("pending_keys", stats.pending_keys, keys * places * SEGMENTS_A_PEER),
            ];
            for (name, value, bound) in bounds {
                if value > bound {
                    let at = world.now();
                    self.0.add_at(at, || format!("node {place}: {name} is {value} > {bound}"));
                }
            }
        }
    }

    fn finish(&mut self, world: &mut World) {
        self.sample(world);
        for place in world.live() {
            let Some(node) = world.node(place) else { continue };
            let stats = node.stats();
            // A peer that is slow and not gone may lack what a small backlog has no room for:
            // whether it does is seen on ledgers.
            let is_small = world.setup().options.backlog_keys < Options::default().backlog_keys;
            let never = [
                ("violations", stats.violations),
                ("deltas_dropped", if is_small { 0 } else { stats.deltas_dropped }),
                ("deltas_unknown", stats.deltas_unknown),
                ("peers_undialled", stats.peers_undialled),
            ];
            for (name, value) in never.into_iter().filter(|(_, value)| *value > 0) {
                self.0.add(|| format!("node {place}: {name} is {value}"));
            }
        }
    }

    fn findings(&self) -> &Findings {
        &self.0
    }
}
