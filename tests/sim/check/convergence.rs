//! After peace each live node holds the live nodes alive and no others, and their words of one key
//! are the same but for a part of tau, and for what lives admitted that crashed: some nodes may
//! have received some of it.

use std::collections::BTreeSet;

use tidegate_cluster::MemberState;

use super::property::{Check, Findings};
use crate::node::place_of;
use crate::rules::Rule;
use crate::time::{MS, Nanos};
use crate::world::World;

/// The part of tau by which words may differ.
const PART: u64 = 10;
/// Words of keys that drain too fast to be compared differ by what is on its way.
const LEAST_TAU: Nanos = 10_000 * MS;

#[derive(Default)]
pub struct Convergence(Findings);

impl Convergence {
    fn compare_views(&mut self, world: &World) {
        let live = world.live();
        let expected: BTreeSet<usize> = live.iter().copied().collect();
        for place in live {
            let Some(node) = world.node(place) else { continue };
            if !node.has_joined() {
                self.0.add(|| format!("node {place} has not joined"));
            }
            let members = node.members();
            let alive = members.iter().filter(|member| member.state == MemberState::Alive);
            let seen: BTreeSet<usize> = alive.map(|member| place_of(member.addr)).collect();
            let suspects = members.iter().any(|member| member.state == MemberState::Suspect);
            if seen != expected || suspects {
                self.0.add(|| {
                    let views: Vec<_> =
                        members.iter().map(|m| (place_of(m.addr), m.state)).collect();
                    format!("node {place} sees {views:?}, alive are {expected:?}")
                });
            }
        }
    }

    fn compare_words(&mut self, world: &mut World) {
        let now = world.now();
        let taus: Vec<Nanos> = world.truth.rules().iter().map(Rule::tau).collect();
        let keys: Vec<_> =
            world.truth.keys().filter(|(rule, _)| taus[*rule] >= LEAST_TAU).collect();
        let lost = world.lost();
        for (rule, key) in keys {
            let mut debts = Vec::new();
            for place in world.live() {
                let Some(node) = world.node_mut(place) else { continue };
                debts.push(node.limits(now).debt(rule, key));
            }
            let most = debts.iter().max().copied().unwrap_or(0);
            let least = debts.iter().min().copied().unwrap_or(0);
            let unsent = world.truth.admitted_by(rule, key, &lost);
            if most - least > taus[rule] / PART + unsent {
                let debts: Vec<_> = debts.iter().map(|debt| debt / MS).collect();
                self.0.add(|| format!("words of {rule}/{key:x}: debts of {debts:?} ms"));
            }
        }
    }
}

impl Check for Convergence {
    fn name(&self) -> &'static str {
        "convergence"
    }

    fn finish(&mut self, world: &mut World) {
        self.compare_views(world);
        self.compare_words(world);
    }

    fn findings(&self) -> &Findings {
        &self.0
    }
}
