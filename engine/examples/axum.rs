//! An axum server behind two limits: one for each client address, one for each API key.
//!
//! Run it with `cargo run -p tidegate-tests --example axum` and ask it a few times:
//!
//! ```text
//! curl -i -H 'X-Api-Key: mine' http://127.0.0.1:3000/
//! ```
//!
//! Of four requests at once the fourth gets a 429; after 20 s one more is admitted. It serves until
//! Ctrl-C, on port 3000 or the address given as its argument.

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tidegate_engine::tower::{Denial, RateLimitLayer, RequestLimit, keys};
use tidegate_engine::{Limiter, Quota};

const LISTEN: &str = "127.0.0.1:3000";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = keys::peer_address(|extensions| {
        extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
    });
    let per_address = Limiter::builder(Quota::per_second(50)).build()?;
    let per_key = Limiter::builder(Quota::per_minute(3)).build()?;

    // A request is admitted if both limits admit it, and charged to neither otherwise.
    let layer = RateLimitLayer::all([
        RequestLimit::new("per-address", per_address, address),
        RequestLimit::new("per-key", per_key, keys::api_key()),
    ]);
    let router = Router::new().route("/", get(async || "hello\n")).layer(layer.answer(in_json));

    let listen = std::env::args().nth(1);
    let listener = tokio::net::TcpListener::bind(listen.as_deref().unwrap_or(LISTEN)).await?;
    println!("curl -i -H 'X-Api-Key: mine' http://{}/", listener.local_addr()?);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

/// The default status, with the reason as JSON body.
fn in_json(denial: &Denial<'_>) -> axum::response::Response {
    let body = match denial.retry_after() {
        Some(wait) => {
            format!("{{\"error\":\"{denial}\",\"retry_after\":{:.3}}}\n", wait.as_secs_f64())
        }
        None => format!("{{\"error\":\"{denial}\"}}\n"),
    };
    let mut response = denial.response::<Body>().map(|_| body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
