//! The metrics of the node, for Prometheus. Labels are limits of the configuration, front-ends and
//! outcomes, never keys: their number is bounded.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::limits::gossip::{Gossip, Limiter, STATES, Stats, View};
use crate::telemetry::errors::Errors;
use crate::telemetry::exposition::{self, Format};
use crate::telemetry::meter::{Decisions, FrontEndName, Meter};
use crate::telemetry::over_admission::encode_over_admission;
use crate::telemetry::peer_metrics::{encode_expiry, encode_links, encode_peers, encode_steps};

/// The connections of one front-end.
#[derive(Clone, Debug)]
pub struct ConnectionMetrics {
    /// The front-end's name.
    pub frontend: &'static str,
    accepted: Counter,
    /// Failures to accept, as without a file descriptor.
    pub accept_errors: Counter,
    /// Refused as there were too many of all.
    pub refused_full: Counter,
    /// Refused as there were too many of their address.
    pub refused_address: Counter,
    /// Closed as the client was silent for too long.
    pub closed_idle: Counter,
    /// Closed as the node had no room for the replies that the client had not taken.
    pub closed_no_room: Counter,
    /// Closed as a command took too long to arrive.
    pub closed_command_timeout: Counter,
    /// Closed as the node had no room for more of a command that has not arrived in full.
    pub closed_unread: Counter,
    /// Closed as the client took nothing of its replies for too long.
    pub closed_write_timeout: Counter,
    open: Gauge<i64, AtomicI64>,
}

impl ConnectionMetrics {
    /// Counts a connection as open until the guard is dropped.
    pub fn open(&self) -> OpenConnection {
        self.accepted.inc();
        self.open.inc();
        OpenConnection(self.open.clone())
    }
}

/// Requests that HTTP refused, as of pages or for hosts that are not allowed, or beyond a bound.
#[derive(Debug)]
pub struct RefusedRequests {
    pub host: Counter,
    pub origin: Counter,
    /// As the node had no room for their bodies.
    pub no_room: Counter,
    pub body_too_large: Counter,
    /// As their bodies took too long to arrive.
    pub body_timeout: Counter,
}

impl RefusedRequests {
    fn register(registry: &mut Registry) -> Self {
        let family = Family::<RequestLabels, Counter>::default();
        let reason = |reason| family.get_or_create_owned(&RequestLabels { reason });
        let refused = Self {
            host: reason("host_not_allowed"),
            origin: reason("origin_not_allowed"),
            no_room: reason("no_room"),
            body_too_large: reason("body_too_large"),
            body_timeout: reason("body_timeout"),
        };
        registry.register("http_refused", "Requests refused", family);
        refused
    }
}

#[derive(Debug)]
pub struct OpenConnection(Gauge<i64, AtomicI64>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// All metrics of the node.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    decisions: Decisions,
    guesses: Counter,
    not_queued: Counter,
    expired_transactions: Counter,
    resp: ConnectionMetrics,
    http: ConnectionMetrics,
    http_refused: RefusedRequests,
    errors: Errors,
}

impl Metrics {
    /// `limits` are the limits by name, the inline one included.
    pub fn new(limits: Vec<(String, Arc<Limiter>)>, gossip: Gossip) -> Self {
        let mut registry = Registry::with_prefix("tidegate");
        registry.register(
            "build",
            "The version of this node",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        let decisions = Decisions::default();
        registry.register("decisions", "Decisions made", decisions.clone());
        let (accepted, refused, open) = (Family::default(), Family::default(), Family::default());
        registry.register("connections_accepted", "Connections accepted", accepted.clone());
        registry.register("connections_refused", "Connections beyond the bound", refused.clone());
        registry.register("connections", "Connections open", open.clone());
        let accept_errors = Family::default();
        registry.register("accept_errors", "Failures to accept", accept_errors.clone());
        let closed = Family::default();
        registry.register("connections_closed", "Connections cut off", closed.clone());
        let http_refused = RefusedRequests::register(&mut registry);
        let errors = Errors::register(&mut registry);
        let guesses = Counter::default();
        registry.register("resp_wrong_passwords", "Wrong passwords given", guesses.clone());
        let not_queued = Counter::default();
        registry.register(
            "resp_not_queued",
            "Commands not queued because all transactions together held too much",
            not_queued.clone(),
        );
        let expired_transactions = Counter::default();
        registry.register(
            "resp_transactions_expired",
            "Transactions aborted because their next command took too long to come",
            expired_transactions.clone(),
        );
        registry.register_collector(Box::new(Scrape { limits, gossip }));
        let connections = |front_end: FrontEndName| {
            let frontend = front_end.label();
            let labels = FrontEndLabels { frontend };
            let refused = |reason| refused.get_or_create_owned(&ReasonLabels { frontend, reason });
            let closed = |reason| closed.get_or_create_owned(&ReasonLabels { frontend, reason });
            ConnectionMetrics {
                frontend,
                accept_errors: accept_errors.get_or_create_owned(&labels),
                accepted: accepted.get_or_create_owned(&labels),
                refused_full: refused("max_connections"),
                refused_address: refused("max_connections_per_address"),
                closed_idle: closed("idle_timeout"),
                closed_command_timeout: closed("command_timeout"),
                closed_unread: closed("unread_bytes"),
                closed_no_room: closed("unsent_bytes"),
                closed_write_timeout: closed("write_timeout"),
                open: open.get_or_create_owned(&labels),
            }
        };
        Self {
            resp: connections(FrontEndName::Resp),
            http: connections(FrontEndName::Http),
            http_refused,
            errors,
            registry,
            decisions,
            guesses,
            not_queued,
            expired_transactions,
        }
    }

    /// Counts the decisions of a front-end, by these limits.
    pub fn meter<'a>(
        &self,
        front_end: FrontEndName,
        limits: impl Iterator<Item = &'a str>,
    ) -> Meter {
        Meter::new(&self.decisions, front_end, limits)
    }

