//! The limit that clients name with each request.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Units a second.
    pub rate: u64,
    pub burst: u64,
}

impl Quota {
    /// The time in which a whole burst is granted.
    pub fn tau(&self) -> Duration {
        Duration::from_secs_f64(self.burst as f64 / self.rate as f64)
    }
}
