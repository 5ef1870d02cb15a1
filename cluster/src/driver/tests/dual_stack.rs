//! A socket of both families, to which IPv4 addresses are IPv6 ones.

use std::sync::Arc;

use quinn::Endpoint;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::accepting::Accepting;
use super::super::handshakes::{Admission, HandshakePlace, Handshakes};
use super::super::keys::Keys;
use super::super::shared::Shared;
use super::super::tls::SERVER_NAME;
use super::{addr, by_secret, secret};

/// All places but those that are kept for known nodes.
fn take_as_strangers(handshakes: &Handshakes) -> Vec<HandshakePlace> {
    let place = || match handshakes.admit([192, 0, 2, 1].into(), true, |_| false) {
        Admission::Place(place) => Some(place),
        Admission::Retry | Admission::Refuse => None,
    };
    std::iter::from_fn(place).collect()
}

#[tokio::test]
async fn a_seed_that_dials_by_ipv4_is_known_to_a_socket_of_both_families() {
    let (server, client) = by_secret(&secret("0123456789abcdef"));
    // A machine may be without IPv6.
    let Ok(endpoint) = Endpoint::server(server, "[::]:0".parse().unwrap()) else { return };
    let port = endpoint.local_addr().unwrap().port();
    let dialling = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let dial = dialling.connect_with(client, ([127, 0, 0, 1], port).into(), SERVER_NAME);
    let _dial = dial.unwrap();
    // It comes back with an address that is validated.
    endpoint.accept().await.unwrap().retry().unwrap();
    let incoming = endpoint.accept().await.unwrap();
    assert!(incoming.remote_address().is_ipv6() && incoming.remote_address_validated());

    let shared = Arc::new(Shared::new(addr(), Keys::new([0; 16]), Instant::now()));
    let cluster = "test".parse().unwrap();
    let accepting = Accepting { cluster, shared: Arc::clone(&shared), events: mpsc::channel(1).0 };
    let handshakes = Handshakes::default();
    let _strangers = take_as_strangers(&handshakes);
    assert!(matches!(accepting.admit(&handshakes, &incoming), Admission::Refuse));
    shared.set_seeds(&["127.0.0.1:7381".parse().unwrap()]);
    assert!(matches!(accepting.admit(&handshakes, &incoming), Admission::Place(_)));
}
