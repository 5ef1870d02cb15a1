//! The Rust of docs/cluster.md, which is compiled only: it needs a network of its own.

#[expect(dead_code, reason = "compiled only")]
#[rustfmt::skip]
mod example {
    use std::sync::Arc;
    use tidegate_cluster::{Cluster, Config, GossipLimit, LimitId, Limits, Secret};
    use tidegate_engine::{Limiter, Quota};

    async fn start() -> Result<GossipLimit, Box<dyn std::error::Error>> {
        let secret = Secret::from_file("/etc/tidegate/secret".as_ref())?;
        let limiter = Limiter::builder(Quota::per_minute(100)).build()?;
        let limiter = Arc::new(limiter);

        let id = LimitId::named("default");
        let mut limits = Limits::new();
        limits.add(id, Arc::clone(&limiter));
        let mut config = Config::new("10.0.0.1:7381".parse()?, secret);
        config.join = vec!["10.0.0.2:7381".parse()?];
        let cluster = Cluster::start(config, limits).await?;
        Ok(GossipLimit::new(id, limiter, cluster))
    }

    fn serve(limit: &GossipLimit) {
        let decision = limit.check("user:42"); // decides, and records what was admitted
        println!("{decision}");
    }
}
