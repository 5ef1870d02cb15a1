//! The command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;
use tidegate_cluster::protocol::MIN_BYTE_CAP;
use tidegate_cluster::{ClusterName, Seed};
use tracing::level_filters::LevelFilter;

use crate::config::bounds::BoundArgs;
use crate::config::byte_size::ByteSize;
use crate::config::origin::{Host, Origin};
use crate::config::quota::WrittenQuota;

const EXAMPLES: &str = "\
Examples:
  A node for this machine; without --config it has one limit, `default`: 100/s, 200 at once
    tidegate
  The limits of a file, for clients on other machines
    tidegate --config limits.toml --resp 0.0.0.0:7379 --http 0.0.0.0:7380
  One node of a cluster; each one is given the same list
    tidegate --cluster 10.0.0.1:7400 --cluster-secret-file secret --join 10.0.0.1:7400,10.0.0.2:7400
  What a limit would have denied
    tidegate replay access.log --rate 10/m --burst 5";

/// A rate limiter for Redis clients and HTTP, alone or as a cluster.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    #[command(flatten)]
    pub serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run a node (the default).
    Serve(Box<ServeArgs>),
    /// Show what a limit by client address would have done to an access log.
    ///
    /// Requests are decided in the order of their time. What is printed: lines read; lines parsed
    /// as requests, and skipped; parsed lines reordered, which are those whose time is earlier than
    /// that of a parsed line before them; different clients (keys), which are IPv4 addresses and
    /// IPv6 networks of 64 bits; requests allowed and denied; and the ten most denied clients. A
    /// log without a single request is a mistake; one of which more than a fifth is left out is
    /// warned of.
    Replay(ReplayArgs),
}

