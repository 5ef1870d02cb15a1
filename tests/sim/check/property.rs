//! What a checker is, and what it found.

use crate::calm::Calm;
use crate::report::Report;
use crate::time::{Nanos, seconds};
use crate::truth::Seen;
use crate::world::World;

/// One property.
pub trait Check {
    fn name(&self) -> &'static str;

    /// A node has answered a check.
    fn saw(&mut self, _: &Seen, _: &Calm) {}

    /// Now and then.
    fn sample(&mut self, _: &mut World) {}

    /// Demand is even and the cluster is calm from now on.
    fn calm_begins(&mut self, _: &mut World) {}

    /// That demand has just ended.
    fn calm_ends(&mut self, _: &mut World) {}

    /// Nothing is under way any more.
    fn finish(&mut self, _: &mut World) {}

    /// What it has measured.
    fn figures(&self, _: &mut Report) {}

    fn findings(&self) -> &Findings;
}

/// What a checker found: the first in words, and how many there were.
#[derive(Debug, Default)]
pub struct Findings {
    pub(super) first: Option<String>,
    pub(super) count: u64,
}

impl Findings {
    pub fn add(&mut self, text: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(text());
        }
        self.count += 1;
    }

    /// With the time.
    pub fn add_at(&mut self, at: Nanos, text: impl FnOnce() -> String) {
        self.add(|| format!("at {:.6} s: {}", seconds(at), text()));
    }
}
