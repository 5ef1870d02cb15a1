//! What nodes estimate was admitted beyond the limit, compared with what really was.

use super::tally::Tally;
use crate::report::Report;
use crate::rules::Rule;
use crate::time::Nanos;
use crate::world::World;

/// What was admitted beyond the limit in a time, and the worst moment, in debt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Truth {
    pub beyond: Nanos,
    pub worst: Nanos,
}

impl Truth {
    /// Adds what was seen since the last reset.
    pub fn add(&mut self, tally: &Tally) {
        self.beyond += tally.beyond;
        self.worst = self.worst.max(tally.worst);
    }
}

/// What each live node says of the first limit: the total, and the worst moment.
fn said(world: &World) -> Vec<(Nanos, Nanos)> {
    let live = world.live();
    let nodes = live.iter().filter_map(|place| world.node(*place));
    nodes.map(|node| node.over_admission(0)).collect()
}

/// Adds the figures, of everything since the nodes started; `before` are the totals then.
pub fn report(report: &mut Report, world: &World, rule: Rule, truth: Truth, before: &[Nanos]) {
    let unit = rule.debt(1) as f64;
    let said = said(world);
    let nodes = said.len().max(1) as f64;
    let since = |place: usize| before.get(place).copied().unwrap_or(0);
    let totals: Vec<f64> =
        said.iter().enumerate().map(|(n, (total, _))| (total - since(n)) as f64).collect();
    let worst: Vec<f64> = said.iter().map(|(_, worst)| *worst as f64).collect();
    let percent = |worst: f64| 100.0 * worst / rule.tau() as f64;
    report.share("beyond_units", truth.beyond as f64 / unit);
    report.share("beyond_units_estimated", totals.iter().sum::<f64>() / nodes / unit);
    report.share("estimate_off_percent", off(&totals, truth.beyond));
    report.share("worst_percent_of_all_time", percent(truth.worst as f64));
    report.share("worst_percent_estimated", percent(worst.iter().sum::<f64>() / nodes));
    report.share("worst_off_percent", off(&worst, truth.worst));
}

/// By how much the node that is off the most is, in percent of the truth.
fn off(said: &[f64], truth: Nanos) -> f64 {
    let off = |said: &f64| 100.0 * (said / (truth as f64).max(1.0) - 1.0);
    said.iter().map(off).fold(0.0, |most: f64, off| if off.abs() > most.abs() { off } else { most })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::options::Args;

    /// What a figure may be off by, in percent of the burst, where the truth is small: use that
    /// waited to be sent is played back as spread evenly over that time.
    const SMALL: f64 = 6.0;

    #[test]
    fn nodes_know_within_a_fifth_how_much_was_admitted_beyond_the_limit() {
        let burst = crate::rules::Rule::fast().quota.burst_size() as f64;
        for (nodes, seed) in [("3", 10), ("3", 14), ("5", 1), ("5", 2)] {
            let scenario = ["sim", "--scenario", "even", "--seconds", "3", "--nodes", nodes];
            let report = super::super::run(&Args::parse_from(scenario), seed);
            let figure = |name: &str| report.figures[name].as_f64().expect("a number");
            let percent = |units: f64| 100.0 * units / burst;
            for (truth, said) in [
                (percent(figure("beyond_units")), percent(figure("beyond_units_estimated"))),
                (figure("worst_percent_of_all_time"), figure("worst_percent_estimated")),
            ] {
                let off = (said - truth).abs();
                assert!(off <= SMALL.max(truth / 5.0), "{nodes}, seed {seed}: {said} for {truth}");
            }
        }
    }
}
