//! The command line.

use std::collections::BTreeSet;
use std::thread;

const USAGE: &str = "usage: .ci/mutations \
    [--fit | --all | --changed | --share N | NAME...] [--record] [--workers N]";
/// One in this many of those that have not changed runs at each commit.
const SHARE: u64 = 20;
/// Each worker has dependencies of its own to build.
const MAX_WORKERS: usize = 4;

#[derive(Debug, Eq, PartialEq)]
pub struct Arguments {
    pub choice: Choice,
    pub record: bool,
    pub workers: usize,
}

/// Which mutations are replayed.
#[derive(Debug, Eq, PartialEq)]
pub enum Choice {
    /// None: only whether they fit the code.
    Fit,
    All,
    Changed,
    /// What changed, and one in this many of the rest.
    Share(u64),
    Named(BTreeSet<String>),
}

impl Arguments {
    pub fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut choices = Vec::new();
        let mut names = BTreeSet::new();
        let mut record = false;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut workers = cores.min(MAX_WORKERS);
        while let Some(argument) = given.next() {
            match argument.as_str() {
                "--fit" => choices.push(Choice::Fit),
                "--all" => choices.push(Choice::All),
                "--changed" => choices.push(Choice::Changed),
                "--share" => choices.push(Choice::Share(number(given.next())?)),
                "--record" => record = true,
                "--workers" => workers = number(given.next())?.try_into().unwrap_or(usize::MAX),
                name if name.starts_with('-') => return Err(USAGE.to_owned()),
                name => _ = names.insert(name.to_owned()),
            }
        }
        if !names.is_empty() {
            choices.push(Choice::Named(names));
        }
        let choice = choices.pop().unwrap_or(Choice::Share(SHARE));
        if choices.is_empty() {
            Ok(Self { choice, record, workers })
        } else {
            Err(USAGE.to_owned())
        }
    }
}

fn number(given: Option<String>) -> Result<u64, String> {
    given
        .and_then(|number| number.parse().ok())
        .filter(|&number| number > 0)
        .ok_or(USAGE.to_owned())
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
