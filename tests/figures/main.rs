//! Measures clusters of real nodes on a network that delays, loses and cuts.
//!
//! ```text
//! .ci/cluster-figures
//! ```
//!
//! Each node runs in a network namespace of its own, whose only device ends in a switch in this
//! process: so it needs Linux and root, and no netem. Clients ask each node for units of one limit
//! through the Redis protocol, at a rate, from within its namespace. Every answer is noted on one
//! clock, and compared with an exact central bucket. What is printed is one line a figure, with
//! what is demanded of it: a floor, and a goal. `docs/cluster-figures.md` says what each means.
//!
//! | files | subject |
//! |---|---|
//! | `quota.rs`, `weather.rs`, `reply.rs` | the limit; the network's conditions; answers |
//! | `ledger.rs`, `figure.rs` | what was admitted, and what follows; figures |
//! | `sys.rs`, `place.rs`, `switch.rs` | system calls; namespaces; the network between them |
//! | `load.rs`, `node.rs`, `lab.rs` | clients; node processes; all of it |
//! | `case.rs`, `case/` | what is measured |

mod case;
mod figure;
mod lab;
mod ledger;
mod load;
mod node;
mod options;
mod place;
mod quota;
mod reply;
mod switch;
mod sys;
mod weather;

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use case::Round;
use figure::{Figures, Verdict};
use options::{Args, Kind, Level};
use place::Place;

/// The exit code where there are no namespaces, as automake has it for tests that are skipped.
const SKIPPED: u8 = 77;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(reason) = Place::new(0) {
        eprintln!("cluster-figures: skipped: {reason}");
        return ExitCode::from(SKIPPED);
    }
    match run(&args) {
        Ok(met) => ExitCode::from(u8::from(!met)),
        Err(reason) => {
            eprintln!("cluster-figures: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all figures meet what the command line demands.
fn run(args: &Args) -> Result<bool, String> {
    node::check_binary(&args.node)?;
    let file = |path: &std::path::PathBuf| {
        File::create(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut json = args.json.as_ref().map(file).transpose()?;
    say(&format!("{args:?}"));
    let kinds = if args.cases.is_empty() { Kind::value_variants() } else { &args.cases[..] };
    let mut met = true;
    for kind in kinds {
        let own = args.nodes.map(usize::from);
        let sizes = own.as_ref().map_or(kind.sizes(), std::slice::from_ref);
        for nodes in sizes {
            let mut figures = Figures::default();
            for number in 0..args.rounds {
                let round = case::run(&Round::new(args, *nodes, number), *kind, &mut figures);
                round.map_err(|error| format!("{} with {nodes} nodes: {error}", kind.name()))?;
            }
            met &= publish(&figures, &kind.name(), *nodes, args.demand, json.as_mut())?;
        }
    }
    Ok(met)
}

/// Prints and writes figures; whether they meet what is demanded.
fn publish(
    figures: &Figures,
    case: &str,
    nodes: usize,
    demand: Option<Level>,
    mut json: Option<&mut File>,
) -> Result<bool, String> {
    let mut met = true;
    for figure in &figures.all {
        say(&figure.line(case, nodes));
        if let Some(file) = &mut json {
            let written = writeln!(file, "{}", figure.json(case, nodes));
            written.map_err(|error| format!("--json: {error}"))?;
        }
        met &= match (demand, figure.verdict()) {
            (None, _) | (_, Verdict::Reported | Verdict::Goal) => true,
            (Some(Level::Floor), verdict) => verdict == Verdict::Floor,
            (Some(Level::Goal), _) => false,
        };
    }
    Ok(met)
}

/// Prints a line. The reader may be gone.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
