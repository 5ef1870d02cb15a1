//! Cuts under a load below the limit: neither side may deny anything afterwards.

use std::time::Duration;

use super::round::{HOT, Round, hot, report_lab};
use crate::figure::{Bounds, Figures};
use crate::lab::Lab;
use crate::weather::Weather;

/// What is asked for, in parts of the limit.
const LOAD: f64 = 0.8;
const BEFORE: Duration = Duration::from_secs(3);
/// The length of each cut, in milliseconds.
const CUTS: [u64; 3] = [500, 1_500, 10_000];

pub fn run(round: &Round, figures: &mut Figures) -> Result<(), String> {
    let nodes = round.nodes;
    let mut lab = round.lab(nodes, HOT)?;
    lab.form(nodes, &hot())?;
    lab.set_rates(LOAD * HOT.rate as f64 / nodes as f64);
    lab.pass(BEFORE);
    let cuts = if round.args.short { &CUTS[1..2] } else { &CUTS[..] };
    for cut in cuts {
        around(round, &lab, Duration::from_millis(*cut), figures);
    }
    report_lab(&lab, figures);
    Ok(())
}

fn around(round: &Round, lab: &Lab, length: Duration, figures: &mut Figures) {
    isolate(lab, round.nodes - 1, round.nodes);
    let cut = lab.pass(length);
    lab.switch.weather(Weather::heal);
    let after = lab.pass(round.seconds(15, 6));
    let ledger = lab.ledger();
    let of = |figure: &str| format!("{figure}_{}s", length.as_secs_f64());
    let none = Bounds::around(0.0, 0.0);
    let beyond = after.start + HOT.tau().as_nanos() as u64..after.end;
    let denied = ledger.all_denied(&beyond) as f64;
    figures.demand(&of("denied_beyond_tau"), denied, none, none);
    let denied = ledger.all_denied(&after) as f64;
    figures.demand(&of("denied_after"), denied, Bounds::most(f64::INFINITY), none);
    figures.report(&of("denied_during"), ledger.all_denied(&cut) as f64);
    let last = ledger.last_denial(&after).map_or(0, |at| at - after.start);
    figures.report(&of("last_denial_seconds"), last as f64 / 1e9);
    figures.report(&of("longest_dark_ms"), ledger.longest_dark_ms(&after));
    let time = cut.start..after.end;
    figures.report(&of("demand_percent_of_burst"), ledger.demand_percent(HOT, &time));
}

/// Cuts a node from all others, in both directions.
pub fn isolate(lab: &Lab, node: usize, nodes: usize) {
    lab.switch.weather(|weather| {
        for other in (0..nodes).filter(|other| *other != node) {
            weather.cut(node, other);
            weather.cut(other, node);
        }
    });
}
