//! Running a node: bind, join, announce the addresses, serve, drain, leave.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate_engine::KeyHasher;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::banner::{self, Bound};
use crate::cli::ServeArgs;
use crate::config::{self, LimitConfig};
use crate::gossip::{Config, Entry, Gossip};
use crate::http::HttpFrontEnd;
use crate::limiters::Limiters;
use crate::log;
use crate::metrics::FrontEndName;
use crate::net::{self, Connections};
use crate::resp::RespFrontEnd;
use crate::service::Service;
use crate::trust;

/// How long stopping may take: work in progress is finished, then the node leaves the cluster.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of that is reserved for leaving the cluster, so that the last admissions are sent.
const LEAVE_SHARE: Duration = Duration::from_secs(1);

/// Runs a node until a signal stops it.
///
/// # Errors
/// One line that names the flag, or the file with line and key, when the node cannot start.
pub fn run(args: &ServeArgs) -> Result<(), String> {
    let limits = match &args.config {
        Some(path) => config::read(path).map_err(|error| format!("--config {error}"))?,
        None => vec![LimitConfig::built_in()],
    };
    let _log = log::start(args.log);
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("threads cannot be started: {error}"))?;
    let served = runtime.block_on(serve(args, &limits));
    // A name that is still being looked up blocks a thread, which nobody waits for.
    runtime.shutdown_background();
    served
}

async fn serve(args: &ServeArgs, limits: &[LimitConfig]) -> Result<(), String> {
    let mut stop =
        StopSignals::new().map_err(|error| format!("signals cannot be handled: {error}"))?;
    let bind = async |flag, address| {
        let bound = net::bind(address).await;
        bound.map_err(|error| format!("{flag} {address}: {error}"))
    };
    let (resp_listener, resp) = bind("--resp", args.resp).await?;
    let (http_listener, http) = bind("--http", args.http).await?;
    let (limiters, gossip) = start(args, limits).await?;
    let hangups = signal(SignalKind::hangup());
    let hangups = hangups.map_err(|error| format!("signals cannot be handled: {error}"))?;
    tokio::spawn(rotate_on(hangups, args.clone(), gossip.clone()));
    let bound = Bound { resp, http, cluster: gossip.address() };
    // Clients may connect already, but are not served: before the node has the state of the cluster
    // it would admit again what other nodes have admitted.
    tokio::select! {
        entry = gossip.joined() => {
            if entry == Some(Entry::Alone) {
                warn_alone(args);
            }
        }
        () = stop.wait() => {
            gossip.leave(STOP_TIMEOUT).await;
            return Ok(());
        }
    }
    let service = Arc::new(Service::new(limiters, gossip));

    let draining = Arc::new(AtomicBool::new(false));
    let (stop_accepting, connections) = (CancellationToken::new(), Connections::new());
    let metrics = service.metrics();
    let resp_clients = tokio::spawn(net::accept(
        resp_listener,
        RespFrontEnd::new(Arc::clone(&service), resp),
        metrics.connections(FrontEndName::Resp).clone(),
        connections.clone(),
        stop_accepting.clone(),
    ));
    let http_clients = tokio::spawn(net::accept(
        http_listener,
        HttpFrontEnd::new(Arc::clone(&service), Arc::clone(&draining)),
        metrics.connections(FrontEndName::Http).clone(),
        connections.clone(),
        stop_accepting.clone(),
    ));
    announce(&bound, limits);

    stop.wait().await;
    // Relaxed: the flag guards nothing else.
    draining.store(true, Ordering::Relaxed);
    // The listeners are closed before the first connection is.
    stop_accepting.cancel();
    let _ = tokio::join!(resp_clients, http_clients);
    let deadline = Instant::now() + STOP_TIMEOUT;
    let leave_share = if bound.cluster.is_some() { LEAVE_SHARE } else { Duration::ZERO };
    // Connections that are still open then end with the process.
    connections.drain(STOP_TIMEOUT.saturating_sub(leave_share)).await;
    service.gossip().leave(deadline.saturating_duration_since(Instant::now())).await;
    Ok(())
}

/// Reads secrets or certificates again with each SIGHUP, and goes on with those in force where that
/// fails; looks up seeds again.
async fn rotate_on(mut hangups: Signal, args: ServeArgs, gossip: Gossip) {
    while hangups.recv().await.is_some() {
        gossip.look_up_seeds();
        let rotated = match trust::read(&args) {
            Ok(Some(trust)) => gossip.rotate(trust).await,
            // A node without a cluster.
            Ok(None) => continue,
            Err(line) => Err(line),
        };
        match rotated {
            Ok(()) => tracing::info!("SIGHUP: new links use what was read"),
            Err(line) => tracing::error!("SIGHUP: nothing changes: {line}"),
        }
    }
}

/// Warns that the node found no cluster and founded one.
fn warn_alone(args: &ServeArgs) {
    let flags: Vec<String> = args.join.iter().map(|seed| format!("--join {seed}")).collect();
    // A closed standard error does not stop the node.
    let _ = writeln!(
        std::io::stderr(),
        "tidegate: {}: no node of a cluster answered for {:#}; founded one, still looking",
        flags.join(" "),
        args.found_after,
    );
}

/// The cluster across which limits are enforced, if there is one, and the limiters.
async fn start(args: &ServeArgs, limits: &[LimitConfig]) -> Result<(Limiters, Gossip), String> {
    let gossip = match (args.cluster, trust::read(args)?) {
        (Some(address), Some(trust)) => {
            let mut config = Config::new(address, trust);
            config.advertise = args.advertise;
            config.seeds.clone_from(&args.join);
            config.name_servers.clone_from(&args.name_server);
            config.found_after = args.found_after.unsigned_abs();
            config.flush_interval = args.flush_interval.unsigned_abs();
            config.tell_within = args.tell_within.unsigned_abs();
            config.name = args.cluster_name.clone();
            Gossip::start(config).await?
        }
        // The command line gives either both or none.
        _ => Gossip::alone(),
    };
    let hasher = gossip.key_hasher().map_or_else(random_hasher, Ok)?;
    Ok((Limiters::build(limits, &gossip, &hasher)?, gossip))
}

/// `SipHash` under a secret of this process: clients choose keys and can observe decisions. In a
/// cluster its nodes' common one takes its place.
fn random_hasher() -> Result<KeyHasher, String> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|error| format!("no randomness available: {error}"))?;
    Ok(KeyHasher::siphash(secret))
}

/// Prints where the node listens, and flushes: scripts wait for that line.
fn announce(bound: &Bound, limits: &[LimitConfig]) {
    let limit = limits.first().map_or("default", |limit| limit.name.as_str());
    let mut out = std::io::stdout().lock();
    // A closed standard output does not stop the node.
    let _ = out.write_all(banner::text(bound, limit).as_bytes()).and_then(|()| out.flush());
}

/// Connections need a file descriptor each, and the usual soft limit allows for about a thousand.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If that fails, connections beyond the limit wait to be accepted.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The signals that stop a node.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
