//! Clients that do not read.

use std::sync::Arc;

use tidegate_engine::KeyHasher;
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{FrontEnd, Gate, HttpFrontEnd};
use crate::config::bounds::{HttpBounds, MAX_UNSENT_BYTES};
use crate::config::file::LimitConfig;
use crate::front::budget::Budget;
use crate::front::linger::LINGER;
use crate::front::unsent::tests::WRITE_TIMEOUT;
use crate::front::unsent::{self, Unsent};
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::service::Service;
use crate::service::readiness::Readiness;
use crate::telemetry::meter::FrontEndName;

/// Time is paused: it advances as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_client_of_http_that_does_not_read_keeps_no_drain() {
    let hasher = KeyHasher::siphash([7; 16]);
    let limiters = Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &hasher).unwrap();
    let service = Arc::new(Service::new(limiters, Gossip::alone()));
    let metrics = service.metrics().connections(FrontEndName::Http).clone();
    let (readiness, gate) = (Arc::new(Readiness::new()), Gate::default());
    let front_end = HttpFrontEnd::new(service, readiness, gate, HttpBounds::default());
    let (mut client, accepted) = unsent::tests::pair().await;
    let drain = CancellationToken::new();
    let budget = Arc::new(Budget::new(MAX_UNSENT_BYTES));
    let unsent = Unsent::new(budget, WRITE_TIMEOUT, metrics).until(drain.clone());
    let serving = tokio::spawn(front_end.serve(accepted, unsent, drain.clone()));
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(&request.repeat(500)).await.unwrap();
    sleep(WRITE_TIMEOUT / 3).await;
    assert!(!serving.is_finished());
    drain.cancel();
    timeout(2 * LINGER, serving).await.expect("an end").unwrap();
}
