use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::KeyHasher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::{FrontEnd, Gate, HttpFrontEnd};
use crate::bounds::{HttpBounds, MAX_UNSENT_BYTES};
use crate::budget::{Budget, Share};
use crate::config::LimitConfig;
use crate::gossip::Gossip;
use crate::limiters::Limiters;
use crate::meter::FrontEndName;
use crate::metrics::ConnectionMetrics;
use crate::readiness::Readiness;
use crate::service::Service;
use crate::unsent::tests::WRITE_TIMEOUT;
use crate::unsent::{self, Unsent};

/// Asks for more than the systems of both ends hold of answers, and reads none of them, until the
/// task that serves it has ended.
async fn deaf(unsent: &Arc<Budget>) -> ConnectionMetrics {
    let limiters =
        Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &KeyHasher::siphash([7; 16]));
    let service = Arc::new(Service::new(limiters.unwrap(), Gossip::alone()));
    let metrics = service.metrics().connections(FrontEndName::Http).clone();
    let readiness = Arc::new(Readiness::new());
    let front_end = HttpFrontEnd::new(service, readiness, Gate::default(), HttpBounds::default());
    let (mut client, accepted) = unsent::tests::pair().await;
    let unsent = Unsent::new(Arc::clone(unsent), WRITE_TIMEOUT, metrics.clone());
    let serving = front_end.serve(accepted, unsent, CancellationToken::new());
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(&request.repeat(500)).await.unwrap();
    tokio::time::timeout(Duration::from_hours(1), serving).await.expect("an end");
    let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    metrics
}

/// Time is paused: it advances as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_cut_off() {
    let unsent = Arc::new(Budget::new(MAX_UNSENT_BYTES));
    let metrics = deaf(&unsent).await;
    assert_eq!(metrics.closed_write_timeout.get(), 1);
    assert_eq!(metrics.closed_no_room.get(), 0);
    assert!(Share::new(unsent).resize(MAX_UNSENT_BYTES), "it still holds something");
}

#[tokio::test(start_paused = true)]
async fn unsent_answers_are_bounded() {
    let metrics = deaf(&Arc::new(Budget::new(100))).await;
    assert_eq!(metrics.closed_write_timeout.get(), 0);
    assert_eq!(metrics.closed_no_room.get(), 1);
}
