//! One fault under twice the limit: what part each node has afterwards, what is given away, and
//! what clients of the other nodes notice.

use std::ops::Range;
use std::time::Duration;

use rustix::process::Signal;

use super::even::report_shares;
use super::heal::isolate;
use super::round::{HOT, Round, SETTLE, hot, report_lab};
use crate::figure::{Bounds, Figures};
use crate::lab::Lab;
use crate::ledger::SECOND;
use crate::options::Kind;
use crate::weather::Weather;

/// What the nodes at the start are asked for, in parts of the limit.
const LOAD: f64 = 2.0;
const BEFORE: Duration = Duration::from_secs(5);
/// From then on, after the fault, parts are compared.
const SETTLING: Duration = Duration::from_secs(5);
const CUT: Duration = Duration::from_secs(3);
const STOP: Duration = Duration::from_secs(10);

pub fn run(round: &Round, kind: Kind, figures: &mut Figures) -> Result<(), String> {
    let nodes = round.nodes;
    let mut lab = round.lab(nodes + usize::from(kind == Kind::Join), HOT)?;
    lab.form(nodes, &hot())?;
    let rate = LOAD * HOT.rate as f64 / nodes as f64;
    lab.set_rates(rate);
    let before = lab.pass(BEFORE);
    let hit = match kind {
        Kind::Founder => 0,
        Kind::Join => nodes,
        _ => nodes - 1,
    };
    let fault_at = lab.now();
    let up = break_and_mend(&mut lab, kind, hit, figures)?;
    if kind == Kind::Join {
        lab.add_client(hit, hot());
        lab.set_rates(rate);
    }
    let mended = lab.now();
    lab.pass(SETTLING);
    let measured = lab.pass(round.seconds(10, 5));
    lab.set_rates(0.0);
    lab.pass(SETTLE);

    let ledger = lab.ledger();
    let all = lab.running();
    report_shares(figures, ledger.shares(&all, &measured));
    let total = ledger.total_error_percent(HOT);
    if kind == Kind::Cut {
        // Each side has the whole limit meanwhile.
        figures.report("total_error_percent", total);
    } else {
        let floor = Bounds::around(0.0, 0.3);
        figures.demand("total_error_percent", total, floor, Bounds::around(0.0, 0.1));
    }
    let percent = |units: f64| 100.0 * units / HOT.burst as f64;
    let worst = |time: Range<u64>| percent(ledger.worst(HOT, &time));
    figures.report("worst_before_percent_of_burst", worst(before.start + SECOND..before.end));
    figures.report("worst_since_percent_of_burst", worst(fault_at..measured.end));
    let first = ledger.allowed(hit, &(mended..mended + SECOND));
    figures.report("first_second_of_its_node", first as f64);
    let others: Vec<usize> = all.into_iter().filter(|other| *other != hit).collect();
    let p99 = |time: &Range<u64>| ledger.latency_ms(0.99, &others, time);
    let (calm, since) = (p99(&(before.start + SECOND..before.end)), fault_at..measured.start);
    figures.report("others_p99_before_ms", calm);
    figures.report("others_p99_since_ms", p99(&since));
    if let Some(up) = up {
        figures.report("seconds_to_serve", up.as_secs_f64());
    }
    report_lab(&lab, figures);
    Ok(())
}

/// Lets the fault happen and end. How long a node that was started took to serve clients.
fn break_and_mend(
    lab: &mut Lab,
    kind: Kind,
    hit: usize,
    figures: &mut Figures,
) -> Result<Option<Duration>, String> {
    match kind {
        Kind::Cut => {
            isolate(lab, hit, lab.running().len());
            lab.pass(CUT);
            lab.switch.weather(Weather::heal);
            return Ok(None);
        }
        Kind::Stop => {
            lab.node(hit)?.signal(Signal::STOP)?;
            lab.pass(STOP);
            lab.node(hit)?.signal(Signal::CONT)?;
            return Ok(None);
        }
        Kind::Leave => {
            let start = lab.now();
            lab.node(hit)?.signal(Signal::TERM)?;
            lab.wait_end(hit)?;
            figures.report("seconds_to_leave", (lab.now() - start) as f64 / SECOND as f64);
        }
        _ => lab.kill(hit),
    }
    lab.start(hit)?;
    lab.wait_ready(hit).map(Some)
}
