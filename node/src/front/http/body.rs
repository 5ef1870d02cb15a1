//! The bodies of requests, within bounds of size, time and memory.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use tokio::time::Instant;

use super::answer::{Answer, Code, Problem, error, last};
use crate::front::budget::{Budget, Share};
use crate::front::deadline;

/// What a body that comes in parts may take in any case, in bytes: small ones are not refused
/// because others are large.
const FREE_BYTES: usize = 4 * 1024;
/// What some programs put in front of a text; a parser of JSON may ignore it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// What a body begins with that gzip has compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    TooLarge,
    NoRoom,
    Incomplete,
    /// It did not arrive in time.
    Late,
}

impl Missing {
    /// The answer to a client that may send at most `max` bytes, and whose next request would
    /// follow a body that was not read.
    pub fn answer(self, max: usize) -> Answer {
        let (code, problem) = match self {
            Self::TooLarge => {
                let problem = format!("the body is larger than {max} bytes");
                return last(error(Code::BodyTooLarge, &problem));
            }
            Self::NoRoom => (Code::NoRoom, "too many bodies are arriving"),
            Self::Incomplete => (Code::BodyIncomplete, "the body did not arrive in full"),
            Self::Late => (Code::BodyTimeout, "the body took too long to arrive"),
        };
        last(error(code, problem))
    }
}

/// A whole body.
#[derive(Debug)]
pub struct Whole {
    pub bytes: Bytes,
    /// The room that it takes, if it is counted.
    share: Option<Share>,
}

impl Whole {
    /// Counts the body in `room` until it is dropped: its check waits. False without room for it.
    pub fn count_in(&mut self, room: &Arc<Budget>) -> bool {
        let share = self.share.get_or_insert_with(|| Share::new(Arc::clone(room)));
        share.held() >= self.bytes.len() || share.resize(self.bytes.len())
    }
}

/// Reads a body of at most `max` bytes, which arrives within `time`. What comes in parts counts in
/// `room` until it is dropped.
///
/// # Errors
/// Why there is none.
pub async fn read<B>(
    mut body: B,
    max: usize,
    time: Duration,
    room: &Arc<Budget>,
) -> Result<Whole, Missing>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > max as u64 {
        return Err(Missing::TooLarge);
    }
    let first = poll_fn(|context| Poll::Ready(Pin::new(&mut body).poll_frame(context))).await;
    let first = match first {
        // It came with its head, as most do, and needs no timer and no memory.
        Poll::Ready(Some(Ok(frame))) if body.is_end_stream() => match frame.into_data() {
            Ok(data) if data.len() <= max => return Ok(Whole { bytes: data, share: None }),
            Ok(_) => return Err(Missing::TooLarge),
            Err(trailers) => Poll::Ready(Some(Ok(trailers))),
        },
        first => first,
    };
    let read = async {
        tokio::select! {
            biased;
            read = collect(body, first, max, room) => read,
            () = deadline::passed(Instant::now() + time) => Err(Missing::Late),
        }
    };
    // The future of a check is moved when it begins: others pay nothing for this part of it.
    Box::pin(read).await
}

/// Puts a body together from its first frame, which may not be there yet, and those to come.
async fn collect<B>(
    mut body: B,
    first: Poll<Option<Result<Frame<Bytes>, B::Error>>>,
    max: usize,
    room: &Arc<Budget>,
) -> Result<Whole, Missing>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut whole = Vec::new();
    let mut share = None;
    let mut next = match first {
        Poll::Ready(first) => first,
        Poll::Pending => body.frame().await,
    };
    while let Some(frame) = next {
        let frame = frame.map_err(|_| Missing::Incomplete)?;
        if let Ok(data) = frame.into_data() {
            let length = whole.len() + data.len();
            if length > max {
                return Err(Missing::TooLarge);
            }
            if whole.is_empty() && body.is_end_stream() {
                return Ok(Whole { bytes: data, share });
            }
            reserve(&mut whole, length, max);
            whole.extend_from_slice(&data);
            let share = share.get_or_insert_with(|| Share::new(Arc::clone(room)));
            if !share.resize(whole.capacity().saturating_sub(FREE_BYTES)) {
                return Err(Missing::NoRoom);
            }
        }
        next = body.frame().await;
    }
    Ok(Whole { bytes: whole.into(), share })
}

