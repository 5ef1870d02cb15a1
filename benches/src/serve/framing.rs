//! Where requests end: all that the ceiling does with them.

use memchr::{memchr, memmem};

/// Bytes that are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The protocols that the ceiling answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The Redis protocol: arrays of bulk strings.
    Resp,
    /// HTTP/1.1 with a `Content-Length`.
    Http,
}

impl Protocol {
    /// The length of the request at the start of `bytes`; `None` where its end is still to come.
    ///
    /// # Errors
    /// Where no further bytes make it a request.
    #[inline]
    pub fn request(self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        match self {
            Self::Resp => resp(bytes),
            Self::Http => http(bytes),
        }
    }
}

fn resp(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some((mut words, mut end)) = length(bytes, 0, b'*')? else { return Ok(None) };
    while words > 0 {
        let Some((word, start)) = length(bytes, end, b'$')? else { return Ok(None) };
        end = start + word + b"\r\n".len();
        words -= 1;
    }
    Ok((end <= bytes.len()).then_some(end))
}

/// The number behind `mark` at `start`, and where its line ends.
#[inline]
fn length(bytes: &[u8], start: usize, mark: u8) -> Result<Option<(usize, usize)>, Malformed> {
    const MAX_DIGITS: usize = 6;
    match bytes.get(start) {
        None => return Ok(None),
        Some(first) if *first != mark => return Err(Malformed),
        Some(_) => {}
    }
    let mut number = 0;
    for (index, byte) in bytes[start + 1..].iter().enumerate() {
        match byte {
            b'0'..=b'9' if index < MAX_DIGITS => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if index > 0 => return Ok(Some((number, start + 1 + index + b"\r\n".len()))),
            _ => return Err(Malformed),
        }
    }
    Ok(None)
}

fn http(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(head) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let end = head + b"\r\n\r\n".len();
    let body = content_length(&bytes[..head + b"\r\n".len()])?.unwrap_or(0);
    let end = end.checked_add(body).ok_or(Malformed)?;
    Ok((end <= bytes.len()).then_some(end))
}

/// The value of `Content-Length` in lines that have their ends, if there is one.
pub(super) fn content_length(lines: &[u8]) -> Result<Option<usize>, Malformed> {
    const NAME: &[u8] = b"content-length:";
    let mut rest = lines;
    while let Some(end) = memchr(b'\n', rest) {
        let (line, others) = rest.split_at(end + 1);
        rest = others;
        let Some((name, value)) = line.split_at_checked(NAME.len()) else { continue };
        if name.eq_ignore_ascii_case(NAME) {
            let value = str::from_utf8(value).map_err(|_| Malformed)?;
            return value.trim().parse().map(Some).map_err(|_| Malformed);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THROTTLE: &[u8] = b"*3\r\n$11\r\nCL.THROTTLE\r\n$4\r\n\r\n*1\r\n$0\r\n\r\n";
    const POST: &[u8] =
        b"POST /v1/check HTTP/1.1\r\nhost: a\r\nContent-Length: 10\r\n\r\n{\"\r\n\r\n\":1}";
    const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    /// However much of what follows is there, and at no byte before its last.
    fn ends_at_its_last_byte(protocol: Protocol, request: &[u8]) {
        for cut in 0..request.len() {
            assert_eq!(protocol.request(&request[..cut]), Ok(None), "cut at {cut}");
        }
        let twice = [request, request].concat();
        for end in request.len()..=twice.len() {
            assert_eq!(protocol.request(&twice[..end]), Ok(Some(request.len())), "up to {end}");
        }
    }

    #[test]
    fn requests_end_at_their_last_byte() {
        ends_at_its_last_byte(Protocol::Resp, THROTTLE);
        ends_at_its_last_byte(Protocol::Http, POST);
        ends_at_its_last_byte(Protocol::Http, GET);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bytes in ["PING\r\n", "*\r\n", "*x\r\n", "*1\r\n+OK\r\n", "*1\r\n$-1\r\n", "*1234567"] {
            assert_eq!(Protocol::Resp.request(bytes.as_bytes()), Err(Malformed), "{bytes:?}");
        }
        let post = b"POST / HTTP/1.1\r\ncontent-length: much\r\n\r\n";
        assert_eq!(Protocol::Http.request(post), Err(Malformed));
    }
}
