//! The future of a response.

use core::pin::Pin;
use core::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::fields::Fields;

pin_project! {
    /// The response of the service behind a limit, or the denial, with a body of type `B`, into
    /// which that of the service is turned. The request was decided on and
    /// charged before this is made; dropping it gives nothing back.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, B> {
        #[pin]
        source: ResponseSource<F, B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = ResponseSourceProjection]
    enum ResponseSource<F, B> {
        Inner {
            #[pin]
            future: F,
            fields: Option<Fields>,
        },
        // `None` once it has been taken.
        Answered { response: Option<Response<B>> },
    }
}

impl<F, B> ResponseFuture<F, B> {
    pub(super) fn inner(future: F, fields: Option<Fields>) -> Self {
        Self { source: ResponseSource::Inner { future, fields } }
    }

    pub(super) fn answered(response: Response<B>) -> Self {
        Self { source: ResponseSource::Answered { response: Some(response) } }
    }
}

impl<F, B, D, E> Future for ResponseFuture<F, B>
where
    F: Future<Output = Result<Response<D>, E>>,
    B: From<D>,
{
    type Output = Result<Response<B>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().source.project() {
            ResponseSourceProjection::Inner { future, fields } => {
                let mut response = ready!(future.poll(context))?;
                if let Some(fields) = fields.take() {
                    fields.add_to(response.headers_mut());
                }
                Poll::Ready(Ok(response.map(B::from)))
            }
            // A poll after the end is pending for ever.
            ResponseSourceProjection::Answered { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
        }
    }
}
