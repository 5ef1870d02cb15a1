//! The engine's layer in a real tonic server, asked over loopback by a tonic client.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_engine::tower::{Head, KeyExtractor, RateLimitLayer, RequestLimit, keys};
use tidegate_engine::{DirectLimiter, Limiter, Quota};
use tonic::service::InterceptorLayer;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Does not refill noticeably while a test runs.
fn three_an_hour() -> Arc<Limiter> {
    Arc::new(Limiter::builder(Quota::per_hour(3)).capacity(1_000).build().unwrap())
}

/// Serves the health service behind limits until the test's runtime ends.
fn serve(limits: impl IntoIterator<Item = RequestLimit>) -> SocketAddr {
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = Server::builder().layer(RateLimitLayer::all(limits)).add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}

fn peer() -> impl KeyExtractor {
    keys::peer_address(|extensions| {
        extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip())
    })
}

async fn connect(address: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

async fn ask(client: &mut HealthClient<Channel>, key: Option<&str>) -> Result<u32, Status> {
    let mut request = Request::new(HealthCheckRequest::default());
    if let Some(key) = key {
        request.metadata_mut().insert("x-api-key", key.parse().unwrap());
    }
    let response = client.check(request).await?;
    let state = response.metadata().get("ratelimit").expect("a state").to_str().unwrap();
    let left = state.strip_prefix("\"per-key\";r=").unwrap().split(';').next().unwrap();
    Ok(left.parse().unwrap())
}

#[tokio::test]
async fn a_client_sees_resource_exhausted() {
    let limit = RequestLimit::new("per-key", three_an_hour(), keys::api_key());
    let mut client = connect(serve([limit])).await;
    for left in [2, 1, 0] {
        assert_eq!(ask(&mut client, Some("a")).await.unwrap(), left);
    }
    let denied = ask(&mut client, Some("a")).await.unwrap_err();
    let metadata = |name| denied.metadata().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(metadata("ratelimit-policy"), Some(r#""per-key";q=3;w=3600"#));
    let wait: u64 = metadata("retry-after").unwrap().parse().unwrap();
    assert!((1_140..=1_200).contains(&wait), "{wait}");
    let message = format!(r#"rate limit "per-key" exceeded: retry after {wait} s"#);
    assert_eq!((denied.code(), denied.message()), (Code::ResourceExhausted, &*message));
    assert_eq!(ask(&mut client, Some("b")).await.unwrap(), 2, "another key has its own limit");
}

#[tokio::test]
async fn a_client_without_a_key_sees_invalid_argument() {
    let limit = RequestLimit::new("per-key", three_an_hour(), keys::api_key());
    let refused = ask(&mut connect(serve([limit])).await, None).await.unwrap_err();
    let expected = (Code::InvalidArgument, r#"rate limit "per-key": the request has no key"#);
    assert_eq!((refused.code(), refused.message()), expected);
}

#[tokio::test]
async fn peers_are_known_by_their_address() {
    let address = serve([RequestLimit::new("per-key", three_an_hour(), peer())]);
    for left in [2, 1, 0] {
        assert_eq!(ask(&mut connect(address).await, None).await.unwrap(), left);
    }
    let denied = ask(&mut connect(address).await, None).await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn of_several_limits_none_is_charged_when_one_denies_and_the_longest_wait_is_answered() {
    let per_key = three_an_hour();
    let per_address = Limiter::builder(Quota::per_hour(2)).capacity(1_000).build().unwrap();
    let in_all = Arc::new(DirectLimiter::new(Quota::per_day(4)).unwrap());
    let mut client = connect(serve([
        RequestLimit::new("per-key", Arc::clone(&per_key), keys::api_key()),
        RequestLimit::new("per-address", per_address, peer()),
        RequestLimit::shared("in-all", Arc::clone(&in_all)),
    ]))
    .await;
    let wait = |denied: &Status| -> u64 {
        assert_eq!(denied.code(), Code::ResourceExhausted);
        denied.metadata().get("retry-after").unwrap().to_str().unwrap().parse().unwrap()
    };

    for left in [2, 1] {
        assert_eq!(ask(&mut client, Some("a")).await.unwrap(), left);
    }
    for _ in 0..5 {
        let denied = ask(&mut client, Some("a")).await.unwrap_err();
        assert!((1_740..=1_800).contains(&wait(&denied)), "of the second limit: {denied:?}");
    }
    assert_eq!((per_key.peek("a").remaining(), in_all.peek().remaining()), (1, 2));

    in_all.charge(2);
    let denied = ask(&mut client, Some("b")).await.unwrap_err();
    assert!((21_540..=21_600).contains(&wait(&denied)), "of all together: {denied:?}");
    let state = denied.metadata().get("ratelimit").unwrap().to_str().unwrap();
    let names = state.split(", ").map(|item| item.split(';').next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), [r#""per-key""#, r#""per-address""#, r#""in-all""#]);
    assert_eq!(per_key.peek("b").remaining(), 3);
}

/// A request's quota is the plan that a layer in front has found; one that cannot be enforced is
/// the server's fault. Whatever a limit is called, the client reads it.
#[tokio::test]
async fn a_client_is_limited_by_the_plan_that_an_outer_layer_found() {
    let key = keys::custom(|head| head.extensions().get::<Quota>().map(|_| 0));
    let plan = |head: &Head<'_>| head.extensions().get().copied();
    let limit = RequestLimit::with_quotas("100% \"ours\"\n", three_an_hour(), key, plan);
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let authenticate = |mut request: Request<()>| {
        let plan = match request.metadata().get("x-plan").map(|plan| plan.to_str().unwrap()) {
            Some("small") => Quota::per_hour(1),
            Some("large") => Quota::per_minute(60).burst(7_200),
            _ => Quota::per_hour(5).burst(0),
        };
        request.extensions_mut().insert(plan);
        Ok(request)
    };
    let server = Server::builder()
        .layer(InterceptorLayer::new(authenticate))
        .layer(RateLimitLayer::new(limit))
        .add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));

    let mut client = connect(address).await;
    let mut ask = async |plan: &str| {
        let mut request = Request::new(HealthCheckRequest::default());
        request.metadata_mut().insert("x-plan", plan.parse().unwrap());
        client.check(request).await.map(|response| {
            response.metadata().get("ratelimit-policy").unwrap().to_str().unwrap().to_owned()
        })
    };
    assert_eq!(ask("small").await.unwrap(), r#""100% \"ours\"?";q=1;w=3600"#);
    let denied = ask("small").await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted);
    let wait = denied.metadata().get("retry-after").unwrap().to_str().unwrap();
    let line = format!(r#"rate limit "100% \"ours\"?" exceeded: retry after {wait} s"#);
    assert_eq!(denied.message(), line);
    assert_eq!(ask("large").await.unwrap(), r#""100% \"ours\"?";q=7200;w=7200"#, "an upgrade");
    let wrong = ask("wrong").await.unwrap_err();
    let line = r#"rate limit "100% \"ours\"?": its quota cannot be enforced"#;
    assert_eq!((wrong.code(), wrong.message()), (Code::Internal, line));
}
