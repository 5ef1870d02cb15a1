//! What gossip costs where it is not needed: many nodes, few checks, a key far from its limit.

use std::time::Duration;

use super::round::{HOT, Round, hot, report_lab};
use crate::figure::{Bounds, Figures};
use crate::lab::Lab;

/// Checks a second of all nodes together: a tenth of the limit.
const CHECKS: f64 = 1_000.0;
/// Until nodes that have met have nothing more to send each other.
const CALM: Duration = Duration::from_secs(3);

pub fn run(round: &Round, figures: &mut Figures) -> Result<(), String> {
    let alone = {
        let mut lab = round.lab(round.nodes, HOT)?;
        lab.without_cluster();
        lab.form(round.nodes, &hot())?;
        measure(round, &lab, CHECKS)?
    };
    let mut lab = round.lab(round.nodes, HOT)?;
    lab.form(round.nodes, &hot())?;
    lab.pass(CALM);
    let idle = measure(round, &lab, 0.0)?;
    let loaded = measure(round, &lab, CHECKS)?;

    let checks = loaded.checks.max(1.0);
    let (frames, ms) = (loaded.frames / checks, 1e3 * (loaded.cpu - alone.cpu) / checks);
    figures.demand("frames_a_check", frames, Bounds::most(0.5), Bounds::most(0.1));
    figures.demand("cluster_cpu_a_check_ms", ms, Bounds::most(0.05), Bounds::most(0.05));
    figures.report("checks_a_second", checks / loaded.seconds);
    let of_node = |cost: &Cost| 100.0 * cost.cpu / cost.seconds / round.nodes as f64;
    figures.report("cpu_of_a_node_alone_percent", of_node(&alone));
    figures.report("cpu_of_a_node_idle_percent", of_node(&idle));
    figures.report("cpu_of_a_node_loaded_percent", of_node(&loaded));
    figures.report("frames_a_second_idle", idle.frames / idle.seconds);
    figures.report("packets_a_check", loaded.packets / checks);
    figures.report("packets_a_second_idle", idle.packets / idle.seconds);
    report_lab(&lab, figures);
    Ok(())
}

/// What a while has cost all nodes.
struct Cost {
    seconds: f64,
    /// Processor time, in seconds.
    cpu: f64,
    checks: f64,
    frames: f64,
    packets: f64,
}

fn measure(round: &Round, lab: &Lab, checks: f64) -> Result<Cost, String> {
    let frames = || lab.sum("frames_sent_total").map(Option::unwrap_or_default);
    lab.set_rates(checks / round.nodes as f64);
    lab.pass(Duration::from_secs(1));
    let (cpu, frames_before) = (lab.processor_time()?, frames()?);
    let packets = lab.switch.counts().forwarded;
    let time = lab.pass(round.seconds(20, 5));
    let cpu = lab.processor_time()?.saturating_sub(cpu);
    Ok(Cost {
        seconds: (time.end - time.start) as f64 / 1e9,
        cpu: cpu.as_secs_f64(),
        checks: lab.ledger().checks(&time) as f64,
        frames: frames()? - frames_before,
        packets: (lab.switch.counts().forwarded - packets) as f64,
    })
}
