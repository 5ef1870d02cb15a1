//! Looking up seeds, again and again, in a task of its own.
//!
//! A source is a seed that is not an address: a name, a service or a file, which lists more of
//! them. It is found once it has given something, and keeps what it gave last when it gives
//! nothing. Sources wait for no other one, and neither does what they give: it is passed on at once
//! where another one has not answered. But names that files list are asked once each file has
//! answered or is given up.

mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::Shared;
use super::logging::TARGET;
use super::lookup::Resolver;
use crate::config::Config;
use crate::protocol::MAX_SEEDS;
use crate::seed::{Seed, SeedKind, canonical};
use files::{Files, Reading};

/// Names and services that are looked up, at most: the first ones in order, those in files last.
const MAX_SOURCES: usize = 128;
/// Until a node has joined and knows of others, the shortest time between two look-ups.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest one; each is twice as long as the one before.
const RETRY_MAX: Duration = Duration::from_secs(4);
/// From then on.
const REFRESH: Duration = Duration::from_secs(30);
/// Between two lines of the log about one source that say the same, and that do not.
const LOG_EVERY: Duration = Duration::from_secs(60);
const LOG_OTHER_EVERY: Duration = Duration::from_secs(10);

/// What has been looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// All seeds, at most [`MAX_SEEDS`] in addition to this node's own address.
    pub(super) seeds: Vec<SocketAddr>,
    /// Each source is found.
    pub(super) complete: bool,
}

/// Looks up seeds.
#[derive(Debug)]
pub(super) struct Seeker {
    me: SocketAddr,
    seeds: Vec<Seed>,
    /// The addresses among them.
    listed: Vec<SocketAddr>,
    resolver: Arc<Resolver>,
    files: Files,
    sources: BTreeMap<Seed, Source>,
    /// Where to say what some sources give while others have not answered.
    early: Option<mpsc::Sender<Found>>,
    /// What was said last.
    said: Option<Found>,
    /// When it was logged that there are too many.
    crowded_at: Option<Instant>,
    /// When addresses were logged that this node cannot dial.
    undialable_at: Option<Instant>,
}

/// What is known of a source.
#[derive(Debug, Default)]
struct Source {
    /// What it gave last.
    gave: Option<Vec<Seed>>,
    /// What was logged of it last.
    logged: Option<LastLogged>,
    /// A read of it, where it is a file, that was not waited for.
    given_up: Option<Reading>,
}

/// What a source gives, and a read of it that was given up.
type Answer = (Seed, Result<Vec<Seed>, String>, Option<Reading>);
/// What has been asked of sources: each answers, or is given up, by itself.
type Asking = JoinSet<Answer>;

/// That a source gives nothing.
#[derive(Debug)]
struct LastLogged {
    at: Instant,
    problem: String,
    /// The problem is to be logged again.
    again: bool,
}

impl Seeker {
    pub(super) fn new(config: &Config, me: SocketAddr) -> Self {
        let join = config.join.iter().copied().map(Seed::from);
        let seeds: Vec<Seed> = join.chain(config.seeds.iter().cloned()).collect();
        let listed = seeds.iter().filter_map(address).collect();
        let resolver = Resolver::new(config.name_servers.clone(), canonical(config.bind).ip());
        let resolver = Arc::new(resolver);
        let (files, sources) = (Files::default(), BTreeMap::new());
        let (crowded_at, undialable_at) = (None, None);
        let (early, said) = (None, None);
        Self { me, seeds, listed, resolver, files, sources, early, said, crowded_at, undialable_at }
    }

    /// The seeds that need no looking up.
    pub(super) fn listed(&self) -> &[SocketAddr] {
        &self.listed
    }

    pub(super) fn has_sources(&self) -> bool {
        self.seeds.iter().any(|seed| address(seed).is_none())
    }

    /// Starts to look them up. Nothing comes where there is nothing to look up.
    pub(super) fn start(mut self, shared: &Arc<Shared>) -> mpsc::Receiver<Found> {
        let listed = std::mem::take(&mut self.listed);
        self.log_crowded(false, &listed);
        self.log_undialable(&listed);
        let (sender, receiver) = mpsc::channel(1);
        if self.has_sources() {
            tokio::spawn(self.run(sender, Arc::clone(shared)));
        }
        receiver
    }

