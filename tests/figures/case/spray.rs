//! A great number of new keys at one node, while another is dead: the one that is well is to miss
//! nothing, and no live node is to be suspected.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::round::{Round, report_lab};
use crate::figure::{Bounds, Figures};
use crate::lab::Lab;
use crate::load::Keys;
use crate::node::{Node, cluster_address};
use crate::quota::Quota;
use crate::reply::Protocol;

/// New keys a second, and by how many clients.
const KEYS: f64 = 300_000.0;
const SPRAYERS: usize = 2;
/// One unit of a key drains in a second, so it must be sent.
const QUOTA: Quota = Quota { rate: 1, burst: 100 };
/// Checks a second of one key at each node, during the spray.
const CALM_CHECKS: f64 = 100.0;
const LOOK: Duration = Duration::from_millis(200);
/// How long what was sent may take to arrive when the spray has ended.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn run(round: &Round, figures: &mut Figures) -> Result<(), String> {
    let nodes = round.nodes;
    let (sprayed, well, dead) = (0, 1, nodes - 1);
    let mut lab = round.lab(nodes, QUOTA)?;
    lab.protocol = Protocol::Redis;
    lab.form(nodes, &Keys::One("calm".to_owned()))?;
    lab.set_rates(CALM_CHECKS);
    let calm = lab.pass(Duration::from_secs(2));
    let (sent_before, applied_before) = (sent(&lab, sprayed)?, applied(&lab, well)?);
    lab.kill(dead);
    for sprayer in 0..SPRAYERS {
        let client = lab.add_client(sprayed, Keys::Spray(format!("spray{sprayer}:")));
        lab.client(client).set_rate(KEYS / SPRAYERS as f64);
    }
    let start = lab.now();
    let (end, mut suspicions) = (Instant::now() + round.seconds(15, 5), BTreeMap::new());
    while Instant::now() < end {
        lab.pass(LOOK);
        for (of, by) in [(sprayed, well), (well, sprayed)] {
            let state = lab.node(by).and_then(Node::members);
            let state = state.map(|members| members.get(&cluster_address(of)).cloned());
            if state != Ok(Some("alive".to_owned())) {
                *suspicions.entry((by, of)).or_insert(0) += 1;
            }
        }
    }
    let time = start..lab.now();
    lab.set_rates(0.0);
    let took = wait_until_applied(&lab, sprayed, well, applied_before - sent_before)?;

    let ledger = lab.ledger();
    let sent = sent(&lab, sprayed)? - sent_before;
    let applied = applied(&lab, well)? - applied_before;
    let none = Bounds::around(0.0, 0.0);
    let missed = (100.0 * (1.0 - applied / sent.max(1.0))).max(0.0);
    figures.demand("missed_percent", missed, none, none);
    figures.demand("false_suspicions", f64::from(suspicions.values().sum::<i32>()), none, none);
    let metrics = [lab.node(sprayed)?.metrics()?, lab.node(well)?.metrics()?];
    let steps = metrics.iter().filter_map(|metrics| metrics.cluster(LONGEST_STEP));
    if let Some(longest) = steps.reduce(f64::max) {
        let (floor, goal) = (Bounds::most(5.0), Bounds::most(1.0));
        figures.demand("longest_step_ms", 1e3 * longest, floor, goal);
    }
    let seconds = (time.end - time.start) as f64 / 1e9;
    figures.report("keys_a_second", ledger.checks(&time) as f64 / seconds);
    figures.report("deltas_sent", sent);
    for (of, metrics) in [("its", &metrics[0]), ("others", &metrics[1])] {
        for name in ["deltas_dropped", "deltas_late", "gaps", "parts_received"] {
            if let Some(count) = metrics.cluster(&format!("{name}_total")) {
                figures.report(&format!("{of}_{name}"), count);
            }
        }
    }
    figures.report("seconds_to_tell_the_rest", took.as_secs_f64());
    figures.report("others_p99_before_ms", ledger.latency_ms(0.99, &[well], &calm));
    figures.report("others_p99_since_ms", ledger.latency_ms(0.99, &[well], &time));
    report_lab(&lab, figures);
    Ok(())
}

/// The longest step of the protocol's core, in seconds.
const LONGEST_STEP: &str = "step_longest_seconds";

/// What the node had to send: not what had drained before it was sent.
fn sent(lab: &Lab, node: usize) -> Result<f64, String> {
    let metrics = lab.node(node)?.metrics()?;
    let count = |name| metrics.cluster(name).unwrap_or_default();
    Ok(count("deltas_recorded_total") - count("deltas_covered_total"))
}

fn applied(lab: &Lab, node: usize) -> Result<f64, String> {
    let metrics = lab.node(node)?.metrics()?;
    Ok(metrics.cluster("deltas_applied_total").unwrap_or_default())
}

/// Waits until the other node has applied what this one has sent, or nothing has come for long;
/// how long it took. `ahead` is how far the one count was ahead of the other before.
fn wait_until_applied(lab: &Lab, from: usize, to: usize, ahead: f64) -> Result<Duration, String> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        lab.pass(LOOK);
        if applied(lab, to)? >= sent(lab, from)? + ahead {
            break;
        }
    }
    Ok(start.elapsed())
}