    pub fn connections(&self, front_end: FrontEndName) -> &ConnectionMetrics {
        match front_end {
            FrontEndName::Resp => &self.resp,
            FrontEndName::Http => &self.http,
        }
    }

    pub const fn errors(&self) -> &Errors {
        &self.errors
    }

    pub const fn http_refused(&self) -> &RefusedRequests {
        &self.http_refused
    }

    /// Counts a wrong password.
    pub fn count_guess(&self) {
        self.guesses.inc();
    }

    /// Counts a command for which all transactions together leave no room.
    pub fn count_not_queued(&self) {
        self.not_queued.inc();
    }

    /// Counts a transaction whose next command took too long to come.
    pub fn count_expired_transaction(&self) {
        self.expired_transactions.inc();
    }

    /// The wrong passwords so far.
    #[cfg(test)]
    pub fn guesses(&self) -> u64 {
        self.guesses.get()
    }

    pub fn resp_connections(&self) -> i64 {
        self.resp.open.get()
    }

    pub fn resp_accepted(&self) -> u64 {
        self.resp.accepted.get()
    }

    pub fn resp_refused(&self) -> u64 {
        self.resp.refused_full.get() + self.resp.refused_address.get()
    }

    /// All metrics as text for Prometheus.
    pub fn render(&self, format: Format) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        match format {
            Format::OpenMetrics => text,
            Format::Classic => exposition::classic(&text),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FrontEndLabels {
    frontend: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    frontend: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    reason: &'static str,
}

/// Metrics that are read from their sources at each scrape.
#[derive(Debug)]
struct Scrape {
    limits: Vec<(String, Arc<Limiter>)>,
    gossip: Gossip,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        encode_overflow(&mut encoder, &self.limits)?;
        encode_clock(&mut encoder, &self.limits)?;
        if let (Some(view), Some(stats)) = (self.gossip.view(), self.gossip.stats()) {
            encode_members(&mut encoder, &view)?;
            encode_gossip(&mut encoder, &view, &stats)?;
            encode_peers(&mut encoder, &view.peers)?;
            encode_links(&mut encoder, &stats)?;
            encode_over_admission(&mut encoder, &self.limits, &self.gossip)?;
            encode_steps(&mut encoder, &stats.steps)?;
            encode_expiry(&mut encoder, self.gossip.certificate_expiry())?;
        }
        Ok(())
    }
}

/// The outcomes of checks of keys that found no slot.
fn encode_overflow(
    encoder: &mut DescriptorEncoder,
    limits: &[(String, Arc<Limiter>)],
) -> Result<(), std::fmt::Error> {
    let help = "For want of room: live keys evicted, checks denied, checks allowed uncharged, \
                charges dropped.";
    let mut family = encoder.encode_descriptor("overflow", help, None, MetricType::Counter)?;
    for (name, limiter) in limits {
        let counts = limiter.overflow();
        for (outcome, count) in [
            ("evicted", counts.evicted),
            ("denied", counts.denied),
            ("allowed", counts.allowed),
            ("charge_dropped", counts.charges_dropped),
        ] {
            let labels = [("limit", name.as_str()), ("outcome", outcome)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Whether the clock has fallen back from the time-stamp counter. All limits share one clock.
fn encode_clock(
    encoder: &mut DescriptorEncoder,
    limits: &[(String, Arc<Limiter>)],
) -> Result<(), std::fmt::Error> {
    let Some((_, limiter)) = limits.first() else { return Ok(()) };
    let help = "1 when the operating system's clock is used in place of the processor's \
                time-stamp counter, else 0.";
    let family = encoder.encode_descriptor("clock_fallback", help, None, MetricType::Gauge)?;
    gauge(u64::from(limiter.clock().is_fallback())).encode(family)
}

fn encode_members(encoder: &mut DescriptorEncoder, view: &View) -> Result<(), std::fmt::Error> {
    let help = "Members of the cluster by state, this node included.";
    let mut family = encoder.encode_descriptor("cluster_members", help, None, MetricType::Gauge)?;
    for (state, name) in STATES {
        let count = view.members.iter().filter(|member| member.state == state).count();
        let labels = [("state", name)];
        gauge(count as u64).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_gossip(
    encoder: &mut DescriptorEncoder,
    view: &View,
    stats: &Stats,
) -> Result<(), std::fmt::Error> {
    for (name, help, value) in [
        ("cluster_joining", "1 until this node has joined.", u64::from(!view.joined)),
        ("cluster_founded", "1 if this node founded a cluster.", stats.founded),
        ("cluster_links_out", "Open links this node dialled.", stats.links_out),
        ("cluster_links_in", "Open links that other nodes dialled.", stats.links_in),
        ("cluster_peers_undialled", "Members that are up but not dialled.", stats.peers_undialled),
        ("cluster_waiting_keys", "Keys far from their limit, not sent yet.", stats.waiting_keys),
        ("cluster_capped_keys", "Keys to be sent that wait for the byte cap.", stats.capped_keys),
        ("cluster_pending_keys", "Keys kept for peers that are behind.", stats.pending_keys),
    ] {
        gauge(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    encode_gossip_counters(encoder, stats)
}

fn encode_gossip_counters(
    encoder: &mut DescriptorEncoder,
    stats: &Stats,
) -> Result<(), std::fmt::Error> {
    for (name, help, value) in [
        ("cluster_deltas_recorded", "Deltas taken from the limiters.", stats.deltas_recorded),
        ("cluster_deltas_applied", "Deltas of other nodes applied.", stats.deltas_applied),
        ("cluster_deltas_late", "Deltas reduced as they came late.", stats.deltas_late),
        ("cluster_debts_refused", "Deltas reduced as no node owes so much.", stats.debts_refused),
        ("cluster_levels_sent", "Debts sent of keys deep in debt.", stats.levels_sent),
        ("cluster_levels_compared", "Debts of others compared.", stats.levels_compared),
        ("cluster_deltas_unknown", "Deltas of limits unknown here.", stats.deltas_unknown),
        (
            "cluster_unknown_dropped",
            "Of these, dropped because there was no room.",
            stats.unknown_dropped,
        ),
        ("cluster_deltas_dropped", "Deltas dropped as too many were unsent.", stats.deltas_dropped),
        ("cluster_peers_given_up", "Peers too far behind to be kept for.", stats.peers_given_up),
        (
            "cluster_records_dropped",
            "Admissions not sent as too many were unsent.",
            stats.records_dropped,
        ),
        ("cluster_frames_sent", "Frames sent.", stats.frames_sent),
        ("cluster_frames_resent", "Frames sent after a reconnect too.", stats.frames_resent),
        ("cluster_acks_sent", "Acknowledgements sent.", stats.acks_sent),
        ("cluster_deltas_covered", "Not sent: the refill covers them.", stats.deltas_covered),
        ("cluster_deltas_capped", "Deltas that waited for the byte cap.", stats.deltas_capped),
        ("cluster_frames_received", "Frames applied.", stats.frames_received),
        ("cluster_frames_repeated", "Frames received again.", stats.frames_repeated),
        ("cluster_parts_received", "Parts of backlogs applied.", stats.parts_received),
        ("cluster_states_received", "States taken over.", stats.states_received),
        ("cluster_states_served", "States given to others.", stats.states_served),
        ("cluster_states_truncated", "States that ended early.", stats.states_truncated),
        ("cluster_states_inexact", "States that count some changes twice.", stats.states_inexact),
        ("cluster_gaps", "States requested as a log did not reach back.", stats.gaps),
        ("cluster_dials_failed", "Dials that failed.", stats.dials_failed),
        (
            "cluster_handshakes_rejected",
            "Incoming handshakes that failed, as with another secret.",
            stats.handshakes_rejected,
        ),
        (
            "cluster_handshakes_retried",
            "Incoming connections that had to validate their address first.",
            stats.handshakes_retried,
        ),
        (
            "cluster_records_shared",
            "Admissions recorded in maps that threads share.",
            stats.records_shared,
        ),
        ("cluster_links_refused", "Incoming links beyond the bound.", stats.links_refused),
        ("cluster_members_forgotten", "Members forgotten early.", stats.members_forgotten),
        ("cluster_members_refused", "Members beyond the bound.", stats.members_refused),
        ("cluster_hash_keys", "Keys to hash by taken over from others.", stats.hash_keys),
        (
            "cluster_member_claims_refused",
            "Mentions of a member as another than it says itself.",
            stats.member_claims_refused,
        ),
        ("cluster_violations", "Links closed for breaking the protocol.", stats.violations),
    ] {
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(counter)?;
    }
    Ok(())
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