    /// Ends with the receiver.
    async fn run(mut self, sender: mpsc::Sender<Found>, shared: Arc<Shared>) {
        let mut retry = RETRY_MIN;
        self.early = Some(sender.clone());
        loop {
            let found = tokio::select! {
                () = sender.closed() => return,
                found = self.look_up_all() => found,
            };
            let others = found.seeds.iter().any(|seed| *seed != self.me);
            let settled = found.complete && others && shared.has_joined();
            self.said = Some(found.clone());
            if sender.send(found).await.is_err() {
                return;
            }
            let wait = if settled { REFRESH } else { retry };
            tokio::select! {
                () = sender.closed() => return,
                () = shared.look_up.notified() => {
                    retry = RETRY_MIN;
                    self.sources.values_mut().for_each(Source::log_again);
                }
                () = sleep(wait) => retry = RETRY_MAX.min(retry * 2),
            }
        }
    }

    /// Looks all sources up once.
    async fn look_up_all(&mut self) -> Found {
        let is_file = |seed: &Seed| matches!(seed.kind(), SeedKind::File(_));
        let (files, listed): (BTreeSet<Seed>, BTreeSet<Seed>) =
            self.seeds.iter().filter(|seed| address(seed).is_none()).cloned().partition(is_file);
        let mut crowded = listed.len() > MAX_SOURCES;
        let mut names: BTreeSet<Seed> = listed.into_iter().take(MAX_SOURCES).collect();
        let (mut asking, mut reading) = (Asking::new(), Asking::new());
        self.begin(&names, &mut asking);
        self.begin(&files, &mut reading);
        self.finish_files(reading, &mut asking).await;

        let in_files = files.iter().filter_map(|file| self.sources.get(file)?.gave.as_ref());
        let is_new = |seed: &&Seed| address(seed).is_none() && !names.contains(*seed);
        let in_files: BTreeSet<Seed> = in_files.flatten().filter(is_new).cloned().collect();
        let room = MAX_SOURCES - names.len();
        crowded |= in_files.len() > room;
        let in_files: BTreeSet<Seed> = in_files.into_iter().take(room).collect();
        self.begin(&in_files, &mut asking);
        self.finish(asking).await;
        names.extend(in_files);
        self.sources.retain(|source, _| files.contains(source) || names.contains(source));
        self.found(crowded)
    }

    /// What sources gave last.
    fn found(&mut self, crowded: bool) -> Found {
        let (mut seeds, mut complete) = (BTreeSet::new(), true);
        let mut order = Vec::new();
        for seed in &self.seeds {
            complete &= self.gather(seed, &mut |addr| {
                if seeds.insert(addr) {
                    order.push(addr);
                }
            });
        }
        self.log_crowded(crowded, &order);
        self.log_undialable(&order);
        order.truncate(MAX_SEEDS + 1);
        Found { seeds: order, complete }
    }

    /// Logs that there are more names, or more addresses, than are used.
    fn log_crowded(&mut self, crowded: bool, seeds: &[SocketAddr]) {
        let others = seeds.iter().filter(|seed| **seed != self.me).count();
        if (crowded || others > MAX_SEEDS) && is_due(&mut self.crowded_at) {
            warn!(target: TARGET, "more than {MAX_SOURCES} names, or {MAX_SEEDS} addresses of \
                seeds: some are left out");
        }
    }

    /// Logs the first of those that this node cannot dial; it counts as one that does not answer.
    fn log_undialable(&mut self, seeds: &[SocketAddr]) {
        let problem = |seed: &SocketAddr| Some((*seed, self.resolver.undialable(*seed)?));
        let mut undialable = seeds.iter().filter_map(problem);
        let Some((seed, problem)) = undialable.next() else { return };
        let others = undialable.count();
        if is_due(&mut self.undialable_at) {
            warn!(target: TARGET, %seed, others, "seed that this node cannot dial: it {problem}");
        }
    }

    /// The addresses of a seed; whether all of it is found.
    fn gather(&self, seed: &Seed, add: &mut impl FnMut(SocketAddr)) -> bool {
        if let Some(addr) = address(seed) {
            add(addr);
            return true;
        }
        let gave = self.sources.get(seed).and_then(|source| source.gave.as_ref());
        let each = |gave: &Vec<Seed>| gave.iter().map(|seed| self.gather(seed, add)).min();
        gave.and_then(each).unwrap_or(false)
    }

