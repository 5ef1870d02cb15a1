//! The command line.

use std::num::NonZeroU64;

use clap::{Parser, ValueEnum};

use crate::time::{MS, Nanos, SECOND};

/// Simulates a cluster: the protocol's core with real limiters, in simulated time, through faults
/// that a seed chooses.
#[derive(Clone, Debug, Parser)]
#[command(name = "sim")]
pub struct Args {
    /// What is simulated.
    #[arg(long, value_enum, default_value_t = Kind::Chaos)]
    pub scenario: Kind,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Nodes; chaos draws 2 to 8 without it, scenarios have 3.
    #[arg(long)]
    pub nodes: Option<usize>,
    /// Seeds simulated at the same time.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// A checker to leave out; may be repeated.
    #[arg(long)]
    pub without: Vec<String>,
    /// Print what happens.
    #[arg(long)]
    pub trace: bool,
    /// Print figures as JSON.
    #[arg(long)]
    pub json: bool,
    /// Milliseconds between flushes.
    #[arg(long, default_value_t = 10.0)]
    pub flush: f64,
    /// A cap of the bytes a second that each node spends on sending; without it there is none.
    #[arg(long)]
    pub byte_cap: Option<NonZeroU64>,
    /// The delay of a packet, in milliseconds; chaos draws it.
    #[arg(long, default_value_t = 1.0)]
    pub delay: f64,
    /// What jitter adds at most, in milliseconds.
    #[arg(long, default_value_t = 0.2)]
    pub jitter: f64,
    /// The part of packets that are lost.
    #[arg(long, default_value_t = 0.01)]
    pub loss: f64,
    /// Beyond a round trip, the least and the longest time to mend a loss on a stream, in ms.
    #[arg(long, num_args = 2, default_values_t = [10.0, 30.0])]
    pub mend: Vec<f64>,
    /// Clocks run too fast or too slow by up to this, in parts per million.
    #[arg(long, default_value_t = 0)]
    pub drift: u64,
    /// Clocks start with up to this, in seconds.
    #[arg(long, default_value_t = 3_600.0)]
    pub skew: f64,
    /// Demand on the hot key, as a multiple of its limit; 2, and 0.8 around faults.
    #[arg(long)]
    pub load: Option<f64>,
    /// Units of a check.
    #[arg(long, default_value_t = 1)]
    pub cost: u64,
    /// In `even`, the burst of the hot key's limit of 10,000 a second.
    #[arg(long, default_value_t = 1_000)]
    pub burst: u64,
    /// Seconds of load.
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// Seconds of the cut, of the stop, or until the restart.
    #[arg(long, default_value_t = 10.0)]
    pub fault: f64,
    /// Checks arrive at even distances, not at random ones.
    #[arg(long)]
    pub even_arrivals: bool,
    /// In `spray`, simulated time for each unit of time that the core takes here: then a node that
    /// is busy keeps its inputs waiting, and a seed is not always the same run.
    #[arg(long, default_value_t = 0.0)]
    pub cpu: f64,
    /// Demand is at one node at a time, which changes every this many milliseconds.
    #[arg(long)]
    pub wander: Option<f64>,
    /// The part of the demand that is at the first node, where it is not even; the others share the
    /// rest.
    #[arg(long)]
    pub first: Option<f64>,
    /// Demand is at this many nodes alone, and even there.
    #[arg(long, conflicts_with_all = ["first", "wander"])]
    pub asked: Option<usize>,
    /// The last node's word of the hot key is ahead of the others' by this many milliseconds.
    #[arg(long, default_value_t = 0.0)]
    pub ahead: f64,
    /// In `scale`, keys that are live at each node.
    #[arg(long, default_value_t = 1_000_000)]
    pub live: u64,
    /// In `scale`, the part of the burst tolerance that each of them owes.
    #[arg(long, default_value_t = 0.05)]
    pub owed: f64,
    /// In `scale`, keys that change a second, one rate after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000.0, 10_000.0, 100_000.0])]
    pub changes: Vec<f64>,
    /// Key spray: new keys a second.
    #[arg(long, default_value_t = 30_000.0)]
    pub keys: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Faults that the seed chooses, and all checkers.
    Chaos,
    /// Even demand on a hot key, no faults.
    Even,
    /// The last node is cut off for a while.
    Cut,
    /// The last node is stopped for a while.
    Stall,
    /// The last node crashes, and starts anew after a while.
    Restart,
    /// A tenth of the limit on one key, from all nodes: what gossip costs.
    Sparse,
    /// Many nodes and many live keys, of which some change: what that costs, and how long it takes
    /// until all nodes agree, and until another one has joined.
    Scale,
    /// Many new keys at the first node, while the last is dead.
    Spray,
}

impl Args {
    /// The command that repeats one seed.
    pub fn replay(seed: u64) -> String {
        let mut words: Vec<String> = Vec::new();
        let mut skip = false;
        for word in std::env::args().skip(1) {
            let is_own = ["--seed", "--seeds", "--threads"].contains(&word.as_str());
            let is_joined = ["--seed=", "--seeds=", "--threads="];
            if skip || is_own || is_joined.iter().any(|prefix| word.starts_with(prefix)) {
                skip = is_own;
                continue;
            }
            words.push(word);
        }
        words.push(format!("--seed {seed} --trace"));
        format!("cargo run --release -p tidegate-tests --bin sim -- {}", words.join(" "))
    }

    /// The load as a multiple of the limit.
    pub fn load(&self) -> f64 {
        let below = matches!(self.scenario, Kind::Cut | Kind::Stall | Kind::Restart);
        let usual = match self.scenario {
            Kind::Sparse => 0.1,
            _ if below => 0.8,
            _ => 2.0,
        };
        self.load.unwrap_or(usual)
    }

    pub fn duration(&self) -> Nanos {
        (self.seconds * SECOND as f64) as Nanos
    }

    pub fn fault(&self) -> Nanos {
        (self.fault * SECOND as f64) as Nanos
    }
}

/// Milliseconds of the command line.
pub fn millis(value: f64) -> Nanos {
    (value * MS as f64) as Nanos
}
