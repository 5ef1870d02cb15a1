//! Rate limits in front of a service: a [tower] layer for axum, tonic, hyper and whatever else
//! serves [`http`] requests. Needs the feature `tower`.
//!
//! A [`RequestLimit`] says who is limited ([`keys`]) and by what (a [`Limiter`](crate::Limiter), or another
//! [`Limit`](crate::Limit)); a
//! [`RateLimitLayer`] puts it in front of services. Each request is decided before the service sees
//! it, without waiting, locking or I/O. What is denied is answered with 429 and `Retry-After`, or
//! with `RESOURCE_EXHAUSTED` where gRPC is spoken, and every answer of a limit tells the client where it stands.
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
//! On every answer where a limit was asked, allowed or denied, as of draft-ietf-httpapi-ratelimit-headers-11. None is asked
//! where a request is refused for its key, nor where [`MissingKey`] denies it or lets it off.
//!
//! | field | example | meaning |
//! |---|---|---|
//! | `RateLimit-Policy` | `"per-key";q=20;w=1` | at most `q` units at once, which are granted anew within `w` seconds |
//! | `RateLimit` | `"per-key";r=7;t=1` | `r` units are left; in `t` seconds all of them are |
//! | `Retry-After` | `1` | only on denial: the same request fits in so many seconds |
//!
//! `w` is left out where all is never granted anew, or not always within the same time: under a quota that blocks or limits
//! nothing, a calendar month, a limit with a warm-up.
//!
//! Seconds are rounded up, so whoever waits as long as told is admitted unless others came first.
//! There is no `Retry-After` where the cost can never fit. There is one item for each
//! limit, also of layers behind each other. [`RateLimitLayer::legacy_headers`] adds the older `X-RateLimit-*`.
//!
//! # Several limits
//! [`RateLimitLayer::all`] asks several limits at once and charges all of them or none. Layers behind each
//! other do not: a request that passes one and is denied by the next has been charged by the first, which is
//! right where the first is to hold floods off the second.
//!
//! [tower]: https://docs.rs/tower-service

mod answer;
mod fields;
mod future;
mod head;
mod into_limit;
mod key;
mod layer;
mod limit;
mod verdict;

pub use answer::{Answer, DefaultAnswer, Denial, Reason};
pub use future::ResponseFuture;
pub use head::Head;
pub use into_limit::IntoLimit;
pub use key::{KeyError, KeyExtractor};
pub use layer::{RateLimit, RateLimitLayer};
pub use limit::{MissingKey, RequestLimit};

/// Who is limited: the ways to find a request's key.
pub mod keys {
    pub use super::key::{
        Address, Bearer, Constant, Custom, DEFAULT_MAX_KEY_BYTES, ForwardedFor, Header,
        MAX_TRUSTED_HOPS, MethodAndPath, Path, PeerAddress, TrustedHopsError, address, api_key,
        bearer, constant, custom, forwarded_for, header, method_and_path, path, peer_address,
    };
}
