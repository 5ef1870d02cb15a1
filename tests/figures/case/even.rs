//! Even demand on a hot key: the total, the worst instant, and what part each node has.

use std::time::Duration;

use super::round::{HOT, Round, SETTLE, hot, report_lab};
use crate::figure::{Bounds, Figures};
use crate::lab::Lab;
use crate::ledger::{Ledger, SECOND};
use crate::load::NAMED;
use crate::reply::Protocol;

/// What is asked for, in parts of the limit.
const LOAD: f64 = 2.0;
/// Also where runs are to be short: what nodes leave unused they leave once, so of a shorter run it
/// is more.
const LOADED: Duration = Duration::from_secs(20);
/// Until nodes have estimated what there was.
const ESTIMATING: Duration = Duration::from_secs(2);

pub fn run(round: &Round, figures: &mut Figures) -> Result<(), String> {
    let nodes = round.nodes;
    let mut lab = round.lab(nodes, HOT)?;
    lab.form(nodes, &hot())?;
    let frames = lab.sum("frames_sent_total")?;
    lab.set_rates(LOAD * HOT.rate as f64 / nodes as f64);
    lab.pass(LOADED);
    lab.set_rates(0.0);
    lab.pass(SETTLE);

    let ledger = lab.ledger();
    let all: Vec<usize> = (0..nodes).collect();
    // Before, a full bucket is offered to all nodes at once.
    let time = ledger.began() + SECOND..ledger.ended() + 1;
    let total = ledger.total_error_percent(HOT);
    let floor = Bounds::around(0.0, 0.3);
    figures.demand("total_error_percent", total, floor, Bounds::around(0.0, 0.1));
    let worst = 100.0 * ledger.worst(HOT, &time) / HOT.burst as f64;
    let floor = Bounds::most(if nodes <= 3 { 6.0 } else { 8.0 });
    figures.demand("worst_percent_of_burst", worst, floor, Bounds::most(4.0));
    let certain = 100.0 * ledger.worst_certain(HOT, &time) / HOT.burst as f64;
    figures.demand("worst_certain_percent_of_burst", certain, floor, Bounds::most(4.0));
    let first = 100.0 * ledger.worst(HOT, &(0..time.start)) / HOT.burst as f64;
    figures.report("worst_in_first_second_percent", first);
    report_shares(figures, ledger.shares(&all, &time));
    if let (Some(before), Some(after)) = (frames, lab.sum("frames_sent_total")?) {
        let checks = ledger.checks(&(0..u64::MAX));
        figures.report("frames_a_check", (after - before) / checks.max(1) as f64);
    }
    report_estimate(&lab, &ledger, figures)?;
    figures.report("round_trip_p50_ms", ledger.latency_ms(0.5, &all, &time));
    figures.report("round_trip_p99_ms", ledger.latency_ms(0.99, &all, &time));
    report_lab(&lab, figures);
    Ok(())
}

/// Compares what nodes say was admitted beyond a limit of the configuration with what was.
fn report_estimate(lab: &Lab, ledger: &Ledger, figures: &mut Figures) -> Result<(), String> {
    // Nodes look at batches that may still be on their way.
    lab.pass(ESTIMATING);
    let (truth, nodes) = (ledger.refused(HOT), lab.running().len() as f64);
    let name = format!("over_admitted_units_total{{limit=\"{NAMED}\"}}");
    let Some(reported) = lab.sum(&name)?.filter(|_| lab.protocol == Protocol::Http) else {
        return Ok(());
    };
    figures.report("over_admitted_units", truth);
    let error = 100.0 * (reported / nodes / truth.max(1.0) - 1.0);
    let (floor, goal) = (Bounds::around(0.0, 20.0), Bounds::around(0.0, 10.0));
    figures.demand("estimate_error_percent", error, floor, goal);
    Ok(())
}

/// Reports the least and the largest part of a node.
pub fn report_shares(figures: &mut Figures, (least, most): (f64, f64)) {
    let (floor, goal) = (Bounds(0.8, 1.2), Bounds(0.95, 1.05));
    figures.demand("share_least", least, floor, goal);
    figures.demand("share_most", most, floor, goal);
}
