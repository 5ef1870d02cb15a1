//! A service behind the layer, and requests to it.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{HeaderName, HeaderValue, Request, Response};
use tidegate_engine::tower::{KeyExtractor, RateLimit, RateLimitLayer, RequestLimit};
use tidegate_engine::{Limiter, ManualClock, Quota};
use tower_layer::Layer as _;
use tower_service::Service;

/// Answers with an empty 200. By the contract of services only an instance that was polled ready
/// may be called, and a clone was not.
#[derive(Debug, Default)]
pub struct Behind {
    ready: bool,
    pub calls: Rc<Cell<u32>>,
}

impl Clone for Behind {
    fn clone(&self) -> Self {
        Self { ready: false, calls: Rc::clone(&self.calls) }
    }
}

impl Service<Request<()>> for Behind {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been polled ready");
        self.calls.set(self.calls.get() + 1);
        ready(Ok(Response::new(())))
    }
}

pub fn limiter(quota: Quota) -> Arc<Limiter<Quota, ManualClock>> {
    let builder = Limiter::builder(quota).capacity(1_000).clock(ManualClock::new());
    Arc::new(builder.build().unwrap())
}

pub fn limit(quota: Quota, key: impl KeyExtractor) -> RequestLimit {
    RequestLimit::new("default", limiter(quota), key)
}

pub fn service(limit: RequestLimit) -> RateLimit<Behind> {
    RateLimitLayer::new(limit).layer(Behind::default())
}

pub fn ask<S, B>(service: &mut S, request: Request<()>) -> Response<B>
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
{
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(service.poll_ready(&mut context), Poll::Ready(Ok(()))));
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(response)) => response,
        Poll::Pending => panic!("no service here waits"),
    }
}

pub fn request(headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::new(());
    for (name, value) in headers {
        let name = HeaderName::try_from(*name).unwrap();
        request.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
    }
    request
}

/// The values of a header field.
pub fn fields<'a, B>(response: &'a Response<B>, name: &str) -> Vec<&'a str> {
    response.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}
