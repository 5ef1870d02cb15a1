//! Places, the switch between them, nodes, and their clients.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ledger::Ledger;
use crate::load::{Client, Keys, NAMED};
use crate::node::{HTTP, Node, Program, RESP, cluster_address};
use crate::place::Place;
use crate::quota::Quota;
use crate::reply::Protocol;
use crate::switch::Switch;
use crate::weather::{Conditions, Weather};

/// How long nodes may take to know each other.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// What the nodes of a laboratory share.
const SECRET: &str = "the secret of a laboratory, known to all";

/// All of it. What it started ends when it is dropped.
pub struct Lab {
    clock: Instant,
    pub switch: Switch,
    places: Vec<Arc<Place>>,
    nodes: Vec<Option<Node>>,
    clients: Vec<Client>,
    program: Program,
    quota: Quota,
    /// By which clients ask.
    pub protocol: Protocol,
    _dir: TempDir,
}

impl Lab {
    /// Places without nodes. `size` is how many there will be, at most.
    ///
    /// # Errors
    /// In one line, where the system has no namespaces or devices for this user.
    pub fn new(
        size: usize,
        quota: Quota,
        conditions: Conditions,
        seed: u64,
        binary: &Path,
    ) -> Result<Self, String> {
        let dir = TempDir::new().map_err(|error| format!("a temporary folder: {error}"))?;
        let secret = dir.path().join("secret");
        let config = dir.path().join("limits.toml");
        let Quota { rate, burst } = quota;
        let limit = format!("[[limit]]\nname = '{NAMED}'\nrate = '{rate}/s'\nburst = {burst}\n");
        for (path, text) in [(&secret, SECRET), (&config, &limit)] {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let (mut places, mut devices) = (Vec::new(), Vec::new());
        for number in 0..size {
            let (place, device) = Place::new(number)?;
            places.push(Arc::new(place));
            devices.push(device);
        }
        let mut weather = Weather::default();
        weather.conditions = conditions;
        let switch = Switch::start(devices, weather, seed).map_err(|error| error.to_string())?;
        let program = Program {
            binary: binary.to_owned(),
            config,
            join: (0..size).map(cluster_address).collect(),
            secret: Some(secret),
            logs: dir.path().to_owned(),
        };
        let (clock, clients, protocol) = (Instant::now(), Vec::new(), Protocol::Redis);
        let nodes = (0..size).map(|_| None).collect();
        Ok(Self { clock, switch, places, nodes, clients, program, quota, protocol, _dir: dir })
    }

    /// Nodes that are started from now on are in no cluster.
    pub fn without_cluster(&mut self) {
        self.program.secret = None;
    }

    /// Starts the first `count` nodes, one right after the other, each with the same list of nodes
    /// to join, and a client for each; waits until all know each other and each sends to each.
    ///
    /// # Errors
    /// When one does not start, or they do not meet.
    pub fn form(&mut self, count: usize, keys: &Keys) -> Result<(), String> {
        for number in 0..count {
            self.start(number)?;
        }
        for number in 0..count {
            self.wait_ready(number)?;
            self.add_client(number, keys.clone());
        }
        if self.program.secret.is_some() {
            self.wait_until_together()?;
            self.wait_until_flowing()?;
        }
        Ok(())
    }

    /// Starts a client of a node, which asks for nothing yet; its number.
    pub fn add_client(&mut self, number: usize, keys: Keys) -> usize {
        let address = match self.protocol {
            Protocol::Redis => RESP,
            Protocol::Http => HTTP,
        };
        let node = (self.protocol, address.parse().expect("an address"));
        self.clients.push(Client::start(&self.places[number], node, keys, self.quota, self.clock));
        self.clients.len() - 1
    }

    /// Starts a node, and waits for nothing.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, number: usize) -> Result<(), String> {
        self.nodes[number] = Some(Node::start(number, &self.places[number], &self.program)?);
        Ok(())
    }

