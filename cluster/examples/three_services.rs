//! Three services share one limit: 60 an hour for each user, whichever of them is asked.
//!
//! `cargo run -p tidegate-cluster --example three_services`

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Cluster, Config, GossipLimiter, Secret};
use tidegate_engine::Quota;

/// Starts the cluster's part of one service; in production each is a process of its own.
async fn service(others: &[SocketAddr]) -> Result<(Cluster, Arc<GossipLimiter>), Box<dyn Error>> {
    let secret = Secret::from_bytes(b"known to all three of them")?;
    let mut config = Config::new("127.0.0.1:0".parse()?, secret);
    config.join = others.to_vec();
    let cluster = Cluster::start(config).await?;
    let limit = cluster.limit("per-user", Quota::per_hour(60))?;
    cluster.joined().await;
    Ok((cluster, limit))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let first = service(&[]).await?;
    let others = [first.0.local_addr()];
    let services = [first, service(&others).await?, service(&others).await?];
    let mut admitted = [0; 3];
    for _ in 0..40 {
        for ((_, limit), admitted) in services.iter().zip(&mut admitted) {
            *admitted += u32::from(limit.check("user:42").is_allowed());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{} of 120 requests admitted: {admitted:?}", admitted.iter().sum::<u32>());
    Ok(())
}
