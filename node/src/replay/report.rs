//! The printed result.

use std::fmt::Write;
use std::net::IpAddr;

use serde::Serialize;
use tidegate_engine::IpKey;

use super::decide::KeyCounts;
use super::log::Log;

/// How many of the most denied keys are named.
const TOP_KEYS: usize = 10;

/// An IPv4 address, or an IPv6 network as `2001:db8::/64`.
fn shown(key: &IpKey) -> String {
    match key.network() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(_) => key.to_string(),
    }
}

/// The figures of a replay, in the order in which they are printed.
#[derive(Debug, Serialize)]
pub struct Report {
    lines: u64,
    parsed: u64,
    skipped: u64,
    reordered: u64,
    keys: u64,
    allowed: u64,
    denied: u64,
    /// The most denied first, ties by key; none without a denial.
    top: Vec<KeyReport>,
}

#[derive(Debug, Serialize)]
struct KeyReport {
    key: String,
    allowed: u64,
    denied: u64,
}

impl Report {
    /// `counts` belong to the log's keys, in their order.
    pub fn new(log: &Log, counts: &[KeyCounts]) -> Self {
        let parsed = log.requests.len() as u64;
        let denied = log.keys.iter().zip(counts).filter(|(_, counts)| counts.denied > 0);
        let mut denied: Vec<(String, &KeyCounts)> =
            denied.map(|(key, counts)| (shown(key), counts)).collect();
        denied.sort_by(|(key, counts), (other, others)| {
            others.denied.cmp(&counts.denied).then_with(|| key.cmp(other))
        });
        let top = denied.into_iter().take(TOP_KEYS).map(|(key, counts)| KeyReport {
            key,
            allowed: counts.allowed,
            denied: counts.denied,
        });
        Self {
            lines: log.lines,
            parsed,
            skipped: log.lines - parsed,
            reordered: log.reordered,
            keys: log.keys.len() as u64,
            allowed: counts.iter().map(|counts| counts.allowed).sum(),
            denied: counts.iter().map(|counts| counts.denied).sum(),
            top: top.collect(),
        }
    }

    /// One JSON object in one line.
    pub fn json(&self) -> String {
        // Plain numbers and strings always serialise.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// A table.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in [
            ("lines", self.lines),
            ("parsed", self.parsed),
            ("skipped", self.skipped),
            ("reordered", self.reordered),
            ("keys", self.keys),
            ("allowed", self.allowed),
            ("denied", self.denied),
        ] {
            let _ = writeln!(text, "{name:<10}{value:>12}");
        }
        if !self.top.is_empty() {
            let width = self.top.iter().map(|top| top.key.len()).max().unwrap_or(0).max(11);
            let _ = writeln!(text, "\n{:<width$}{:>12}{:>12}", "most denied", "allowed", "denied");
            for KeyReport { key, allowed, denied } in &self.top {
                let _ = writeln!(text, "{key:<width$}{allowed:>12}{denied:>12}");
            }
        }
        text
    }
}
