//! Starts a node: checks what it is given, binds, and spawns its tasks.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use quinn::{Endpoint, EndpointConfig, TokioRuntime};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::accepting::Accepting;
use super::keys::Keys;
use super::limiters::Limiters;
use super::link::Reports;
use super::shared::Shared;
use super::tls::Configs;
use super::{
    Command, Driver, Inbox, MAX_COMMANDS, MAX_DATAGRAMS, MAX_EVENTS, Waiting, seeds, thread,
};
use crate::config::{Config, StartError};
use crate::protocol::{Core, NodeId, Options, nanos};
use crate::seed::canonical;

/// What a handle holds of a node.
pub(crate) type Handle = (Arc<Shared>, mpsc::Sender<Command>);

/// Binds, and starts the node on threads of its own.
pub(crate) async fn start(config: Config) -> Result<Handle, StartError> {
    thread::start(|| begin(config)).await
}

/// Binds, and spawns the node's tasks but for its driver, which is returned.
pub(super) fn begin(config: Config) -> Result<(Handle, impl Future<Output = Waiting>), StartError> {
    let bind = canonical(config.bind);
    let bound = |source| StartError::Bind { addr: config.bind, source };
    let dialled = config.dialled()?;
    let byte_cap = config.checked_byte_cap()?;
    let flush_interval = config.checked_flush_interval()?;
    let (seed, hash_key) = (random()?, random()?);
    let socket = std::net::UdpSocket::bind(bind).map_err(bound)?;
    let mut addr = dialled;
    if addr.port() == 0 {
        addr.set_port(socket.local_addr().map_err(bound)?.port());
    }
    let seeker = seeds::Seeker::new(&config, addr);
    let cluster = config.name;
    let configs = Configs::of(&cluster, addr, &config.trust)?;
    let (server, runtime) = (Some(configs.server.clone()), Arc::new(TokioRuntime));
    let mut endpoint =
        Endpoint::new(EndpointConfig::default(), server, socket, runtime).map_err(bound)?;
    endpoint.set_default_client_config(configs.client.clone());

    let shared = Arc::new(Shared::new(addr, Keys::new(hash_key), Instant::now()));
    shared.set_seeds(seeker.listed());
    shared.expiry.set(configs.validity);
    tokio::spawn(shared.expiry.watch());
    let options = Options {
        seed: u64::from_le_bytes(seed),
        hash_key,
        newest_version: config.newest_version,
        join: seeker.listed().to_vec(),
        looked_up: seeker.has_sources(),
        found_after: nanos(config.found_after),
        flush_interval: nanos(flush_interval),
        max_send_delay: nanos(config.max_send_delay),
        byte_cap,
        ..Options::default()
    };
    let host = Limiters::new(Arc::clone(&shared));
    let core = Core::new(NodeId::new(addr, generation()), options, host, 0);
    let (events, received) = mpsc::channel(MAX_EVENTS);
    let (datagrams, received_datagrams) = mpsc::channel(MAX_DATAGRAMS);
    let (commands, commanded) = mpsc::channel(MAX_COMMANDS);
    let accepting =
        Accepting { cluster: cluster.clone(), shared: Arc::clone(&shared), events: events.clone() };
    let (accepts, accepted) = oneshot::channel();
    let running = accepting.run(endpoint.clone());
    tokio::spawn(async move {
        // Dropped however the task ends, also by a panic.
        let _accepts = accepts;
        running.await;
    });
    let reports = Reports { events, datagrams };
    let mut driver = Driver::new(core, Arc::clone(&shared), endpoint, cluster, configs, reports);
    // Handles see the node itself, and whether it is joining, from the start.
    driver.act();
    driver.publish();
    let looked_up = seeker.start(&shared);
    let inbox = Inbox {
        events: received,
        datagrams: received_datagrams,
        commands: commanded,
        looked_up,
        accepting: accepted,
    };
    let running = driver.run(inbox);
    Ok(((shared, commands), running))
}

/// Unpredictable random bytes.
fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| StartError::Certificate("the system's randomness failed".into()))?;
    Ok(bytes)
}

/// The generation of this run of the node: it grows from one run at an address to the next as long
/// as the wall clock does not go back; where it does, a peer's `Welcome` has the rank to exceed.
#[expect(
    clippy::disallowed_methods,
    reason = "distinguishes runs of a node; a rank floor covers a clock that goes back"
)]
fn generation() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, nanos)
}
