//! The bodies of requests, within bounds of size and time.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};

use super::answer::{Answer, Code, error};

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a body of at most `max` bytes.
///
/// # Errors
/// The answer to a client that sends something else.
pub async fn read(body: Incoming, max: usize) -> Result<Bytes, Answer> {
    let too_large = || {
        let problem = format!("the body is larger than {max} bytes");
        error(Code::BodyTooLarge, &problem)
    };
    if body.size_hint().lower() > max as u64 {
        return Err(too_large());
    }
    let mut reading = pin!(Limited::new(body, max).collect());
    // A body that came with its head needs no timer.
    let read = std::future::poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
    let read = match read {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => tokio::time::timeout(BODY_TIMEOUT, reading).await,
    };
    match read {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(failed)) if failed.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(error(Code::BodyIncomplete, "the body did not arrive in full")),
        Err(_) => Err(error(Code::BodyTimeout, "the body took too long to arrive")),
    }
}
