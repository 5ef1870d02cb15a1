//! What rounds of all cases share.

use std::time::Duration;

use crate::figure::Figures;
use crate::lab::Lab;
use crate::load::Keys;
use crate::options::{Args, Limit};
use crate::quota::Quota;
use crate::reply::Protocol;

/// The limit of the hot key.
pub(super) const HOT: Quota = Quota { rate: 10_000, burst: 1_000 };
/// How long answers may be under way when the load has ended.
pub(super) const SETTLE: Duration = Duration::from_millis(500);

/// One round of a case.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    pub(super) args: &'a Args,
    pub(super) nodes: usize,
    pub(super) number: u16,
}

impl<'a> Round<'a> {
    pub const fn new(args: &'a Args, nodes: usize, number: u16) -> Self {
        Self { args, nodes, number }
    }

    /// Places for this many nodes.
    pub(super) fn lab(&self, size: usize, quota: Quota) -> Result<Lab, String> {
        let seed = self.args.seed.wrapping_add(u64::from(self.number));
        let mut lab = Lab::new(size, quota, self.args.conditions(), seed, &self.args.node)?;
        lab.protocol = match self.args.limit {
            Limit::Inline => Protocol::Redis,
            Limit::Named => Protocol::Http,
        };
        Ok(lab)
    }

    /// This many seconds, or the fewer of a short run.
    pub(super) fn seconds(&self, long: u64, short: u64) -> Duration {
        Duration::from_secs(if self.args.short { short } else { long })
    }
}

pub(super) fn hot() -> Keys {
    Keys::One("hot".to_owned())
}

/// How well the laboratory itself kept up: figures whose times are not below those that are
/// measured say more about the machine than about the cluster.
pub(super) fn report_lab(lab: &Lab, figures: &mut Figures) {
    let counts = lab.switch.counts();
    let late = counts.late.as_secs_f64() * 1e3;
    figures.report("switch_late_mean_ms", late / counts.forwarded.max(1) as f64);
    figures.report("switch_late_most_ms", counts.latest.as_secs_f64() * 1e3);
    figures.report("switch_overflowed", counts.overflowed as f64);
    let (mut skipped, mut errors, mut lost) = (0, 0, 0);
    for client in lab.clients() {
        skipped += client.skipped();
        errors += client.errors();
        lost += client.lost();
    }
    figures.report("requests_skipped", skipped as f64);
    figures.report("requests_refused", errors as f64);
    figures.report("requests_lost", lost as f64);
}
