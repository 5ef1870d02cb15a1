//! The Rust of docs/cluster.md, and of the README on clusters, which is compiled only: it needs a
//! network of its own.

#[expect(dead_code, reason = "compiled only")]
#[rustfmt::skip]
mod example {
    use std::sync::Arc;
    use tidegate_cluster::{Cluster, Config, GossipLimiter, Secret};
    use tidegate_engine::Quota;

    async fn start() -> Result<Arc<GossipLimiter>, Box<dyn std::error::Error>> {
        let secret = Secret::from_file("/etc/tidegate/secret".as_ref())?;
        let mut config = Config::new("10.0.0.1:7381".parse()?, secret);
        // Every node is given the same list.
        config.join = vec!["10.0.0.1:7381".parse()?, "10.0.0.2:7381".parse()?];
        let cluster = Cluster::start(config).await?;
        let limit = cluster.limit("api", Quota::per_second(100))?;
        cluster.joined().await; // until then it does not know what the others have admitted
        Ok(limit)
    }

    fn serve(limit: &GossipLimiter) {
        let decision = limit.check("user:42"); // decides here; other nodes receive the charge
        println!("{decision}");
    }
}

#[expect(dead_code, reason = "compiled only")]
#[rustfmt::skip]
mod readme {
    use tidegate_cluster::{Cluster, Config};
    use tidegate_engine::{Decision, Quota};

    async fn start(config: Config) -> Result<Decision, Box<dyn std::error::Error>> {
        let cluster = Cluster::start(config).await?;
        let api = cluster.limit("api", Quota::per_second(100))?; // a `Limiter`, with all that it can do
        let decision = api.check("user:42"); // decided here; other nodes receive the charge
        Ok(decision)
    }
}