/// Reads a body that does not matter; false if it is larger than `max`, or does not arrive in full
/// within `time`.
pub async fn skip<B>(mut body: B, max: usize, time: Duration) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > max as u64 {
        return false;
    }
    let mut length = 0;
    let skipping = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            length += frame.data_ref().map_or(0, Bytes::len);
            if length > max {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(time, skipping).await.unwrap_or(false)
}

/// Makes room for `length` bytes, at most `max`: twice what there was, and no more than fits.
fn reserve(whole: &mut Vec<u8>, length: usize, max: usize) {
    if length > whole.capacity() {
        let room = (2 * whole.capacity()).min(max).max(length);
        whole.reserve_exact(room - whole.len());
    }
}

/// The text of a body, validated once, so that the texts in it need not be.
///
/// # Errors
/// When it is none.
pub fn text(body: &[u8]) -> Result<&str, Problem> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    std::str::from_utf8(body).map_err(|error| {
        if body.starts_with(&GZIP) {
            let problem = "the body is compressed by gzip: send it as it is";
            return problem.to_owned().into();
        }
        let problem = format!("expected UTF-8, but byte {} is none", error.valid_up_to());
        problem.into()
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::Full;

    use super::*;

    /// How long a body may take.
    const TIME: Duration = Duration::from_secs(10);

    /// What comes of a body of these parts, of at most 10 bytes, where there is this room.
    async fn read_of(parts: &[&'static str], room: usize) -> Result<Bytes, Missing> {
        let parts: Vec<_> = parts.iter().map(|part| Bytes::from_static(part.as_bytes())).collect();
        let room = Arc::new(Budget::new(room));
        let body = Parts(parts.into_iter());
        let read = read(body, 10, TIME, &room).await.map(|whole| whole.bytes);
        assert!(!Share::new(room).is_scarce(), "something is still held");
        read
    }

    /// A body whose length is not declared.
    struct Parts(std::vec::IntoIter<Bytes>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.next().map(|part| Ok(Frame::data(part))))
        }
    }

    #[tokio::test]
    async fn parts_are_put_together_within_bounds() {
        assert_eq!(read_of(&["12345", "67890"], 100).await.unwrap(), "1234567890");
        assert_eq!(read_of(&[], 100).await.unwrap(), "");
        assert_eq!(read_of(&["12345", "678901"], 100).await, Err(Missing::TooLarge));
    }

    /// Beyond what each body may take in any case.
    #[tokio::test]
    async fn parts_take_room() {
        let read_of = async |parts: &[usize], room: usize| {
            let room = Arc::new(Budget::new(room));
            let parts: Vec<_> = parts.iter().map(|&of| Bytes::from(vec![b'x'; of])).collect();
            let most = FREE_BYTES + 10;
            let body = Parts(parts.into_iter());
            read(body, most, TIME, &room).await.map(|whole| whole.bytes.len())
        };
        assert_eq!(read_of(&[FREE_BYTES], 0).await, Ok(FREE_BYTES));
        assert_eq!(read_of(&[FREE_BYTES, 10], 9).await, Err(Missing::NoRoom));
        // No more room is taken than the largest body needs.
        assert_eq!(read_of(&[FREE_BYTES, 10], 10).await, Ok(FREE_BYTES + 10));
    }

    #[tokio::test]
    async fn a_body_that_came_with_its_head_needs_no_room() {
        let room = Arc::new(Budget::new(0));
        let body = Full::new(Bytes::from_static(b"0123456789"));
        assert_eq!(read(body, 10, TIME, &room).await.unwrap().bytes, "0123456789");
    }

    #[tokio::test]
    async fn a_body_whose_check_waits_takes_room() {
        let room = Arc::new(Budget::new(15));
        let body = || Full::new(Bytes::from_static(b"0123456789"));
        let mut first = read(body(), 10, TIME, &room).await.unwrap();
        let mut other = read(body(), 10, TIME, &room).await.unwrap();
        assert!(first.count_in(&room) && !other.count_in(&room));
        drop(first);
        assert!(other.count_in(&room));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let Problem { code, text: problem } = text(b"{\xff}").unwrap_err();
        assert_eq!(code, Code::InvalidRequest);
        assert_eq!(problem, "expected UTF-8, but byte 1 is none");
        assert_eq!(text("\u{feff}{}".as_bytes()).unwrap(), "{}");
        let problem = text(b"\x1f\x8b\x08\0").unwrap_err().text;
        assert_eq!(problem, "the body is compressed by gzip: send it as it is");
    }
}
