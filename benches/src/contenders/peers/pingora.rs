//! pingora-limits: a count-min sketch over a window.

use core::fmt;
use core::hint::black_box;
use core::num::NonZeroU32;
use core::time::Duration;

use pingora_limits::rate::Rate;

use crate::contenders::Contender;
use crate::failure::Failure;
use crate::workloads::{Plan, Workload};

/// `Rate` at its default size. It counts approximately, in one array for all keys, and counts
/// denied requests too; a key is denied when its count in the window exceeds the burst.
pub struct PingoraLimits {
    rate: Rate,
    burst: isize,
}

/// No window ends within a run, so that every check of the denied key is denied.
const WINDOW: Duration = Duration::from_hours(24);

impl fmt::Debug for PingoraLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PingoraLimits").finish_non_exhaustive()
    }
}

impl PingoraLimits {
    #[inline]
    fn ask(&self, key: &String, units: isize) -> bool {
        black_box(self.rate.observe(key, units)) <= self.burst
    }
}

impl Contender for PingoraLimits {
    const NAME: &'static str = "pingora-limits";
    type Key = String;

    fn absence(workload: Workload) -> Option<&'static str> {
        match workload {
            Workload::NewKey => Some("of a million keys' first checks, each counts as a thousand"),
            Workload::Memory => Some("it keeps 64 KiB for any number of keys"),
            _ => None,
        }
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let burst = isize::try_from(plan.burst.get())
            .map_err(|_| Failure::SetUp(format!("{}: the burst is too large", Self::NAME)))?;
        Ok(Self { rate: Rate::new(WINDOW), burst })
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.ask(key, 1)
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        isize::try_from(units.get()).is_ok_and(|units| self.ask(key, units))
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
