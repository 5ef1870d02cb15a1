//! How much a link may have under way.
//!
//! Cubic, with a window that is never smaller than what a node with a few busy keys sends within
//! the idle timeout. A link that has little to send never grows a window again which losses have
//! made small, and would be out of room early in a partition. Then QUIC sends probes only, each
//! twice as late as the one before, and a link takes about as long again as the partition did to
//! recover. While there is room every flush sends a packet, and the first that arrives after a
//! partition has all others sent again.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};
use quinn_proto::RttEstimator;

/// What may be under way before anything is acknowledged, in bytes.
const INITIAL_WINDOW: u64 = 256 * 1024;
/// What may always be under way, in bytes: 13 KB a second for the idle timeout of 5 s.
const LEAST_WINDOW: u64 = 64 * 1024;

/// Makes the controllers of links.
pub(super) fn congestion() -> Arc<dyn ControllerFactory + Send + Sync> {
    let mut cubic = CubicConfig::default();
    cubic.initial_window(INITIAL_WINDOW);
    Arc::new(Floored(Arc::new(cubic)))
}

struct Floored(Arc<CubicConfig>);

impl ControllerFactory for Floored {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(AtLeast(Arc::clone(&self.0).build(now, mtu)))
    }
}

/// A controller whose window is at least [`LEAST_WINDOW`].
struct AtLeast(Box<dyn Controller>);

impl Controller for AtLeast {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.0.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.0.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.0.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.0.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.0.window().max(LEAST_WINDOW)
    }

    fn metrics(&self) -> ControllerMetrics {
        self.0.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(self.0.clone_box()))
    }

    fn initial_window(&self) -> u64 {
        self.0.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_leave_room_for_what_a_link_with_little_to_send_has_under_way() {
        let now = Instant::now();
        let mut controller = congestion().build(now, 1_200);
        assert_eq!(controller.window(), INITIAL_WINDOW);
        for _ in 0..100 {
            controller.on_congestion_event(now, now, true, 1_200);
        }
        assert_eq!(controller.window(), LEAST_WINDOW);
        assert_eq!(controller.clone_box().window(), LEAST_WINDOW);
    }
}
