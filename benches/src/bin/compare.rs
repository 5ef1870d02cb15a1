//! Runs our limiter and governor side by side.
#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;
use tidegate_benches::contenders::{Audited, Batch32, GovernorString, Precise, Recent};
use tidegate_benches::report::{Format, Report};
use tidegate_benches::runner::{self, Settings};
use tidegate_benches::{Failure, Workload, machine, memory};

/// Runs our limiter and governor's keyed one side by side, in turn, in one process, and checks that
/// what was measured is what its name says.
#[derive(Debug, Parser)]
#[command(name = "compare")]
struct Options {
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Run this workload only
    #[arg(long, value_name = "WORKLOAD")]
    only: Option<Workload>,
    /// Run this clock or call style of ours only
    #[arg(long, value_name = "VARIANT",
          value_parser = [Precise::VARIANT, Recent::VARIANT, Batch32::VARIANT])]
    variant: Option<String>,
    /// Timed rounds of each limiter, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(5..=99))]
    runs: u32,
    /// Run with this many threads instead of 1 and 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// What the drawn keys follow from
    #[arg(long, value_name = "N", default_value_t = 20_261_121)]
    seed: u64,
    /// A twentieth of the checks: shows that everything works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Measure the memory of one limiter in this process and print bytes
    #[arg(long = memory::CHILD_FLAG, hide = true, value_name = "LIMITER")]
    memory_of: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.memory_of {
        Some(limiter) => print_memory_of(limiter),
        None => compare(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where standard error is gone too, the exit code has to do.
            let _ = writeln!(io::stderr(), "compare: {error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn compare(options: &Options) -> Outcome {
    describe_run(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    let mut report = Report::new(io::stdout(), format);
    report.begin()?;
    for workload in Workload::ALL {
        if options.only.is_none_or(|only| only == workload) {
            measure(workload, options, &mut report)
                .map_err(|error| format!("{}: {error}", workload.name()))?;
        }
    }
    report.finish()?;
    Ok(())
}

/// To standard error, so that standard output holds figures only.
fn describe_run(options: &Options) -> io::Result<()> {
    let mut out = io::stderr();
    writeln!(out, "{}", machine::describe())?;
    writeln!(out, "seed {}, median of {} runs in turn", options.seed, options.runs)?;
    if options.quick {
        writeln!(out, "QUICK: too few checks for figures to be compared or published")?;
    }
    Ok(())
}

fn measure(workload: Workload, options: &Options, report: &mut Report<io::Stdout>) -> Outcome {
    if workload == Workload::Memory {
        let footprints = memory::compare(workload.keys())?;
        return Ok(report.memory::<Precise, GovernorString>(&footprints)?);
    }
    measure_style::<Precise>(workload, options, report)?;
    if workload != Workload::HotDenied {
        measure_style::<Recent>(workload, options, report)?;
    }
    if workload.is_wide() {
        measure_style::<Batch32>(workload, options, report)?;
    }
    Ok(())
}

fn measure_style<O: Audited>(
    workload: Workload,
    options: &Options,
    report: &mut Report<io::Stdout>,
) -> Outcome {
    if options.variant.as_ref().is_some_and(|variant| variant != O::VARIANT) {
        return Ok(());
    }
    let (mut written, mut staleness) = (Ok(()), None);
    runner::run::<O, GovernorString>(workload, &settings(workload, options), |measured| {
        staleness = measured.staleness.max(staleness);
        if written.is_ok() {
            written = report.throughput::<O, GovernorString>(workload, measured);
        }
    })?;
    if let Some(staleness) = staleness {
        let (workload, variant) = (workload.name(), O::VARIANT);
        writeln!(io::stderr(), "{workload} {variant}: the clock was up to {staleness:?} late")?;
    }
    Ok(written?)
}

fn settings(workload: Workload, options: &Options) -> Settings {
    /// Checks of each thread in a round: a tenth of a second at least.
    const CHECKS: u32 = 2_000_000;
    const HOT_CHECKS: u32 = 8_000_000;
    const QUICK_DIVISOR: u32 = 20;
    let checks = if workload.keys() == 1 { HOT_CHECKS } else { CHECKS };
    Settings {
        threads: options.threads.map_or_else(|| vec![1, 2], |threads| vec![threads.into()]),
        runs: options.runs,
        checks: if options.quick { checks / QUICK_DIVISOR } else { checks },
        keys: workload.keys(),
        seed: options.seed,
    }
}

fn print_memory_of(limiter: &str) -> Outcome {
    let bytes: Result<u64, Failure> = memory::measure(limiter, Workload::Memory.keys());
    writeln!(io::stdout(), "{}", bytes?)?;
    Ok(())
}
