use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_cluster::Steps;

use super::{encode_expiry, encode_steps};

struct Encoded<F>(F);

impl<F> fmt::Debug for Encoded<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encoded(..)")
    }
}

impl<F> Collector for Encoded<F>
where
    F: Fn(&mut DescriptorEncoder) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.0(&mut encoder)
    }
}

/// What Prometheus is given.
fn text(of: impl Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync + 'static) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Encoded(of)));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

#[test]
fn steps_are_a_histogram_whose_buckets_add_up() {
    let mut steps = Steps::default();
    steps.counts[0] = 3;
    steps.counts[4] = 2;
    *steps.counts.last_mut().unwrap() = 1;
    (steps.total, steps.above_budget) = (Duration::from_millis(250), 1);
    let text = text(move |encoder| encode_steps(encoder, &steps));
    for line in [
        "cluster_step_seconds_sum 0.25",
        "cluster_step_seconds_count 6",
        "cluster_step_seconds_bucket{le=\"0.001\"} 5",
        "cluster_step_seconds_bucket{le=\"0.1\"} 5",
        "cluster_step_seconds_bucket{le=\"+Inf\"} 6",
        "cluster_steps_above_budget_total 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
    }
}

#[test]
fn the_end_of_a_certificate_is_a_time() {
    let at = UNIX_EPOCH + Duration::from_secs(4_070_908_801);
    let ends = text(move |encoder| encode_expiry(encoder, Some(at)));
    let line = "cluster_certificate_expiry_timestamp_seconds 4070908801";
    assert!(ends.lines().any(|known| known == line), "{ends}");
    let lasts = text(|encoder| encode_expiry(encoder, None));
    assert!(!lasts.contains("certificate"), "{lasts}");
}
