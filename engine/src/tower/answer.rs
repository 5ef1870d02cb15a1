//! Answers to requests that are not let through.

use http::Response;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};

use super::body::ResponseBody;
use super::denial::Denial;

/// Answers requests that are not let through, in front of a service whose bodies are of type `B`:
/// [`DefaultAnswer`], or a closure given to
/// [`RateLimitLayer::answer`](super::RateLimitLayer::answer).
pub trait Answer<B>: Clone + sealed::Sealed<B> {
    /// The body of all responses, into which the service's bodies are turned.
    type Body: From<B>;

    /// The response, without the limit's header fields.
    #[doc(hidden)]
    fn answer(&self, denial: &Denial<'_>) -> Response<Self::Body>;
}

mod sealed {
    pub trait Sealed<B> {}
    impl<B> Sealed<B> for super::DefaultAnswer {}
    impl<B, F: Fn(&super::Denial<'_>) -> http::Response<B>> Sealed<B> for F {}
}

/// [`Denial::response`] with [`Denial::line`] as its body, `text/plain; charset=utf-8`. In gRPC the
/// line is in `grpc-message` alone. To a HEAD request there is no body, only its type and length.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultAnswer;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl<B> Answer<B> for DefaultAnswer {
    type Body = ResponseBody<B>;

    fn answer(&self, denial: &Denial<'_>) -> Response<ResponseBody<B>> {
        let mut response = denial.response::<()>();
        if denial.is_grpc() {
            return response.map(|()| ResponseBody::empty());
        }
        let line = denial.line();
        response.headers_mut().insert(CONTENT_TYPE, TEXT);
        if denial.is_to_head() {
            // Servers know the length of a body that is sent, and not of one that is left out.
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(line.len()));
            return response.map(|()| ResponseBody::empty());
        }
        response.map(|()| ResponseBody::line(line))
    }
}

/// The service's own type of bodies.
impl<B, F: Fn(&Denial<'_>) -> Response<B> + Clone> Answer<B> for F {
    type Body = B;

    fn answer(&self, denial: &Denial<'_>) -> Response<B> {
        self(denial)
    }
}
