//! The layer and the service it makes.

use core::task::{Context, Poll};
use std::sync::Arc;

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::answer::{Answer, DefaultAnswer};
use super::denial::Denial;
use super::future::ResponseFuture;
use super::verdict::RequestVerdict;
use super::{Head, RequestLimit};

/// Puts one or more [`RequestLimit`]s in front of services. Clones share it.
///
/// # Example
/// Answering in JSON:
/// ```
/// use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
/// use tidegate_engine::{Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_second(100)).build()?;
/// let layer = RateLimitLayer::new(RequestLimit::new("all", limiter, keys::constant()))
///     .answer(|denial| {
///         // Printable ASCII, so its `Debug` form is a string of JSON.
///         let body = format!(r#"{{"error":{:?}}}"#, denial.line());
///         denial.response::<()>().map(|()| body)
///     });
/// # let _ = layer;
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put in front of a service"]
pub struct RateLimitLayer<A = DefaultAnswer> {
    limits: Arc<[RequestLimit]>,
    legacy: bool,
    answer: A,
}

impl RateLimitLayer {
    /// Enforces `limit`, with the default response to what it denies.
    pub fn new(limit: RequestLimit) -> Self {
        Self::all([limit])
    }

    /// Enforces several limits at once: a request is let through if all of them admit it, and
    /// charged to none of them otherwise ([`LimitSet`](crate::LimitSet)). `Retry-After` is the
    /// longest of theirs; the denial names the limit it comes from.
    ///
    /// All keys are found before any limit is asked: where a key is refused, nothing is charged.
    /// Without limits everything is let through.
    ///
    /// Complexity: that of finding keys and costs, and for n limits that of a
    /// [`LimitSet`](crate::LimitSet) of n asks, O(n²) comparisons.
    pub fn all(limits: impl IntoIterator<Item = RequestLimit>) -> Self {
        Self { limits: limits.into_iter().collect(), legacy: false, answer: DefaultAnswer }
    }
}

impl<A> RateLimitLayer<A> {
    /// Sends `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` too: of several
    /// limits those of the one that denied, else of the one with the least remaining. The reset is
    /// in seconds from now, rounded up, as most servers send it.
    pub fn legacy_headers(self) -> Self {
        Self { legacy: true, ..self }
    }

    /// Answers denied requests with `answer`, a `Fn(&Denial<'_>) -> Response<B>`, where `B` is the
    /// body of the service's own responses, which are passed on as they are. [`Denial::response`]
    /// and [`Denial::line`] are a starting point, and [`Denial::head`] says which client was
    /// denied. The limit's header fields are added to the response; an existing `Retry-After`
    /// stays.
    pub fn answer<B, F>(self, answer: F) -> RateLimitLayer<F>
    where
        F: Fn(&Denial<'_>) -> Response<B> + Clone,
    {
        let Self { limits, legacy, answer: _ } = self;
        RateLimitLayer { limits, legacy, answer }
    }

    /// Decides on a request: the future of its response, from `inner` or of a denial.
    fn decide<B, D, F>(
        &self,
        request: Request<B>,
        inner: impl FnOnce(Request<B>) -> F,
    ) -> ResponseFuture<F, A::Body>
    where
        A: Answer<D>,
    {
        let head = Head::of(&request);
        let RequestVerdict { denial, fields } =
            RequestVerdict::of(&self.limits, &head, self.legacy);
        let Some(denial) = denial else { return ResponseFuture::inner(inner(request), fields) };
        let mut response = self.answer.answer(&denial.to(&head));
        if let Some(fields) = fields {
            fields.add_to(response.headers_mut());
        }
        ResponseFuture::answered(response)
    }
}

impl<S, A: Clone> Layer<S> for RateLimitLayer<A> {
    type Service = RateLimit<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit { inner, layer: self.clone() }
    }
}

/// A service behind a limit; made by [`RateLimitLayer`].
///
/// It is ready when the inner service is, and calls the same instance that was polled ready. A
/// denial does not use that readiness up: what the inner service has reserved for the next call,
/// such as a permit of a concurrency limit, stays reserved, so such layers belong outside this one.
/// Errors are those of the inner service.
#[derive(Clone, Debug)]
pub struct RateLimit<S, A = DefaultAnswer> {
    inner: S,
    layer: RateLimitLayer<A>,
}

impl<S, A> RateLimit<S, A> {
    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service, without the limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, A, B, D> Service<Request<B>> for RateLimit<S, A>
where
    S: Service<Request<B>, Response = Response<D>>,
    A: Answer<D>,
{
    type Response = Response<A::Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, A::Body>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { inner, layer } = self;
        layer.decide(request, |request| inner.call(request))
    }
}
