//! Rate limits in front of a service: a [tower] layer for axum, tonic, hyper and anything else that
//! serves [`http`] requests. Needs the feature `tower`.
//!
//! A [`RequestLimit`] combines a key ([`keys`]) with a limit (a [`Limiter`](crate::Limiter), or
//! another [`Limit`](crate::Limit)); a [`RateLimitLayer`] puts it in front of services. Each
//! request is decided before the service sees it, without waiting, locking or I/O. Denials are
//! answered with 429, `Retry-After` and a line that says why, or with `RESOURCE_EXHAUSTED` in gRPC,
//! and every response carries the state of the limit.
//!
//! ```
//! use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
//! use tidegate_engine::{Limiter, Quota};
//!
//! let limiter = Limiter::builder(Quota::per_second(100).burst(20)).build()?;
//! let limit = RequestLimit::new("per-key", limiter, keys::api_key());
//! let layer = RateLimitLayer::new(limit);
//! // axum::Router::new().route("/", get(hello)).layer(layer)
//! // tonic::transport::Server::builder().layer(layer).add_service(greeter)
//! # Ok::<(), tidegate_engine::BuildError>(())
//! ```
//!
//! # Header fields
//! On every response where a limit was asked, allowed or denied, as of
//! draft-ietf-httpapi-ratelimit-headers-11. No limit is asked where a request is refused for its
//! key or its quota, or where [`MissingKey`] denies or allows it. A [`Shadow`](crate::Shadow) has
//! none.
//!
//! | field | example | meaning |
//! |---|---|---|
//! | `RateLimit-Policy` | `"per-key";q=20;w=1` | at most `q` units at once, which are granted again within `w` seconds |
//! | `RateLimit` | `"per-key";r=7;t=1` | `r` units are left; in `t` seconds all of them are |
//! | `Retry-After` | `1` | only on denial: the same request fits in this many seconds |
//!
//! `w` is omitted where the units are never granted again, or not always within the same time:
//! under a quota that is blocked or unlimited, a calendar month, a limit with a warm-up.
//!
//! Seconds are rounded up, so a client that waits that long is admitted unless other requests came
//! first. There is no `Retry-After` where the cost can never fit. There is one item for each limit,
//! also with nested layers. [`RateLimitLayer::legacy_headers`] adds the older `X-RateLimit-*`.
//!
//! # The line
//! A refusal says why in one line of `text/plain`, in gRPC as the message of its status:
//! ```text
//! rate limit "per-key" exceeded: retry after 3 s
//! rate limit "per-key" exceeded: waiting does not help
//! rate limit "per-key": the request has no key
//! ```
//! So the bodies of responses are [`ResponseBody`]s of the service's. With an
//! [answer](RateLimitLayer::answer) of one's own they stay what they are.
//!
//! # Several limits
//! [`RateLimitLayer::all`] asks several limits at once and charges all of them or none. Nested
//! layers do not: a request that passes one and is denied by the next has been charged by the
//! first, which is right where the first protects the second from floods.
//!
//! [tower]: https://docs.rs/tower-service

mod answer;
mod body;
mod denial;
mod fields;
mod future;
mod head;
mod into_limit;
mod into_quota_limit;
mod key;
mod layer;
mod limit;
mod verdict;

pub use answer::{Answer, DefaultAnswer};
pub use body::ResponseBody;
pub use denial::{Denial, Reason};
pub use future::ResponseFuture;
pub use head::Head;
pub use into_limit::IntoLimit;
pub use into_quota_limit::{IntoQuotaLimit, QuotaLimit};
pub use key::{KeyError, KeyExtractor};
pub use layer::{RateLimit, RateLimitLayer};
pub use limit::{MissingKey, RequestLimit};

/// Extractors of a request's key.
pub mod keys {
    pub use super::key::{
        Address, Bearer, Constant, Custom, DEFAULT_MAX_KEY_BYTES, ForwardedFor, Header,
        MAX_TRUSTED_HOPS, MethodAndPath, Path, PeerAddress, TrustedHopsError, address, api_key,
        bearer, constant, custom, forwarded_for, header, method_and_path, path, peer_address,
    };
}
