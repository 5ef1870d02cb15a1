//! An axum service whose tenants have plans: read from text, and changed while it serves.
//!
//! Run it with `cargo run -p tidegate-tests --example tenants` and ask it in another terminal:
//!
//! ```text
//! curl -i -H 'X-Api-Key: acme' http://127.0.0.1:3000/
//! curl -X PUT -d '1000/h burst 50' http://127.0.0.1:3000/plans/acme
//! curl -X PUT -d '5000/s' http://127.0.0.1:3000/in-all
//! ```
//!
//! The fourth of the first gets a 429; after the second the next one is admitted, and what was used
//! before still counts. It serves until Ctrl-C, on port 3000 or the address given as its argument.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, put};
use tidegate_engine::rule::Inheritance;
use tidegate_engine::tower::{Head, RateLimitLayer, RequestLimit, keys};
use tidegate_engine::{DirectLimiter, Limiter, LiveQuota, Quota};

const LISTEN: &str = "127.0.0.1:3000";

/// In a real service a file or a database.
const PLANS: [(&str, &str); 3] =
    [("acme", "3/h"), ("globex", "1000/d burst 50"), ("initech", "blocked")];

struct Service {
    plans: RwLock<HashMap<String, Quota>>,
    per_tenant: Arc<Limiter>,
    in_all: Arc<DirectLimiter<LiveQuota>>,
}

impl Service {
    /// The plan of the tenant who asks, if there is one.
    fn plan(&self, head: &Head<'_>) -> Option<Quota> {
        let tenant = head.headers().get("x-api-key")?.to_str().ok()?;
        self.plans.read().unwrap_or_else(PoisonError::into_inner).get(tenant).copied()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut plans = HashMap::new();
    for (tenant, plan) in PLANS {
        plans.insert(tenant.to_owned(), plan.parse::<Quota>()?);
    }
    let service = Arc::new(Service {
        plans: RwLock::new(plans),
        per_tenant: Arc::new(Limiter::new(Quota::per_hour(10))?), // for those without a plan
        in_all: Arc::new(DirectLimiter::new(LiveQuota::new(Quota::per_second(1_000)))?),
    });

    // A request is admitted if both limits admit it, and charged to neither otherwise.
    let (per_tenant, in_all) = (Arc::clone(&service.per_tenant), Arc::clone(&service.in_all));
    let plans = Arc::clone(&service);
    let quota = move |head: &Head<'_>| plans.plan(head);
    let layer = RateLimitLayer::all([
        RequestLimit::with_quotas("per-tenant", per_tenant, keys::api_key(), quota),
        RequestLimit::shared("in-all", in_all),
    ]);
    let router = Router::new()
        .route("/", get(async || "hello\n"))
        .layer(layer) // limits the routes above it
        .route("/plans/{tenant}", put(set_plan)) // in a real service for operators only
        .route("/in-all", put(set_in_all))
        .with_state(service);

    let listen = std::env::args().nth(1);
    let listener = tokio::net::TcpListener::bind(listen.as_deref().unwrap_or(LISTEN)).await?;
    println!("curl -i -H 'X-Api-Key: acme' http://{}/", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

async fn set_plan(
    State(service): State<Arc<Service>>,
    Path(tenant): Path<String>,
    text: String,
) -> Result<String, (StatusCode, String)> {
    let plan: Quota = text.parse().map_err(refused)?;
    let limiter = &service.per_tenant;
    let under_plan = limiter.with_quota(&plan).map_err(refused)?; // if it can be enforced
    let mut plans = service.plans.write().unwrap_or_else(PoisonError::into_inner);
    let before = plans.insert(tenant.clone(), plan).unwrap_or(limiter.quota());

    // What was used is kept as time: 3 units of 3/h are an hour, also under another plan. So that
    // it counts as 3 units there, it is charged anew.
    let found = limiter.with_quota(&before).map_err(refused)?.peek(&tenant);
    limiter.reset(&tenant);
    let left = under_plan.charge(&tenant, found.limit().saturating_sub(found.remaining()));
    Ok(format!("{tenant}: {plan}, {} left\n", left.remaining()))
}

async fn set_in_all(
    State(service): State<Arc<Service>>,
    text: String,
) -> Result<String, (StatusCode, String)> {
    let quota = text.parse().map_err(refused)?;
    service.in_all.set_quota(quota, Inheritance::Proportional).map_err(refused)?;
    Ok(format!("in all: {quota}\n"))
}

fn refused(error: impl Error) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, format!("{error}\n"))
}
