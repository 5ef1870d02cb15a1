//! A tonic server behind a limit, and a client that runs into it.
//!
//! Run it with `cargo run -p tidegate-tests --example tonic`; it ends by itself. The service is the
//! standard health check, whose code is already generated, so no `protoc` is needed.

use std::error::Error;

use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
use tidegate_engine::{Limiter, Quota};
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = keys::peer_address(|extensions| {
        extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip())
    });
    let limiter = Limiter::builder(Quota::per_minute(3)).build()?;
    let layer = RateLimitLayer::new(RequestLimit::new("per-address", limiter, address));

    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let server = format!("http://{}", incoming.local_addr()?);
    let (_, health) = tonic_health::server::health_reporter();
    tokio::spawn(Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming));

    let mut client = HealthClient::new(Channel::from_shared(server)?.connect().await?);
    for call in 1..=4 {
        match client.check(HealthCheckRequest::default()).await {
            Ok(answer) => println!("call {call}: {:?}", answer.metadata().get("ratelimit")),
            Err(status) => {
                println!("call {call}: {:?}: {}", status.code(), status.message());
            }
        }
    }
    Ok(())
}
