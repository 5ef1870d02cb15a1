//! Running a node: read files, bind, join, announce the addresses, serve, drain, leave.

mod advice;
mod banner;
mod files;
mod reload;
mod signals;
mod threads;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_cluster::Trust;
use tidegate_engine::KeyHasher;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::banner::{Bound, Output, Required};
use self::files::{Files, Reader};
pub use self::signals::StopReason;
use self::signals::StopSignals;
use self::threads::{FrontEndThreads, Threads};
use crate::config::bounds::{BoundArgs, HttpBounds, UNDER_WAY};
use crate::config::cli::{LogFormat, ServeArgs};
use crate::config::file::LimitConfig;
use crate::config::password::{InForce, Password};
use crate::front::addresses::Addresses;
use crate::front::http::{Gate, HttpFrontEnd};
use crate::front::net::{self, Connections, FrontEnd, Limits};
use crate::front::permits::{PermitCounts, enough_files, file_limit, raise_file_limit};
use crate::front::resp::{RespBounds, RespFrontEnd};
use crate::limits::gossip::{Config, Gossip, JoinKind};
use crate::limits::limiters::Limiters;
use crate::service::Service;
use crate::service::readiness::Readiness;
use crate::telemetry::log;
use crate::telemetry::meter::FrontEndName;

/// How much of the time for stopping is reserved for leaving the cluster, at most and at most half
/// of it, so that the last admissions are sent.
const LEAVE_SHARE: Duration = Duration::from_secs(1);
/// How much of a drain an idle connection may take, at most, as a divisor.
const UNDER_WAY_SHARE: u32 = 8;

/// Runs a node until a signal stops it, or its gossip ends.
///
/// # Errors
/// One line that names the flag, or the file with line and key, when the node cannot start.
pub fn run(args: &ServeArgs) -> Result<StopReason, String> {
    signals::catch_hangups()?;
    args.bounds.check()?;
    let _log = log::start(args.log, args.log_format);
    let threads = Threads::start()?;
    let output = Output::start().map_err(threads::none)?;
    let served = threads.main.block_on(serve(args, threads.of_front_ends(), output));
    threads.end();
    served
}

async fn serve(
    args: &ServeArgs,
    threads: FrontEndThreads,
    output: Output,
) -> Result<StopReason, String> {
    let mut stop = StopSignals::new().map_err(signals::unhandled)?;
    // Each of what is read again has its own, so that no file is waited for with another.
    let hangups = signals::hangups().map_err(signals::unhandled)?;
    let password_hangups = signals::hangups().map_err(signals::unhandled)?;
    let config_hangups = signals::hangups().map_err(signals::unhandled)?;
    let started = tokio::select! {
        started = start(args) => started?,
        // Nothing is served yet. A file may be a pipe into which no process writes.
        signal = stop.next() => {
            tracing::info!("{signal}: stopped before anything was served");
            return Ok(StopReason::Signal(signal));
        }
    };
    let Started { limits, password, permits, resp, http, limiters, gossip } = started;
    let ((resp_listener, resp), (http_listener, http)) = (resp, http);
    tokio::spawn(reload::rotate_on(hangups, Reader::new(args), gossip.clone()));
    let password = password.map(InForce::new);
    if let Some(password) = &password {
        tokio::spawn(reload::renew_on(password_hangups, Reader::new(args), password.clone()));
    }
    if args.config.is_some() {
        tokio::spawn(reload::compare_on(config_hangups, Reader::new(args), limits.clone()));
    }
    let bound = Bound { resp, http, cluster: gossip.address() };
    let mut serving = Serving::new(Service::new(limiters, gossip), &args.bounds, permits, threads);
    let service = Arc::clone(&serving.service);
    let readiness = Arc::clone(&serving.readiness);
    let front_end =
        HttpFrontEnd::new(Arc::clone(&service), readiness, gate(args), http_bounds(args));
    log_start(&limits);
    advice::log_exposed(&bound, password.is_some());
    serving.accept(FrontEndName::Http, http_listener, front_end)?;
    if service.gossip().view().is_some_and(|view| !view.joined) {
        tracing::info!(%http, "joining: probes are answered, checks wait");
    }
    // No check is decided yet, and Redis clients wait to be accepted: before the node has the state
    // of the cluster it would admit again what other nodes have admitted.
    tokio::select! {
        entry = service.gossip().joined() => {
            if entry == Some(JoinKind::FoundedAlone) {
                warn_alone(args);
            }
        }
        reason = StopReason::first(stop.next(), service.gossip()) => {
            return Ok(serving.drain(reason, args.drain_timeout.unsigned_abs(), &mut stop).await);
        }
    }
    serving.readiness.join();
    let bounds = resp_bounds(args, serving.permits.0);
    let front_end = RespFrontEnd::new(Arc::clone(&service), resp, password, bounds);
    serving.accept(FrontEndName::Resp, resp_listener, front_end)?;
    output.print(announcement(&bound, &limits, args));
    let reason = StopReason::first(stop.next(), service.gossip()).await;
    serving.readiness.stop();
    if !args.lame_duck.is_zero() {
        tracing::info!("{reason}: not ready any more; drain begins in {:#}", args.lame_duck);
        hasten(&mut stop, tokio::time::sleep(args.lame_duck.unsigned_abs())).await;
    }
    Ok(serving.drain(reason, args.drain_timeout.unsigned_abs(), &mut stop).await)
}

