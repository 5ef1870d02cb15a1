//! At no time has a node applied more of a life's use than that life has admitted.

use super::property::{Check, Findings};
use crate::world::World;

#[derive(Default)]
pub struct NothingInvented(Findings);

impl Check for NothingInvented {
    fn name(&self) -> &'static str {
        "nothing_invented"
    }

    fn sample(&mut self, world: &mut World) {
        let now = world.now();
        let entered: Vec<_> = world.truth.entered.iter().map(|(life, n)| (*life, *n)).collect();
        for place in world.live() {
            let Some(node) = world.node_mut(place) else { continue };
            for ((life, key), admitted) in &entered {
                let (applied, _) = node.limits(now).entered(*life, *key);
                if applied > *admitted {
                    self.0.add_at(now, || {
                        format!(
                            "node {place} has applied {applied} of {admitted} units of life \
                             {life}, key {key}"
                        )
                    });
                }
            }
        }
    }

    fn finish(&mut self, world: &mut World) {
        self.sample(world);
    }

    fn findings(&self) -> &Findings {
        &self.0
    }
}