    /// Asks sources, all at a time.
    fn begin(&mut self, sources: &BTreeSet<Seed>, asking: &mut Asking) {
        for source in sources.iter().cloned() {
            let (resolver, files) = (Arc::clone(&self.resolver), self.files.clone());
            let known = self.sources.get_mut(&source);
            let mut given_up = known.and_then(|known| known.given_up.take());
            asking.spawn(async move {
                let gives = ask(&source, &resolver, &files, &mut given_up).await;
                (source, gives, given_up)
            });
        }
    }

    /// Takes what they answer.
    async fn finish(&mut self, mut asking: Asking) {
        while let Some(asked) = asking.join_next().await {
            self.note(asked);
            if !asking.is_empty() {
                self.say_early().await;
            }
        }
    }

    /// Takes what files list, and what others answer meanwhile.
    async fn finish_files(&mut self, mut reading: Asking, asking: &mut Asking) {
        while !reading.is_empty() {
            let asked = tokio::select! {
                Some(read) = reading.join_next() => read,
                Some(asked) = asking.join_next() => asked,
            };
            self.note(asked);
            if !reading.is_empty() || !asking.is_empty() {
                self.say_early().await;
            }
        }
    }

    /// Takes what one answers. A task that is gone has found nothing.
    fn note(&mut self, asked: Result<Answer, JoinError>) {
        if let Ok((source, gives, given_up)) = asked {
            let known = self.sources.entry(source.clone()).or_default();
            known.note(&source, gives);
            known.given_up = given_up;
        }
    }

    /// Says what is found so far, where that is new. It is complete only if it was before: a source
    /// that has not answered may give more than it did.
    async fn say_early(&mut self) {
        let Some(early) = self.early.clone() else { return };
        let mut found = self.found(false);
        found.complete &= self.said.as_ref().is_some_and(|said| said.complete);
        if self.said.as_ref() != Some(&found) {
            let _ = early.send(found.clone()).await;
            self.said = Some(found);
        }
    }
}

impl Source {
    fn note(&mut self, seed: &Seed, gives: Result<Vec<Seed>, String>) {
        match gives {
            Ok(gives) => {
                if self.logged.take().is_some() || self.gave.is_none() {
                    info!(target: TARGET, %seed, gives = gives.len(), "seed found");
                }
                self.gave = Some(gives);
            }
            Err(problem) => {
                if self.is_to_be_logged(&problem) {
                    warn!(target: TARGET, %seed, "seed not found, looking again: {problem}");
                    self.logged = Some(LastLogged { at: Instant::now(), problem, again: false });
                }
            }
        }
    }

    fn is_to_be_logged(&self, problem: &str) -> bool {
        let Some(logged) = &self.logged else { return true };
        let every = if logged.problem == problem { LOG_EVERY } else { LOG_OTHER_EVERY };
        logged.again || logged.at.elapsed() >= every
    }

    /// The next problem is logged in any case.
    fn log_again(&mut self) {
        if let Some(logged) = &mut self.logged {
            logged.again = true;
        }
    }
}

/// Whether a line is due, which is then logged.
fn is_due(logged_at: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let due = logged_at.is_none_or(|at| now.saturating_duration_since(at) >= LOG_EVERY);
    if due {
        *logged_at = Some(now);
    }
    due
}

fn address(seed: &Seed) -> Option<SocketAddr> {
    match seed.kind() {
        SeedKind::Address(addr) => Some(*addr),
        _ => None,
    }
}

/// What a source gives; never nothing.
async fn ask(
    source: &Seed,
    resolver: &Arc<Resolver>,
    files: &Files,
    given_up: &mut Option<Reading>,
) -> Result<Vec<Seed>, String> {
    let found = match source.kind() {
        SeedKind::Address(addr) => [*addr].into(),
        SeedKind::Name(name, port) => resolver.name(name, *port).await?,
        SeedKind::Service(name) => resolver.service(name).await?,
        SeedKind::File(path) => {
            let seeds = files.read(path, given_up).await?;
            let seeds = Some(seeds).filter(|seeds| !seeds.is_empty());
            return seeds.ok_or_else(|| "it lists none".to_owned());
        }
    };
    Ok(found.into_iter().map(Seed::from).collect())
}

#[cfg(test)]
mod tests;
