use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_cluster::Steps;

use super::encode_steps;

#[derive(Debug)]
struct Some(Steps);

impl Collector for Some {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        encode_steps(&mut encoder, &self.0)
    }
}

#[test]
fn steps_are_a_histogram_whose_buckets_add_up() {
    let mut steps = Steps::default();
    steps.counts[0] = 3;
    steps.counts[4] = 2;
    *steps.counts.last_mut().unwrap() = 1;
    (steps.total, steps.above_budget) = (Duration::from_millis(250), 1);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Some(steps)));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
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