#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Limits to enforce: TOML tables `[[limit]]` with name, rate and, optionally, burst and
    /// overflow.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to serve the Redis protocol; port 0 picks a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7379", value_parser = address)]
    pub resp: SocketAddr,
    /// A file with the password that Redis clients must give (AUTH), in one line of at most 512
    /// bytes. On SIGHUP it is read again: clients that have given the one before stay.
    #[arg(long, value_name = "FILE")]
    pub resp_password_file: Option<PathBuf>,
    /// Where to serve HTTP; port 0 picks a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7380", value_parser = address)]
    pub http: SocketAddr,
    /// An origin whose pages may ask over HTTP, such as `https://example.org`; may be given
    /// several times. Requests of other pages are refused.
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<Origin>,
    /// A host by which clients reach this node over HTTP, such as limits.example.org, without a
    /// port; may be given several times. Once given, requests for other hosts are refused.
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<Host>,
    /// Where to serve other nodes, which is also the address they dial unless one is advertised.
    #[arg(long, value_name = "ADDR", value_parser = address, requires = "trust")]
    pub cluster: Option<SocketAddr>,
    /// The address that other nodes dial, where it is not the one that is bound: behind an address
    /// translation, in containers. Of a name, the first address of the family that is bound.
    #[arg(long, value_name = "ADDR", value_parser = addresses, requires = "cluster")]
    pub advertise: Option<Addresses>,
    /// Nodes of the cluster, with commas between; may be given several times. Give every node the
    /// same list, itself included: it joins the others, and without any it founds a cluster.
    ///
    /// `ADDRESS:PORT`; `NAME:PORT` for all addresses of a name; `dnssrv+NAME` for the SRV records
    /// of a name, such as `dnssrv+_tidegate._udp.example.org`; `file:PATH` for a file with one of
    /// these a line. Names and files are looked up again: every 30 s once the node has joined, and
    /// on SIGHUP.
    #[arg(long, value_name = "SEED", value_delimiter = ',', requires = "cluster")]
    pub join: Vec<Seed>,
    /// A DNS server to ask about the names given to --join, instead of the system's; may be given
    /// several times.
    #[arg(long, value_name = "ADDR", value_parser = address, requires = "join")]
    pub name_server: Vec<SocketAddr>,
    /// How long to wait for a node of the cluster before founding one, such as 5s or 500ms.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    #[arg(requires = "cluster")]
    pub found_after: SignedDuration,
    /// How long admissions are collected before they are sent to other nodes: 1ms to 1s. Shorter
    /// means more packets, longer that other nodes know later.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = interval)]
    #[arg(requires = "cluster")]
    pub flush_interval: SignedDuration,
    /// How long the use of a key that is far from its limit may wait to be sent, at most a minute,
    /// and no longer than half of the limit's burst tolerance. Shorter means more packets.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = max_send_delay)]
    #[arg(requires = "cluster")]
    pub max_send_delay: SignedDuration,
    /// Bytes a second that this node sends to all others together, at most, of use and of its
    /// state: at least 64KiB. What exceeds it waits and is sent later, keys near their limit first.
    /// Without it there is no cap.
    #[arg(long, value_name = "BYTES", requires = "cluster", value_parser = byte_cap)]
    pub cluster_byte_cap: Option<u64>,
    /// The name of the cluster: 1 to 63 lower-case letters, digits and hyphens. Nodes that give
    /// another stay apart.
    #[arg(long, value_name = "NAME", requires = "cluster", default_value_t)]
    pub cluster_name: ClusterName,
    /// The secret that all nodes of the cluster share, at least 16 bytes. May be given several
    /// times: the first is used, and nodes that use one of the others are accepted as well. On
    /// SIGHUP the files are read again; empty ones count only as the first.
    #[arg(long, value_name = "FILE", requires = "cluster", group = "trust")]
    pub cluster_secret_file: Vec<PathBuf>,
    /// This node's certificate in PEM, with those between it and the authority: an alternative to
    /// the secret. It names `tidegate://NAME/IP:PORT`. On SIGHUP the files are read again.
    #[arg(long, value_name = "FILE", requires_all = ["cluster", "cluster_ca", "cluster_key"])]
    #[arg(group = "trust", conflicts_with = "cluster_secret_file")]
    pub cluster_cert: Option<PathBuf>,
    /// The certificates of the authorities whose nodes are accepted, in PEM.
    #[arg(long, value_name = "FILE", requires = "cluster_cert")]
    pub cluster_ca: Option<PathBuf>,
    /// The private key of this node's certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "cluster_cert")]
    pub cluster_key: Option<PathBuf>,
    /// How long stopping may take: requests under way are finished, then the node leaves the
    /// cluster. At most an hour; another signal ends the wait.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = stop_time)]
    pub drain_timeout: SignedDuration,
    /// How long clients are still served and accepted after the first signal to stop, while /readyz
    /// says draining: as long as load balancers take to send no more. At most an hour; another
    /// signal ends the wait.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = stop_time)]
    pub lame_duck: SignedDuration,
    /// What to log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = level)]
    pub log: LevelFilter,
    /// The form of the log: text for people, or json with one object a line, as is then all else
    /// that the node writes.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub bounds: BoundArgs,
}

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// An access log in the common or combined format, also compressed by gzip; - reads standard
    /// input.
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// How many requests each client may make: COUNT/PERIOD, such as 100/s, 5/15m or 1000/d;
    /// "1000/d burst 50" gives the burst as well.
    #[arg(long)]
    pub rate: WrittenQuota,
    /// How many requests at once; as many as COUNT unless given.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub burst: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What to do instead of running: a text to show, or a report of a mistake.
#[derive(Debug, PartialEq, Eq)]
pub enum Exit {
    Show(String),
    Mistake(String),
}

/// Reads the command line; `args` begins with the program's name.
///
/// # Errors
/// When there is nothing to run.
pub fn parse<I, T>(args: I) -> Result<Cli, Exit>
where
    I: IntoIterator<Item = T>,
    T: Into<std::ffi::OsString> + Clone,
{
    Cli::try_parse_from(args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Exit::Show(error.render().to_string())
        }
        _ => {
            let report = advised(error).render().to_string();
            Exit::Mistake(report.strip_prefix("error: ").unwrap_or(&report).to_owned())
        }
    })
}

/// The report of a word where a subcommand would be, with what was probably meant.
fn advised(error: clap::Error) -> clap::Error {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return error,
    };
    if Cli::command().find_subcommand(&word).is_some() {
        // Clap names those that stand before it.
        return with_tip(error, "options of a subcommand stand behind it".to_owned());
    }
    // With options before it clap does not look for a similar one.
    let alone = Cli::try_parse_from(["tidegate", &word]).err();
    let alone = alone.filter(|alone| alone.kind() == ErrorKind::InvalidSubcommand);
    let error = alone.unwrap_or(error);
    let is_similar = error.get(ContextKind::SuggestedSubcommand).is_some();
    let is_file = |word: &Path| word.extension().is_some() || word.exists();
    if !is_similar && is_file(Path::new(&word)) {
        return with_tip(error, format!("to load the limits of a file, use '--config {word}'"));
    }
    error
}

