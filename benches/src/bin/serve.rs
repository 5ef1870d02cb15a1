//! Measures servers on loopback: a node and its peers on one core, the load on another.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::error::Error;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_benches::machine;
use tidegate_benches::serve::memory::{self, Memory};
use tidegate_benches::serve::rounds::{self, CONNECTIONS, Settings};
use tidegate_benches::serve::rows::Row;
use tidegate_benches::serve::servers::Server;
use tidegate_benches::serve::table::Table;
use tidegate_benches::serve::{ceiling, cores};

/// Measures servers on one core by a load on another, in turn, and prints medians: of a node, and
/// of a server that answers the same bytes and decides nothing
#[derive(Debug, Parser)]
#[command(name = "serve")]
struct Options {
    /// The node
    #[arg(long, value_name = "PATH", default_value = "target/release/tidegate")]
    node: PathBuf,
    /// Also a node that has founded a cluster
    #[arg(long)]
    cluster: bool,
    /// Also Redis with this module, a library, or the folder of redis-cell's source
    #[arg(long, value_name = "PATH")]
    redis_cell: Option<PathBuf>,
    /// Redis, for --redis-cell
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    redis_server: PathBuf,
    /// Also throttlecrab-server
    #[arg(long, value_name = "PATH")]
    throttlecrab: Option<PathBuf>,
    /// Measure only these rows
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<Row>,
    /// How often each server is measured
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// For how many seconds
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Seed of the drawn keys
    #[arg(long, value_name = "N", default_value_t = 20_261_125)]
    seed: u64,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Role {
    /// Be the server that decides nothing, until standard input ends
    Ceiling,
    /// Measure the memory of a node instead: at rest, for live keys, sprayed keys and idle
    /// connections; with --cluster also of one in a cluster of one
    Memory,
}

/// Each server is asked for this long before a measurement.
const WARM_UP: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match options.role {
        Some(Role::Ceiling) => be_the_ceiling().map_err(Into::into),
        Some(Role::Memory) => measure_memory(&options),
        None => measure(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed too, the exit code must suffice.
            let _ = writeln!(io::stderr(), "serve: {error}");
            ExitCode::FAILURE
        }
    }
}

/// On the core to which the parent keeps it.
fn be_the_ceiling() -> io::Result<()> {
    let (resp, http) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (resp_at, http_at) = (resp.local_addr()?, http.local_addr()?);
    writeln!(io::stdout(), "listening resp={resp_at} http={http_at}")?;
    ceiling::run(&resp, &http, io::stdin())
}

fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    // Before this thread is kept to one core, so that it sees them all.
    describe_run(options)?;
    cores::stay_on(cores::OF_LOAD)?;
    let servers = servers(options)?;
    let settings = Settings {
        rounds: options.rounds,
        window: Duration::from_secs(options.seconds.into()),
        warm_up: WARM_UP,
        seed: options.seed,
    };
    let mut table = Table::begin(io::stdout())?;
    let is_chosen = |row: &Row| options.only.is_empty() || options.only.contains(row);
    for row in Row::ALL.into_iter().filter(is_chosen) {
        table.row(row, &rounds::measure(row, &servers, &settings))?;
    }
    table.finish()?;
    Ok(())
}

fn measure_memory(options: &Options) -> Result<(), Box<dyn Error>> {
    writeln!(io::stderr(), "{}", machine::describe())?;
    check_node(options)?;
    cores::stay_on(cores::OF_LOAD)?;
    let mut nodes = vec![("tidegate", memory::measure(|| Server::node(&options.node))?)];
    if options.cluster {
        let clustered = memory::measure(|| Server::clustered_node(&options.node))?;
        nodes.push(("tidegate in a cluster of one", clustered));
    }
    write_memory(&nodes)?;
    Ok(())
}

fn write_memory(nodes: &[(&str, Memory)]) -> io::Result<()> {
    let (live, sprayed) = (memory::LIVE_KEYS / 1_000_000, memory::SPRAYED_KEYS / 1_000_000);
    let mut out = io::stdout();
    writeln!(
        out,
        "| node | at start, MiB | each of {live} M live keys, bytes | after {sprayed} M sprayed \
         keys, MiB | idle Redis connection, KiB | idle HTTP connection, KiB |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for (name, memory) in nodes {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (start, sprayed) = (mebibytes(memory.at_start), mebibytes(memory.sprayed));
        let key = memory.of_a_key;
        let (resp, http) = (memory.of_a_resp_connection, memory.of_an_http_connection);
        let (resp, http) = (resp / 1024.0, http / 1024.0);
        writeln!(out, "| {name} | {start:.1} | {key:.1} | {sprayed:.1} | {resp:.1} | {http:.1} |")?;
    }
    Ok(())
}

/// To standard error, so that standard output holds only figures.
fn describe_run(options: &Options) -> io::Result<()> {
    let mut out = io::stderr();
    let load = machine::load().map_or_else(|| "unknown".to_owned(), |load| format!("{load:.1}"));
    writeln!(out, "{}, load average {load}", machine::describe())?;
    writeln!(
        out,
        "seed {}, {CONNECTIONS} connections, median of {} rounds in turn, {} s each",
        options.seed, options.rounds, options.seconds
    )
}

fn check_node(options: &Options) -> Result<(), String> {
    if options.node.is_file() {
        return Ok(());
    }
    let node = options.node.display();
    Err(format!("{node} is not there; `cargo build --release` builds a node"))
}

/// In the order of the table.
fn servers(options: &Options) -> Result<Vec<Server>, Box<dyn Error>> {
    check_node(options)?;
    let mut servers = vec![Server::ceiling()?, Server::node(&options.node)?];
    if options.cluster {
        servers.push(Server::clustered_node(&options.node)?);
    }
    if let Some(cell) = &options.redis_cell {
        servers.push(Server::redis_cell(&options.redis_server, cell)?);
    }
    if let Some(binary) = &options.throttlecrab {
        servers.push(Server::throttlecrab(binary)?);
    }
    Ok(servers)
}
