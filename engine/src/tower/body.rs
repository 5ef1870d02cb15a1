//! The body of a response: that of the service, or a line of text.

use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response of a service behind a limit, with the default answer: that of the
    /// service, of type `B`, or one line of text.
    ///
    /// It is a [`Body`] where `B` is one whose data are [`Bytes`], as those of axum, tonic and
    /// hyper. It adds nothing to the service's: frames, trailers and size are passed on.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        source: BodySource<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = BodySourceProjection]
    enum BodySource<B> {
        Inner {
            #[pin]
            body: B,
        },
        // Empty once it was sent.
        Line { line: Bytes },
    }
}

impl<B> ResponseBody<B> {
    pub(super) fn line(line: String) -> Self {
        Self { source: BodySource::Line { line: line.into() } }
    }

    pub(super) fn empty() -> Self {
        Self { source: BodySource::Line { line: Bytes::new() } }
    }
}

/// The body of the service.
impl<B> From<B> for ResponseBody<B> {
    fn from(body: B) -> Self {
        Self { source: BodySource::Inner { body } }
    }
}

/// The default body of the service.
impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::from(B::default())
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().source.project() {
            BodySourceProjection::Inner { body } => body.poll_frame(context),
            BodySourceProjection::Line { line } if line.is_empty() => Poll::Ready(None),
            BodySourceProjection::Line { line } => {
                Poll::Ready(Some(Ok(Frame::data(core::mem::take(line)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Inner { body } => body.is_end_stream(),
            BodySource::Line { line } => line.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Inner { body } => body.size_hint(),
            BodySource::Line { line } => SizeHint::with_exact(line.len() as u64),
        }
    }
}
