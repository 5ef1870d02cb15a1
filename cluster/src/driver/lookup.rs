//! From names to addresses: by the system's resolver, or by DNS servers of the operator's choice.
//!
//! The system's resolver may take longer than an answer is waited for, and each time: as where the
//! first of its servers is down. So a question that is given up keeps its thread and its place, no
//! other one is asked about its name until it is answered, and the answer counts for the next
//! look-up: at once, if that waits for it, or where a new question is not answered in time either.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::thread::{self, Begin};
use crate::address::undialable;

/// Addresses of one name, and targets of one service, at most; the lowest ones.
pub(super) const MAX_ADDRESSES: usize = 64;
/// Threads that wait for the system's resolver, at most.
const MAX_BLOCKED: usize = 8;
/// How long a question is waited for.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);
/// How long one DNS server is waited for, before it is asked again or another one is. Addresses of
/// both families are asked for together: all of it ends before [`TIMEOUT`], so that a server which
/// says nothing of one of them hides nothing of the other.
const SERVER_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is asked again.
const SERVER_ATTEMPTS: usize = 1;
/// Names of which answers are kept until they are asked for, at most.
const MAX_KEPT: usize = 256;

pub(super) type Addresses = Result<BTreeSet<SocketAddr>, String>;
/// What a resolver says of a name.
type Answer = Result<Vec<IpAddr>, String>;
/// A question to the system: its answer, once there is one.
type Question = watch::Receiver<Option<Answer>>;

/// Answers about names.
#[derive(Debug)]
pub(super) struct Resolver {
    /// Which DNS servers are asked; those of the system if there are none.
    servers: Vec<SocketAddr>,
    /// The address that this node dials from.
    from: IpAddr,
    begin: Begin,
    /// One for each thread that may wait.
    places: Arc<Semaphore>,
    /// Questions to the system by name, whose answers have not been taken yet.
    asked: Mutex<BTreeMap<String, Question>>,
}

impl Resolver {
    pub(super) fn new(servers: Vec<SocketAddr>, from: IpAddr) -> Self {
        let places = Arc::new(Semaphore::new(MAX_BLOCKED));
        Self { servers, from, begin: thread::begin, places, asked: Mutex::default() }
    }

    /// All addresses of a name that this node can dial, with the port; never none.
    pub(super) async fn name(&self, name: &str, port: u16) -> Addresses {
        let mut late = None;
        let asked = async {
            if self.servers.is_empty() {
                self.ask_system(name, &mut late).await
            } else {
                self.ask_servers(name).await
            }
        };
        let found = timeout(TIMEOUT, asked).await;
        let found = found.unwrap_or_else(|_| late.unwrap_or_else(|| Err(no_answer())))?;
        let found = found.into_iter().map(|ip| SocketAddr::new(ip, port));
        let found: BTreeSet<_> = found.filter(|addr| self.undialable(*addr).is_none()).collect();
        if found.is_empty() {
            return Err("it has no address that can be dialled from here".to_owned());
        }
        Ok(found.into_iter().take(MAX_ADDRESSES).collect())
    }

    /// All addresses of the targets of a service; never none. A target without an address is left
    /// out unless it is the only one.
    pub(super) async fn service(self: &Arc<Self>, name: &str) -> Addresses {
        let asked = async {
            self.dns()
                .map_err(|error| shown(&error))?
                .srv_lookup(name)
                .await
                .map_err(|error| shown(&error))
        };
        let answer = timeout(TIMEOUT, asked).await.map_err(|_| no_answer())??;
        let targets = answer.answers().iter().filter_map(|record| match &record.data {
            // The root says that there is no such service (RFC 2782).
            RData::SRV(srv) if !srv.target.is_root() => Some((srv.target.to_ascii(), srv.port)),
            _ => None,
        });
        let targets: BTreeSet<_> = targets.filter(|(_, port)| *port != 0).collect();
        let mut asking = JoinSet::new();
        for (target, port) in targets.into_iter().take(MAX_ADDRESSES) {
            let resolver = Arc::clone(self);
            asking.spawn(async move { resolver.name(&target, port).await });
        }
        let (mut found, mut problem) = (BTreeSet::new(), "it has no SRV records".to_owned());
        while let Some(asked) = asking.join_next().await {
            match asked {
                Ok(Ok(addresses)) => found.extend(addresses),
                Ok(Err(error)) => problem = error,
                Err(error) => problem = error.to_string(),
            }
        }
        if found.is_empty() { Err(problem) } else { Ok(found) }
    }

    /// Why this node cannot dial an address; `None` where it can.
    pub(super) fn undialable(&self, addr: SocketAddr) -> Option<&'static str> {
        let without_port = (addr.port() == 0).then_some("has no port");
        undialable(self.from, addr).or(without_port)
    }

    /// What the system says of a name; `late` is what it said to an earlier question.
    async fn ask_system(&self, name: &str, late: &mut Option<Answer>) -> Answer {
        let under_way = self.asked().get(name).cloned();
        if let Some(question) = &under_way {
            late.clone_from(&question.borrow());
        }
        let mut question = match under_way {
            Some(question) if late.is_none() => question,
            _ => self.begin_asking(name).await?,
        };
        let answer = question.wait_for(Option::is_some).await.map(|answer| answer.clone());
        self.asked().remove(name);
        answer.ok().flatten().unwrap_or_else(|| Err(thread::ended()))
    }

    async fn begin_asking(&self, name: &str) -> Result<Question, String> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| no_answer())?;
        // It may have been begun meanwhile.
        let under_way = self.asked().get(name).cloned();
        if let Some(question) = under_way.filter(|question| question.borrow().is_none()) {
            return Ok(question);
        }
        let (answer, question) = watch::channel(None);
        let asked = name.to_owned();
        (self.begin)(Box::new(move || {
            let found = (asked.as_str(), 0).to_socket_addrs();
            drop(place);
            let found = found.map(|found| found.map(|addr| addr.ip()).collect());
            let _ = answer.send(Some(found.map_err(|error| error.to_string())));
        }))?;
        let mut asked = self.asked();
        if asked.len() >= MAX_KEPT {
            asked.retain(|_, question| question.borrow().is_none());
        }
        asked.insert(name.to_owned(), question.clone());
        Ok(question)
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<String, Question>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask_servers(&self, name: &str) -> Answer {
        let found = self.dns().map_err(|error| shown(&error))?.lookup_ip(name).await;
        found.map(|found| found.iter().collect()).map_err(|error| shown(&error))
    }

    /// A client of the DNS servers, with the configuration of now, which has nothing in a cache.
    fn dns(&self) -> Result<TokioResolver, NetError> {
        let mut builder = if self.servers.is_empty() {
            TokioResolver::builder_tokio()?
        } else {
            let servers = self.servers.iter().copied().map(server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        let ndots = options.ndots;
        *options = ResolverOpts::default();
        options.ndots = ndots;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.cache_size = 0;
        options.timeout = SERVER_TIMEOUT;
        options.attempts = SERVER_ATTEMPTS;
        builder.build()
    }
}

fn server(addr: SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = addr.port();
    }
    NameServerConfig::new(addr.ip(), true, connections)
}

/// What is said of a source that has not answered in time.
pub(super) fn no_answer() -> String {
    "no answer".to_owned()
}

fn shown(error: &NetError) -> String {
    if error.is_no_records_found() {
        "there are no such records".to_owned()
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests;
