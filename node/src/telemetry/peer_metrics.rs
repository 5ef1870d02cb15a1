//! Metrics of the cluster that are no counter of the protocol: of each peer, of steps, and of this
//! node's certificate.
//!
//! A node has at most 256 peers, and one series a peer and metric; the label is the peer's address.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::limits::gossip::{PeerStats, Stats, Steps, link_number};

type Reading<T> = fn(&PeerStats) -> Option<T>;

/// What is known of each peer.
pub fn encode_peers(
    encoder: &mut DescriptorEncoder,
    peers: &[PeerStats],
) -> Result<(), std::fmt::Error> {
    let gauges: [(&str, &str, Reading<f64>); 5] = [
        (
            "cluster_peer_link",
            "The link to this peer: 0 waits, 1 is dialled, 2 is open, 3 carries frames.",
            |peer| Some(link_number(peer.link)),
        ),
        (
            "cluster_peer_staleness_seconds",
            "The age of what was last received from this peer, by its clock.",
            |peer| Some(peer.staleness?.as_secs_f64()),
        ),
        ("cluster_peer_unacked_batches", "Batches that this peer has not acknowledged.", |peer| {
            Some(peer.unacked_batches as f64)
        }),
        ("cluster_peer_unacked_debt_seconds", "The debt in them, as it was consumed.", |peer| {
            Some(peer.unacked_debt.as_secs_f64())
        }),
        ("cluster_peer_unacked_age_seconds", "The age of the oldest of them.", |peer| {
            Some(peer.unacked_for.as_secs_f64())
        }),
    ];
    for (name, help, read) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for peer in peers {
            if let Some(value) = read(peer) {
                let labels = [("peer", peer.addr.to_string())];
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    let counters: [(&str, &str, Reading<u64>); 6] = [
        ("cluster_peer_frames_sent", "Frames sent to this peer.", |peer| Some(peer.frames_sent)),
        ("cluster_peer_frames_resent", "Of these, frames sent again.", |peer| {
            Some(peer.frames_resent)
        }),
        ("cluster_peer_frames_received", "Frames of this peer applied.", |peer| {
            Some(peer.frames_received)
        }),
        ("cluster_peer_bytes_sent", "Bytes of messages sent to this peer.", |peer| {
            Some(peer.bytes_sent)
        }),
        ("cluster_peer_bytes_received", "Bytes of messages of this peer.", |peer| {
            Some(peer.bytes_received)
        }),
        ("cluster_peer_gaps", "Times this peer's log did not reach back.", |peer| Some(peer.gaps)),
    ];
    for (name, help, read) in counters {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for peer in peers {
            if let Some(value) = read(peer) {
                let labels = [("peer", peer.addr.to_string())];
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}

/// What has passed on all links, and whether there is any.
pub fn encode_links(encoder: &mut DescriptorEncoder, stats: &Stats) -> Result<(), std::fmt::Error> {
    let help = "1 while this node has no link to a node that it knows, or whose seed is not found.";
    let alone = encoder.encode_descriptor("cluster_alone", help, None, MetricType::Gauge)?;
    ConstGauge::new(i64::from(stats.is_alone)).encode(alone)?;
    let (name, help) = ("cluster_unlinked", "Members alive without a link, to or from them.");
    let unlinked = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(i64::try_from(stats.unlinked).unwrap_or(i64::MAX)).encode(unlinked)?;
    let (name, help) = ("cluster_run_delay_seconds", "The longest scheduling delay in 10 to 20 s.");
    let delay = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(stats.run_delay.as_secs_f64()).encode(delay)?;
    let (name, help) = ("cluster_alone_seconds", "Time in which this node decided alone.");
    let alone = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(stats.alone_for.as_secs_f64()).encode(alone)?;
    let (name, help) = ("cluster_stale_seconds", "Time in which clients waited for that.");
    let stale = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(stats.stale_for.as_secs_f64()).encode(stale)?;
    let (name, help) =
        ("cluster_capped_seconds", "Time in which something waited for the byte cap.");
    let capped = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(stats.capped_for.as_secs_f64()).encode(capped)?;
    for (name, help, value) in [
        (
            "cluster_stale",
            "Times this node was stopped or starved, and caught up before it decided.",
            stats.stale,
        ),
        (
            "cluster_stale_not_caught_up",
            "Of these, times after which it decided and had not caught up with all of them.",
            stats.stale_not_caught_up,
        ),
        ("cluster_bytes_sent", "Bytes of messages and datagrams sent.", stats.bytes_sent),
        ("cluster_bytes_received", "Bytes of both received.", stats.bytes_received),
    ] {
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(counter)?;
    }
    Ok(())
}

/// When this node's certificate ends; nothing where it does not.
pub fn encode_expiry(
    encoder: &mut DescriptorEncoder,
    expiry: Option<SystemTime>,
) -> Result<(), std::fmt::Error> {
    let since = expiry.and_then(|expiry| expiry.duration_since(UNIX_EPOCH).ok());
    let Some(since) = since else { return Ok(()) };
    let name = "cluster_certificate_expiry_timestamp_seconds";
    let help = "Until when other nodes accept this node's certificate, in Unix time.";
    let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(i64::try_from(since.as_secs()).unwrap_or(i64::MAX)).encode(gauge)
}

/// How long steps of the cluster's task take.
pub fn encode_steps(encoder: &mut DescriptorEncoder, steps: &Steps) -> Result<(), std::fmt::Error> {
    let help = "How long steps of the cluster's task took.";
    let name = "cluster_step_seconds";
    let mut histogram = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let bounds = Steps::BOUNDS.iter().map(std::time::Duration::as_secs_f64);
    let buckets: Vec<_> = bounds.chain([f64::INFINITY]).zip(steps.counts).collect();
    let count = steps.counts.iter().sum();
    histogram.encode_histogram::<NoLabelSet>(steps.total.as_secs_f64(), count, &buckets, None)?;
    let help = "The longest step of the last one to two minutes.";
    let name = "cluster_step_longest_seconds";
    let longest = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(steps.longest.as_secs_f64()).encode(longest)?;
    let help = "Steps that took more than 5 ms.";
    let name = "cluster_steps_above_budget";
    let above = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(steps.above_budget).encode(above)
}

#[cfg(test)]
#[path = "peer_metrics_tests.rs"]
mod tests;