fn resp_bounds(args: &ServeArgs, permits: PermitCounts) -> RespBounds {
    RespBounds {
        max_clients: permits.connections,
        idle_timeout: args.bounds.idle_timeout(),
        max_unread_bytes: args.bounds.max_unread_bytes.0,
        command_timeout: args.bounds.command_timeout.unsigned_abs(),
        transaction: args.bounds.transaction(),
        under_way: under_way(args),
    }
}

fn http_bounds(args: &ServeArgs) -> HttpBounds {
    HttpBounds { under_way: under_way(args), ..args.bounds.http() }
}

/// A short drain leaves less time for what is under way to clients, and from them.
fn under_way(args: &ServeArgs) -> Duration {
    UNDER_WAY.min(args.drain_timeout.unsigned_abs() / UNDER_WAY_SHARE)
}

/// The node once it has been started.
struct Serving {
    service: Arc<Service>,
    readiness: Arc<Readiness>,
    connections: Connections,
    /// Those of Redis clients and of HTTP clients.
    permits: (PermitCounts, PermitCounts),
    bounds: BoundArgs,
    threads: FrontEndThreads,
    /// The listeners, until `stop_accepting` is cancelled.
    listeners: JoinSet<()>,
    stop_accepting: CancellationToken,
}

impl Serving {
    fn new(
        service: Service,
        bounds: &BoundArgs,
        permits: (PermitCounts, PermitCounts),
        threads: FrontEndThreads,
    ) -> Self {
        let write_timeout = bounds.write_timeout.unsigned_abs();
        Self {
            service: Arc::new(service),
            readiness: Arc::new(Readiness::new()),
            connections: Connections::new(bounds.max_unsent_bytes.0, write_timeout),
            permits,
            bounds: bounds.clone(),
            threads,
            listeners: JoinSet::new(),
            stop_accepting: CancellationToken::new(),
        }
    }

    /// Accepts and serves clients.
    ///
    /// # Errors
    /// One line, when the listener cannot be moved to the front-end's threads.
    fn accept(
        &mut self,
        name: FrontEndName,
        listener: TcpListener,
        front_end: impl FrontEnd,
    ) -> Result<(), String> {
        let threads = self.threads.of(name);
        let listener = threads::move_listener(listener, threads);
        let listener = listener.map_err(|error| format!("--{}: {error}", name.label()))?;
        let permits = match name {
            FrontEndName::Resp => self.permits.0,
            FrontEndName::Http => self.permits.1,
        };
        let asked = self.bounds.max_connections;
        advice::log_connections(name.label(), permits.connections, asked, file_limit());
        let metrics = self.service.metrics().connections(name).clone();
        let addresses = self.bounds.max_connections_per_address.map(Addresses::new);
        let limits = Limits { metrics, permits, addresses };
        let (connections, stop) = (self.connections.clone(), self.stop_accepting.clone());
        let accepting = net::accept(listener, front_end, limits, connections, stop);
        self.listeners.spawn_on(accepting, threads);
        Ok(())
    }