fn with_tip(mut error: clap::Error, tip: String) -> clap::Error {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// How much is logged on standard error.
fn level(text: &str) -> Result<LevelFilter, String> {
    let level = Some(text).filter(|text| text.chars().all(char::is_alphabetic));
    let level = level.and_then(|text| text.parse().ok());
    level.ok_or_else(|| "expected off, error, warn, info, debug or trace".to_owned())
}

/// A time that is not negative, such as 5s.
fn duration(text: &str) -> Result<SignedDuration, String> {
    let duration: Result<SignedDuration, _> = text.parse();
    let duration = duration.ok().filter(|duration| !duration.is_negative());
    duration.ok_or_else(|| "expected a time, such as 5s or 500ms".to_owned())
}

/// The shortest time for which admissions are collected, and the longest.
const FLUSH_INTERVALS: (SignedDuration, SignedDuration) =
    (SignedDuration::from_millis(1), SignedDuration::from_secs(1));
/// The longest time for which the use of a key may wait to be sent.
const MAX_SEND_DELAY: SignedDuration = SignedDuration::from_secs(60);

/// How long admissions are collected.
fn interval(text: &str) -> Result<SignedDuration, String> {
    let (least, most) = FLUSH_INTERVALS;
    let interval = duration(text).ok().filter(|interval| (least..=most).contains(interval));
    interval.ok_or_else(|| "expected a time from 1ms to 1s".to_owned())
}

/// How long the use of a key may wait to be sent.
fn max_send_delay(text: &str) -> Result<SignedDuration, String> {
    let delay = duration(text).ok().filter(|delay| *delay <= MAX_SEND_DELAY);
    delay.ok_or_else(|| "expected a time of at most 1m, such as 1s or 500ms".to_owned())
}

/// A cap of bytes a second.
fn byte_cap(text: &str) -> Result<u64, String> {
    let cap = text.parse().ok().map(|ByteSize(cap)| cap as u64);
    let cap = cap.filter(|cap| *cap >= MIN_BYTE_CAP);
    cap.ok_or_else(|| "expected at least 64KiB a second, such as 1MiB".to_owned())
}

/// The longest time that a drain may take, and the longest for which clients are served before it.
const MAX_STOP: SignedDuration = SignedDuration::from_hours(1);

/// How long a drain may take, or the time before it.
fn stop_time(text: &str) -> Result<SignedDuration, String> {
    let time = duration(text).ok().filter(|time| *time <= MAX_STOP);
    time.ok_or_else(|| "expected a time of at most 1h, such as 30s".to_owned())
}

/// What an address and port stand for: of a name, all addresses that it has at that port, in the
/// order of the system's resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub first: SocketAddr,
    pub others: Vec<SocketAddr>,
}

impl Addresses {
    /// The first one that fits; the first of all where none does.
    pub fn choose(&self, fits: impl Fn(SocketAddr) -> bool) -> SocketAddr {
        let mut all = std::iter::once(self.first).chain(self.others.iter().copied());
        all.find(|address| fits(*address)).unwrap_or(self.first)
    }
}

/// An address and port; a name stands for the first address it has.
fn address(text: &str) -> Result<SocketAddr, String> {
    addresses(text).map(|addresses| addresses.first)
}

fn addresses(text: &str) -> Result<Addresses, String> {
    if let Ok(first) = text.parse() {
        return Ok(Addresses { first, others: Vec::new() });
    }
    let expected = "expected ADDRESS:PORT, such as 127.0.0.1:7379";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let port: u16 = port.parse().map_err(|_| expected)?;
    // Names contain no colons, and a bare IPv6 address is in brackets.
    if host.is_empty() || host.contains([':', '[', ']']) {
        return Err(expected.to_owned());
    }
    let mut found = (host, port).to_socket_addrs().into_iter().flatten();
    let first = found.next();
    let first = first.ok_or_else(|| format!("the name {host} does not resolve to an address"))?;
    Ok(Addresses { first, others: found.collect() })
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