    /// Waits until a node listens; how long it took since it was started.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_ready(&mut self, number: usize) -> Result<Duration, String> {
        self.nodes[number].as_mut().ok_or("no such node")?.wait_ready()
    }

    /// Waits until every node that runs has exactly those that run as live members.
    ///
    /// # Errors
    /// When they do not meet.
    pub fn wait_until_together(&self) -> Result<(), String> {
        let start = Instant::now();
        let all = self.running();
        loop {
            let together = all.iter().all(|number| self.live_members(*number) == Ok(all.clone()));
            if together {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                let views: Vec<_> = all.iter().map(|number| self.live_members(*number)).collect();
                return Err(format!("nodes {all:?} do not meet: {views:?}"));
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until every node that runs sends to each of the others: until then those to which its
    /// link is not open receive nothing, and a full bucket is offered to each of them.
    fn wait_until_flowing(&self) -> Result<(), String> {
        let start = Instant::now();
        let all = self.running();
        loop {
            let flows = |number: &usize| Ok(self.node(*number)?.flows()?.len() + 1 == all.len());
            let flowing: Result<Vec<bool>, String> = all.iter().map(flows).collect();
            if flowing?.iter().all(|flows| *flows) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("nodes {all:?} do not all send to each other"));
            }
            thread::sleep(LOOK);
        }
    }

    /// The nodes that are alive in the eyes of this one.
    fn live_members(&self, number: usize) -> Result<Vec<usize>, String> {
        let members = self.node(number)?.members()?;
        let is_live = |number: &usize| {
            members.get(&cluster_address(*number)).is_some_and(|state| state == "alive")
        };
        Ok((0..self.nodes.len()).filter(is_live).collect())
    }

    /// The numbers of nodes that run.
    pub fn running(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|number| self.nodes[*number].is_some()).collect()
    }

    /// A node that runs.
    ///
    /// # Errors
    /// When it does not.
    pub fn node(&self, number: usize) -> Result<&Node, String> {
        self.nodes.get(number).and_then(Option::as_ref).ok_or(format!("no node {number}"))
    }

    /// Kills a node.
    pub fn kill(&mut self, number: usize) {
        self.nodes[number] = None;
    }

    /// Waits for a node to end by itself.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_end(&mut self, number: usize) -> Result<(), String> {
        let ended = self.nodes[number].as_mut().ok_or("no such node")?.wait();
        self.nodes[number] = None;
        ended
    }

    /// Each client asks this many times a second from now on.
    pub fn set_rates(&self, rate: f64) {
        for client in &self.clients {
            client.set_rate(rate);
        }
    }

    pub fn place(&self, number: usize) -> &Place {
        &self.places[number]
    }

    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    pub fn client(&self, number: usize) -> &Client {
        &self.clients[number]
    }

    /// Nanoseconds since the start of all clocks.
    pub fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Lets time pass; the time that passed.
    pub fn pass(&self, time: Duration) -> Range<u64> {
        let start = self.now();
        thread::sleep(time);
        start..self.now()
    }

    /// What clients were answered so far, by client.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.clients.iter().map(Client::events).collect())
    }

    /// The sum of a figure of the cluster over all nodes that run; `None` where the build does not
    /// have it.
    ///
    /// # Errors
    /// When a node does not answer.
    pub fn sum(&self, name: &str) -> Result<Option<f64>, String> {
        let mut sum = None;
        for number in self.running() {
            if let Some(value) = self.node(number)?.metrics()?.cluster(name) {
                sum = Some(sum.unwrap_or(0.0) + value);
            }
        }
        Ok(sum)
    }

    /// The processor time of all nodes that run.
    ///
    /// # Errors
    /// When one is gone.
    pub fn processor_time(&self) -> Result<Duration, String> {
        self.running().into_iter().map(|number| self.node(number)?.processor_time()).sum()
    }
}
