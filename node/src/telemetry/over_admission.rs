//! Metrics of what the nodes of a cluster admitted beyond each limit.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tidegate_cluster::LimitId;

use crate::config::file::INLINE;
use crate::limits::gossip::{Gossip, Limiter};

/// What was admitted beyond each named limit; of inline limits nothing is known.
pub fn encode_over_admission(
    encoder: &mut DescriptorEncoder,
    limits: &[(String, Arc<Limiter>)],
    gossip: &Gossip,
) -> Result<(), std::fmt::Error> {
    let over_of = |(name, limiter): &'_ (String, Arc<Limiter>)| {
        let over = gossip.over_admission(LimitId::named(name))?;
        let quota = limiter.quota();
        let units = share(over.total, quota.debt_of(1));
        Some((name.clone(), units, share(over.worst, quota.debt_of(quota.burst_size()))))
    };
    let named = limits.iter().filter(|(name, _)| name != INLINE);
    let over: Vec<_> = named.filter_map(over_of).collect();
    let name = "cluster_over_admitted_units";
    let help = "Units that a central limiter would have refused of what all nodes admitted.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (limit, units, _) in &over {
        let labels = [("limit", limit.as_str())];
        ConstCounter::new(*units).encode(family.encode_family(&labels)?)?;
    }
    let name = "cluster_over_admission_worst_ratio";
    let help = "The most beyond the burst in the last one to two minutes, as a share of it.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (limit, _, worst) in &over {
        let labels = [("limit", limit.as_str())];
        ConstGauge::new(*worst).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A duration in terms of another; 0 in those of none.
fn share(of: Duration, by: Duration) -> f64 {
    if by.is_zero() { 0.0 } else { of.as_secs_f64() / by.as_secs_f64() }
}
