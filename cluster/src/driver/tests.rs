//! What the driver requires of QUIC and TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};

use super::tls::{SERVER_NAME, configs, impostor, transport};
use crate::protocol::MAX_PACKET_BYTES;
use crate::secret::Secret;

fn secret(text: &str) -> Secret {
    Secret::from_bytes(text.as_bytes()).unwrap()
}

fn endpoint(server: ServerConfig) -> (Endpoint, SocketAddr) {
    let endpoint = Endpoint::server(server, "127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = endpoint.local_addr().unwrap();
    (endpoint, addr)
}

/// Both ends of a connection, where the handshake succeeds.
async fn connect(
    server: ServerConfig,
    client: ClientConfig,
) -> (Option<Connection>, Option<Connection>) {
    let (accepting, addr) = endpoint(server);
    let dialling = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let dialled = dialling.connect_with(client, addr, SERVER_NAME).unwrap();
    let accepted = async { accepting.accept().await?.await.ok() };
    let (dialled, accepted) = tokio::join!(dialled, accepted);
    (dialled.ok(), accepted)
}

#[tokio::test]
async fn a_fresh_path_takes_the_largest_membership_packet() {
    let (mut server, mut client) = configs(&secret("0123456789abcdef")).unwrap();
    // Without MTU discovery the path stays as it is at its start.
    let mut transport = transport();
    transport.mtu_discovery_config(None);
    let transport = Arc::new(transport);
    server.transport_config(Arc::clone(&transport));
    client.transport_config(transport);
    let (dialled, accepted) = connect(server, client).await;
    for connection in [dialled.unwrap(), accepted.unwrap()] {
        let room = connection.max_datagram_size().unwrap();
        assert!(room >= MAX_PACKET_BYTES, "{room} bytes");
    }
}

#[tokio::test]
async fn each_side_refuses_the_other_secret() {
    let (ours, theirs) = (secret("0123456789abcdef"), secret("fedcba9876543210"));
    // The dialler detects that the node has another secret.
    let (server, _) = configs(&theirs).unwrap();
    let (_, client) = configs(&ours).unwrap();
    assert!(connect(server, client).await.0.is_none());
    // The node detects it, though the dialler would go on.
    let (server, _) = configs(&ours).unwrap();
    let (_, accepted) = connect(server, impostor(&ours, &theirs)).await;
    assert!(accepted.is_none());
}
