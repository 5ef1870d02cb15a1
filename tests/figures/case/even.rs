//! Even demand on a hot key: the total, the worst instant, and what part each node has.

use super::{HOT, Round, SETTLE, hot, report_lab};
use crate::figure::{Bounds, Figures};
use crate::ledger::SECOND;

/// What is asked for, in parts of the limit.
const LOAD: f64 = 2.0;

pub fn run(round: &Round, figures: &mut Figures) -> Result<(), String> {
    let nodes = round.nodes;
    let mut lab = round.lab(nodes, HOT)?;
    lab.form(nodes, &hot())?;
    let frames = lab.sum("frames_sent_total")?;
    lab.set_rates(LOAD * HOT.rate as f64 / nodes as f64);
    lab.pass(round.seconds(20, 5));
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
    let first = 100.0 * ledger.worst(HOT, &(0..time.start)) / HOT.burst as f64;
    figures.report("worst_in_first_second_percent", first);
    report_shares(figures, ledger.shares(&all, &time));
    if let (Some(before), Some(after)) = (frames, lab.sum("frames_sent_total")?) {
        let checks = ledger.checks(&(0..u64::MAX));
        figures.report("frames_a_check", (after - before) / checks.max(1) as f64);
    }
    figures.report("round_trip_p50_ms", ledger.latency_ms(0.5, &all, &time));
    figures.report("round_trip_p99_ms", ledger.latency_ms(0.99, &all, &time));
    report_lab(&lab, figures);
    Ok(())
}

/// Reports the least and the largest part of a node.
pub fn report_shares(figures: &mut Figures, (least, most): (f64, f64)) {
    let (floor, goal) = (Bounds(0.8, 1.2), Bounds(0.95, 1.05));
    figures.demand("share_least", least, floor, goal);
    figures.demand("share_most", most, floor, goal);
}
