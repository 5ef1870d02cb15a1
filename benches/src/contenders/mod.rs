//! The limiters that take part, behind one statically dispatched trait.

mod governor;
mod ours;

use core::hint::black_box;
use core::num::NonZeroU32;
use core::time::Duration;

pub use self::governor::GovernorString;
pub use self::ours::{Batch32, Precise, Recent};
use crate::failure::Failure;
use crate::workloads::Plan;

/// A limiter that can be measured. Implementations only translate, and hand every part of the
/// limiter's answer to `black_box` so that none is optimised away.
pub trait Contender: Sync + Sized {
    /// The name in reports.
    const NAME: &'static str;

    /// A limiter with the plan's quota and room for its keys.
    ///
    /// # Errors
    /// When the limiter refuses the plan.
    fn build(plan: &Plan) -> Result<Self, Failure>;

    /// Asks for one unit, the way a user of the library does.
    // A `String` is what governor's keyed limiter borrows; `str` would cost it an allocation.
    #[expect(clippy::ptr_arg)]
    fn check(&self, key: &String) -> bool;

    /// Asks for one unit of each key in turn; how many were allowed. This is what is timed.
    #[inline]
    fn check_all(&self, keys: &[String]) -> u64 {
        keys.iter().map(|key| u64::from(self.check(black_box(key)))).sum()
    }

    /// Asks for several units, outside the timed part.
    #[expect(clippy::ptr_arg)]
    fn admit(&self, key: &String, units: NonZeroU32) -> bool;

    /// How many keys have state now.
    fn live_keys(&self) -> usize;
}

/// A contender that tells enough to prove what happened inside.
pub trait Audited: Contender {
    /// Which clock or call style of ours is measured.
    const VARIANT: &'static str;

    /// The time on the limiter's own clock, since any fixed origin.
    fn now(&self) -> Duration;

    /// How much the key owes: the time until it is as good as new.
    fn debt(&self, key: &str) -> Duration;

    /// Live keys forgotten to make room, since the limiter was built.
    fn evicted(&self) -> u64;

    /// The longest time the limiter's clock has stood still, if it is one that does.
    fn staleness(&self) -> Option<Duration> {
        None
    }
}
