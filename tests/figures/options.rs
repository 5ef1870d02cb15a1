//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::weather::Conditions;

/// Measures clusters of real nodes, each in a network namespace of its own, between which a switch
/// in this process delays, loses and cuts. Needs Linux, root, and `ip` and `setpriv`.
#[derive(Clone, Debug, Parser)]
#[command(name = "cluster-figures")]
pub struct Args {
    /// What is measured; all of them unless given.
    #[arg(value_enum)]
    pub cases: Vec<Kind>,
    /// Nodes; a case has its own numbers without it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=150))]
    pub nodes: Option<u16>,
    /// Runs of each case, of which medians are printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,
    /// Seconds instead of minutes, for a first look.
    #[arg(long)]
    pub short: bool,
    /// Which kind of limit clients ask under, except in `spray`.
    #[arg(long, value_enum, default_value_t = Limit::Inline)]
    pub limit: Limit,
    /// The node's binary.
    #[arg(long, value_name = "PATH", default_value = "target/release/tidegate")]
    pub node: PathBuf,
    /// Where figures are written as JSON, one a line.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Fail when a figure does not meet this.
    #[arg(long, value_enum)]
    pub demand: Option<Level>,
    /// The delay of a packet, one way, in milliseconds.
    #[arg(long, default_value_t = 1.0, value_parser = milliseconds)]
    pub delay: f64,
    /// What is added to it at most, in milliseconds.
    #[arg(long, default_value_t = 0.0, value_parser = milliseconds)]
    pub jitter: f64,
    /// The part of packets that are lost.
    #[arg(long, default_value_t = 0.01, value_parser = part)]
    pub loss: f64,
    /// The part of packets that arrive twice.
    #[arg(long, default_value_t = 0.0, value_parser = part)]
    pub doubled: f64,
    /// Larger packets are lost, in bytes.
    #[arg(long, default_value_t = 1_500)]
    pub mtu: usize,
    /// The seed of the network's chances.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Args {
    /// What the network does to packets.
    pub fn conditions(&self) -> Conditions {
        Conditions {
            delay: Duration::from_secs_f64(self.delay / 1e3),
            jitter: Duration::from_secs_f64(self.jitter / 1e3),
            loss: self.loss,
            doubled: self.doubled,
            mtu: self.mtu,
        }
    }
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Limit {
    /// The client names the quota with each check, by `CL.THROTTLE`.
    Inline,
    /// The node's configuration has it; clients ask by HTTP.
    Named,
}

/// What figures may be held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    Floor,
    Goal,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Whether the network does what it is set to; without nodes.
    Network,
    /// Twice the limit on one key, evenly at all nodes, without a fault.
    Even,
    /// The last node is cut off for 0.5, 1.5 and 10 s at 80 % of the limit.
    Heal,
    /// Another node joins, under twice the limit.
    Join,
    /// The last node is cut off for 3 s, under twice the limit.
    Cut,
    /// The last node is stopped by SIGSTOP for 10 s, under twice the limit.
    Stop,
    /// The last node is killed by SIGKILL and started again, under twice the limit.
    Kill,
    /// The last node is ended by SIGTERM and started again, under twice the limit.
    Leave,
    /// The first node is killed and started again, under twice the limit.
    Founder,
    /// 1,000 checks a second on a key at a tenth of its limit.
    Sparse,
    /// 300,000 new keys a second at one node, while another is dead.
    Spray,
}

impl Kind {
    /// How many nodes it has unless the command line says otherwise.
    pub const fn sizes(self) -> &'static [usize] {
        match self {
            Self::Even => &[3, 5],
            Self::Heal => &[2, 3, 5, 20],
            Self::Network => &[2],
            Self::Sparse => &[20],
            _ => &[3],
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    number(text, 60_000.0).ok_or_else(|| "expected milliseconds, at most 60000".to_owned())
}

fn part(text: &str) -> Result<f64, String> {
    number(text, 1.0).ok_or_else(|| "expected a part, from 0 to 1".to_owned())
}

fn number(text: &str, most: f64) -> Option<f64> {
    text.parse().ok().filter(|value| (0.0..=most).contains(value))
}
