//! Runs our limiter and its peers side by side.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use clap::Parser;
use tidegate_benches::contenders::Label;
use tidegate_benches::entrant::Entry;
use tidegate_benches::first_checks::Amount;
use tidegate_benches::record::{self, Absence, Line, Memory, Run, Speed};
use tidegate_benches::report::{Format, Report};
use tidegate_benches::runner::{self, Measured, Settings};
use tidegate_benches::{
    Failure, Workload, date, draw, first_checks, machine, memory, reference, roster,
};

/// Runs our limiter and governor's keyed one alternately in one process, and verifies that what was
/// measured is what its name says.
#[derive(Debug, Parser)]
#[command(name = "compare")]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
struct Options {
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
    /// Include all peers, not only governor; needs a build with `--features peers`
    #[arg(long)]
    peers: bool,
    /// Run all algorithms except the usual quota for many keys, each with the peers that have it;
    /// needs a build with `--features peers`
    #[arg(long, conflicts_with = "peers")]
    algorithms: bool,
    /// Run ours and the same limit in a cluster of one node, on one key and on a million; needs a
    /// build with `--features cluster`
    #[arg(long, conflicts_with_all = ["peers", "algorithms", "variant"])]
    clustered: bool,
    /// Run only this workload; may be given several times
    #[arg(long, value_name = "WORKLOAD")]
    only: Vec<Workload>,
    /// Run only this variant of ours: a style (precise, recent, batch32) with -u64 or -sip, or with
    /// --algorithms only this algorithm; may be given several times
    #[arg(long, value_name = "VARIANT")]
    variant: Vec<String>,
    /// Timed rounds of each limiter, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(5..=99))]
    runs: u32,
    /// Run with this many threads instead of 1 and 2
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=i64::from(draw::MAX_THREADS)))]
    threads: Option<u8>,
    /// Seed of the drawn keys
    #[arg(long, value_name = "N", default_value_t = 20_261_121)]
    seed: u64,
    /// A twentieth of the checks, at most a million keys, no `SipHash`: shows that everything
    /// works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Also write the figures to this file, as JSON, below a line on their conditions; with --only,
    /// the file keeps what it has of other workloads
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    record: Option<PathBuf>,
    /// Measure the memory of one limiter in this process and print bytes
    #[arg(long = memory::CHILD_FLAG, hide = true, value_name = "LIMITER")]
    memory_of: Option<String>,
    /// Run one round of one limiter's first checks in this process and print it as JSON
    #[arg(long = first_checks::CHILD_FLAG, hide = true, value_name = "LIMITER")]
    first_checks_of: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match (&options.memory_of, &options.first_checks_of) {
        (Some(limiter), _) => print_memory_of(limiter),
        (None, Some(limiter)) => print_first_checks_of(limiter, &options),
        (None, None) => compare(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed too, the exit code must suffice.
            let _ = writeln!(io::stderr(), "compare: {error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn compare(options: &Options) -> Outcome {
    let entries = entries(options)?;
    let workloads = workloads(options)?;
    let kept = kept(options)?;
    let (load, machine) = (machine::load(), machine::describe());
    describe_run(options, &machine)?;
    let format = if options.json { Format::Json } else { Format::Table };
    let mut report = Report::new(io::stdout(), format);
    report.begin()?;
    for workload in workloads {
        measure(workload, options, &entries, &mut report)
            .map_err(|error| format!("{}: {error}", workload.name()))?;
    }
    let lines = report.finish()?;
    if let Some(path) = &options.record {
        let lines = record::merge(kept, &recording(options, machine, load, lines));
        fs::write(path, text(&lines)?).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn workloads(options: &Options) -> Result<Vec<Workload>, Failure> {
    let mut workloads = Workload::ALL.to_vec();
    workloads.retain(|workload| options.only.is_empty() || options.only.contains(workload));
    if options.algorithms {
        workloads.retain(|workload| workload.is_of_algorithms());
    }
    if options.clustered && options.only.is_empty() {
        workloads = vec![Workload::HotAllowed, Workload::Zipf1M];
    }
    if workloads.is_empty() {
        return Err(Failure::SetUp("the algorithms have no part in this workload".to_owned()));
    }
    Ok(workloads)
}

/// What is recorded already, if only some workloads are recorded anew. Read before anything is
/// measured, so that a file that cannot be read costs no time.
fn kept(options: &Options) -> Result<Vec<Line>, Failure> {
    match &options.record {
        Some(path) if !options.only.is_empty() && path.exists() => record::read(path),
        _ => Ok(Vec::new()),
    }
}

/// Ours, the reference, and the peers if requested, in the order of a report.
fn entries(options: &Options) -> Result<Vec<Entry>, Failure> {
    if options.algorithms {
        return roster::chosen_algorithms(&options.variant);
    }
    if options.clustered {
        return roster::clustered();
    }
    let mut entries = roster::chosen_of_ours(&options.variant, !options.quick)?;
    entries.push(roster::reference());
    if options.peers {
        entries.extend(roster::peers()?);
    }
    Ok(entries)
}

/// To standard error, so that standard output holds only figures.
fn describe_run(options: &Options, machine: &str) -> io::Result<()> {
    let mut out = io::stderr();
    writeln!(out, "{machine}")?;
    writeln!(out, "seed {}, median of {} runs in turn", options.seed, options.runs)?;
    if options.quick {
        writeln!(out, "QUICK: too few checks for figures to be compared or published")?;
    }
    Ok(())
}

fn measure(
    workload: Workload,
    options: &Options,
    entries: &[Entry],
    report: &mut Report<io::Stdout>,
) -> Outcome {
    let (present, absent): (Vec<_>, Vec<_>) =
        entries.iter().cloned().partition(|entry| (entry.absence)(workload).is_none());
    if workload == Workload::Memory {
        for line in memory_lines(&present)? {
            report.line(Line::Memory(line))?;
        }
    } else {
        let mut written = Ok(());
        measure_speeds(workload, options, &present, |threads, measured| {
            for speed in speeds(workload, threads, &measured) {
                if written.is_ok() {
                    written = report.line(Line::Speed(speed));
                }
            }
        })?;
        written?;
    }
    for Entry { label, absence, .. } in absent {
        if let Some(why) = absence(workload) {
            let (workload, absent) = (workload.name().to_owned(), why.to_owned());
            report.line(Line::Absence(Absence { workload, label, absent }))?;
        }
    }
    Ok(())
}

fn measure_speeds(
    workload: Workload,
    options: &Options,
    entries: &[Entry],
    report: impl FnMut(usize, Vec<Measured>),
) -> Result<(), Failure> {
    let settings = settings(workload, options);
    if workload == Workload::NewKey {
        let turn = |entry: &Entry, threads: usize| {
            let mut arguments = vec![format!("--threads={threads}")];
            if options.quick {
                arguments.push("--quick".to_owned());
            }
            first_checks::in_child(entry, arguments)
        };
        runner::run_first_checks(&settings, entries, turn, report)
    } else {
        runner::run(workload, &settings, entries, report)
    }
}

fn is_reference(label: &Label) -> bool {
    *label == roster::reference().label
}

fn speeds(workload: Workload, threads: usize, measured: &[Measured]) -> Vec<Speed> {
    let speed = |one| Speed::new(workload, threads, one, reference::ratio(one, measured));
    measured.iter().map(speed).collect()
}

fn memory_lines(entries: &[Entry]) -> Result<Vec<Memory>, Failure> {
    let keys = Workload::Memory.keys();
    let bytes = entries
        .iter()
        .map(|entry| memory::in_child(&entry.label))
        .collect::<Result<Vec<_>, _>>()?;
    let measured = || entries.iter().zip(&bytes);
    let reference = measured().find(|(entry, _)| is_reference(&entry.label));
    let reference = reference.map_or(f64::NAN, |(_, bytes)| *bytes as f64);
    Ok(measured().map(|(entry, bytes)| Memory::new(entry, keys, *bytes, reference)).collect())
}

fn settings(workload: Workload, options: &Options) -> Settings {
    /// Checks of each thread in a round: a tenth of a second at least.
    const CHECKS: u32 = 2_000_000;
    const HOT_CHECKS: u32 = 8_000_000;
    const QUICK_DIVISOR: u32 = 20;
    const QUICK_KEYS: usize = 1_000_000;
    let checks = match workload {
        Workload::NewKey => workload.keys() as u32,
        _ if workload.is_hot() => HOT_CHECKS,
        _ => CHECKS,
    };
    Settings {
        threads: options.threads.map_or_else(|| vec![1, 2], |threads| vec![threads.into()]),
        runs: options.runs,
        checks: if options.quick { checks / QUICK_DIVISOR } else { checks },
        keys: if options.quick { workload.keys().min(QUICK_KEYS) } else { workload.keys() },
        seed: options.seed,
    }
}

/// A recording: its conditions, then the figures.
fn recording(
    options: &Options,
    machine: String,
    load: Option<f64>,
    mut lines: Vec<Line>,
) -> Vec<Line> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let features = match options {
        Options { clustered: true, .. } => "--features cluster ",
        Options { peers: true, .. } | Options { algorithms: true, .. } => "--features peers ",
        _ => "",
    };
    lines.insert(
        0,
        Line::Run(Run {
            command: format!(
                "cargo run --release -p tidegate-benches {features}--bin compare -- {}",
                arguments.join(" ")
            ),
            machine,
            load,
            date: date::today(),
            seed: options.seed,
            runs: options.runs,
        }),
    );
    lines
}

fn text(lines: &[Line]) -> Result<String, Failure> {
    let mut text = String::new();
    for line in lines {
        // Writing into a `String` does not fail.
        let _ = writeln!(text, "{}", record::to_json(line)?);
    }
    Ok(text)
}

fn print_memory_of(limiter: &str) -> Outcome {
    let entries = roster::all();
    let bytes = (Entry::find(&entries, limiter)?.footprint)(Workload::Memory.keys())?;
    writeln!(io::stdout(), "{bytes}")?;
    Ok(())
}

fn print_first_checks_of(limiter: &str, options: &Options) -> Outcome {
    let entries = roster::all();
    let Settings { threads, checks, .. } = settings(Workload::NewKey, options);
    let amount = Amount { threads: threads[0], checks };
    let round = first_checks::measure(Entry::find(&entries, limiter)?, amount)?;
    serde_json::to_writer(io::stdout(), &round)?;
    writeln!(io::stdout())?;
    Ok(())
}
