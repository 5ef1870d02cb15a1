//! What recording in a cluster adds to a check: checks of a limiter, and of the same limit in a
//! cluster of one node, alternately in one process.
#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tidegate_benches::contenders::{Contender, Ours, Precise, Sip};
use tidegate_benches::entrant::Entry;
use tidegate_benches::runner::{self, Measured, Settings};
use tidegate_benches::workloads::Plan;
use tidegate_benches::{Failure, Workload, machine};
use tidegate_cluster::{Cluster, Config, GossipLimiter, Secret};
use tidegate_engine::{Limiter, Quota};
use tokio::runtime::{self, Runtime};

/// Times checks with and without a cluster, and prints how many times as long the former take: the
/// median of the ratios of rounds, and the ratio of the fastest rounds
#[derive(Debug, Parser)]
#[command(name = "clustered")]
struct Options {
    /// Timed rounds of each, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u32,
    /// Checks of each thread in a round, in millions
    #[arg(long, value_name = "N", default_value_t = 4)]
    millions: u32,
    /// Seed of the drawn keys
    #[arg(long, value_name = "N", default_value_t = 20_261_121)]
    seed: u64,
    /// Run only this workload
    #[arg(long, value_name = "WORKLOAD")]
    only: Option<Workload>,
}

impl Options {
    fn includes(&self, workload: Workload) -> bool {
        self.only.is_none_or(|only| only == workload)
    }
}

/// One key, and a million.
const WORKLOADS: [Workload; 2] = [Workload::HotAllowed, Workload::Zipf1M];

fn main() -> ExitCode {
    match measure(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed too, the exit code must suffice.
            let _ = writeln!(io::stderr(), "clustered: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout();
    writeln!(out, "{}", machine::describe())?;
    writeln!(out, "| workload | threads | local, M/s | clustered, M/s | ratio | best |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    let entries = [Entry::ours::<Ours<Precise, String, Sip>>(), Entry::peer::<Clustered>()];
    for workload in WORKLOADS.into_iter().filter(|one| options.includes(*one)) {
        let settings = Settings {
            threads: vec![1, 2],
            runs: options.runs,
            checks: options.millions.saturating_mul(1_000_000),
            keys: workload.keys(),
            seed: options.seed,
        };
        let mut written = Ok(());
        runner::run(workload, &settings, &entries, |threads, measured| {
            if written.is_ok() {
                written = print(&mut out, workload, threads, &measured);
            }
        })?;
        written?;
    }
    Ok(())
}

fn print(
    out: &mut impl io::Write,
    workload: Workload,
    threads: usize,
    measured: &[Measured],
) -> io::Result<()> {
    let [local, clustered] = measured else { return Ok(()) };
    let name = workload.name();
    let (one, other) = (local.rates.median, clustered.rates.median);
    let ratio = local.ratio_to(clustered);
    let best = local.rates.max / clustered.rates.max;
    writeln!(out, "| {name} | {threads} | {one:.1} | {other:.1} | {ratio:.2} | {best:.2} |")
}

/// A limit of a node that has founded a cluster.
struct Clustered {
    limit: Arc<GossipLimiter>,
    cluster: Cluster,
    /// Of the node's tasks.
    _runtime: Runtime,
}

impl Clustered {
    fn start(plan: &Plan) -> Result<Self, Box<dyn Error>> {
        let secret = Secret::from_bytes(b"of this measurement alone")?;
        let quota = Quota::new(1, plan.interval).burst(plan.burst.get().into());
        let config = Config::new("127.0.0.1:0".parse()?, secret);
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let cluster = runtime.block_on(Cluster::start(config))?;
        let builder = Limiter::builder(quota).capacity(plan.keys);
        let limit = cluster.limit_with("clustered", builder)?;
        Ok(Self { limit, cluster, _runtime: runtime })
    }
}

impl Contender for Clustered {
    const NAME: &'static str = "clustered";
    const BESIDE: &'static str = "precise-sip";
    type Key = String;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Self::start(plan).map_err(|error| Failure::SetUp(format!("a cluster: {error}")))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        black_box(self.limit.check(key)).is_allowed()
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.limit.check_n(key, units.get().into()).is_allowed()
    }

    fn live_keys(&self) -> Option<usize> {
        Some(self.limit.live().count())
    }
}

impl Drop for Clustered {
    fn drop(&mut self) {
        let stats = self.cluster.stats();
        let (shared, dropped) = (stats.records_shared, stats.records_dropped);
        let _ = writeln!(io::stderr(), "{shared} records in shared maps, {dropped} dropped");
    }
}