    /// Closes the listeners, finishes work in progress, then leaves the cluster; the reason.
    async fn drain(
        mut self,
        reason: StopReason,
        within: Duration,
        stop: &mut StopSignals,
    ) -> StopReason {
        self.readiness.stop();
        let begun = Instant::now();
        self.stop_accepting.cancel();
        let (connections, gossip) = (&self.connections, self.service.gossip());
        let is_member = gossip.address().is_some();
        let leave_share = if is_member { LEAVE_SHARE.min(within / 2) } else { Duration::ZERO };
        let ending = async {
            // The listeners are closed before the first connection is.
            let closed = async { while self.listeners.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(within / 4, closed).await;
            tracing::info!(connections = connections.open(), "{reason}: drain begun");
            let left = within.saturating_sub(leave_share + begun.elapsed());
            // Connections that are still open then end with the process.
            connections.drain(left).await;
        };
        let is_hasty = hasten(stop, ending).await;
        if is_hasty {
            // Also where the listeners were still waited for.
            connections.drain(Duration::ZERO).await;
        }
        let left = if is_hasty { leave_share } else { within.saturating_sub(begun.elapsed()) };
        leave(stop, gossip.leave(left), (!is_hasty).then_some(leave_share)).await;
        match connections.open() {
            0 => tracing::info!("stopped; every connection had ended"),
            cut => tracing::warn!(connections = cut, "stopped; these connections are cut"),
        }
        reason
    }
}

/// Leaves the cluster, until a signal comes: after the first one for as long as `then`, where that
/// is given, as what was admitted last may be on its way.
async fn leave(stop: &mut StopSignals, leaving: impl Future<Output = ()>, then: Option<Duration>) {
    let mut leaving = pin!(leaving);
    if hasten(stop, leaving.as_mut()).await
        && let Some(then) = then
    {
        hasten(stop, async {
            if tokio::time::timeout(then, leaving).await.is_err() {
                tracing::warn!("ended while other nodes had not acknowledged all of its use");
            }
        })
        .await;
    }
}

/// Waits for a part of stopping, unless another signal comes: whether one did.
async fn hasten(stop: &mut StopSignals, part: impl Future<Output = ()>) -> bool {
    tokio::select! {
        () = part => false,
        signal = stop.next() => {
            tracing::warn!("{signal} again: no longer waiting");
            true
        }
    }
}

/// Whose requests HTTP answers.
fn gate(args: &ServeArgs) -> Gate {
    Gate { origins: args.allow_origin.clone(), hosts: args.allow_host.clone() }
}

/// Warns that the node found no cluster and founded one.
fn warn_alone(args: &ServeArgs) {
    let flags: Vec<String> = args.join.iter().map(|seed| format!("--join {seed}")).collect();
    let (flags, found_after) = (flags.join(" "), args.found_after);
    tracing::warn!(
        "{flags}: no node of a cluster answered for {found_after:#}; founded one, still looking"
    );
}

/// What a node serves from.
struct Started {
    limits: Vec<LimitConfig>,
    password: Option<Password>,
    /// Those of Redis clients and of HTTP clients.
    permits: (PermitCounts, PermitCounts),
    /// The listeners, with the addresses that are bound.
    resp: (TcpListener, SocketAddr),
    http: (TcpListener, SocketAddr),
    limiters: Limiters,
    /// The cluster across which limits are enforced, if there is one.
    gossip: Gossip,
}

async fn start(args: &ServeArgs) -> Result<Started, String> {
    // Mistakes in files come first: they are there whatever else runs on this machine.
    let Files { limits, password, trust } = Reader::new(args).read(Files::read).await?;
    let files = enough_files(raise_file_limit())?;
    let permits = PermitCounts::of(files, args.bounds.max_connections());
    let bind = |flag, address| {
        let bound = net::bind(address);
        bound.map_err(|error| format!("{flag} {address}: {error}"))
    };
    let (resp, http) = (bind("--resp", args.resp)?, bind("--http", args.http)?);
    let gossip = match (args.cluster, trust) {
        (Some(address), Some(trust)) => Gossip::start(cluster_config(args, address, trust)).await?,
        // The command line gives either both or none.
        _ => Gossip::alone(),
    };
    let hasher = gossip.key_hasher().map_or_else(random_hasher, Ok)?;
    let limiters = Limiters::build(&limits, &gossip, &hasher)?;
    Ok(Started { limits, password, permits, resp, http, limiters, gossip })
}

/// How a node that binds `address` takes part in its cluster.
fn cluster_config(args: &ServeArgs, address: SocketAddr, trust: Trust) -> Config {
    let mut config = Config::new(address, trust);
    let advertise = args.advertise.as_ref();
    config.advertise = advertise.map(|named| named.choose(|one| config.can_advertise(one)));
    config.seeds.clone_from(&args.join);
    config.name_servers.clone_from(&args.name_server);
    config.found_after = args.found_after.unsigned_abs();
    config.flush_interval = args.flush_interval.unsigned_abs();
    config.max_send_delay = args.max_send_delay.unsigned_abs();
    config.byte_cap = args.cluster_byte_cap;
    config.name = args.cluster_name.clone();
    config
}

/// `SipHash` under a secret of this process: clients choose keys and can observe decisions. In a
/// cluster its nodes' common one takes its place.
fn random_hasher() -> Result<KeyHasher, String> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|error| format!("no randomness available: {error}"))?;
    Ok(KeyHasher::siphash(secret))
}

/// Logs what is served.
fn log_start(limits: &[LimitConfig]) {
    for LimitConfig { name, quota, overflow } in limits {
        tracing::info!(%name, %quota, %overflow, "limit");
    }
}

/// Says where the node listens.
fn announcement(bound: &Bound, limits: &[LimitConfig], args: &ServeArgs) -> String {
    if args.log_format == LogFormat::Json {
        return banner::event(bound);
    }
    let built_in = LimitConfig::built_in();
    let password_file = args.resp_password_file.as_deref();
    let asked = Required { password_file, hosts: &args.allow_host };
    banner::text(bound, limits.first().unwrap_or(&built_in), asked)
}

#[cfg(test)]
mod tests;
