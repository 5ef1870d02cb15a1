//! What each row of the table asks of a server.

use clap::ValueEnum;

use super::framing::Protocol;
use super::requests::KEY;

/// Checks in the body of a batch.
pub const BATCH: usize = 100;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Row {
    /// Redis protocol, one request at a time
    #[value(name = "resp-1")]
    Resp1,
    /// Redis protocol, 16 requests at once
    #[value(name = "resp-16")]
    Resp16,
    /// Redis protocol, 100 requests at once
    #[value(name = "resp-100")]
    Resp100,
    /// HTTP, one request at a time
    #[value(name = "http-1")]
    Http1,
    /// HTTP, 16 requests at once
    #[value(name = "http-16")]
    Http16,
    /// HTTP, one request of 100 checks at a time
    #[value(name = "http-batch")]
    HttpBatch,
    /// Redis protocol, 50,000 requests a second
    #[value(name = "latency")]
    Latency,
}

impl Row {
    /// All, as they are measured and printed.
    pub const ALL: [Self; 7] = [
        Self::Resp1,
        Self::Resp16,
        Self::Resp100,
        Self::Http1,
        Self::Http16,
        Self::HttpBatch,
        Self::Latency,
    ];

    /// As in the table.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Resp1 => "Redis protocol",
            Self::Resp16 => "Redis protocol, pipelining 16",
            Self::Resp100 => "Redis protocol, pipelining 100",
            Self::Http1 => "HTTP",
            Self::Http16 => "HTTP, pipelining 16",
            Self::HttpBatch => "HTTP, checks in batches of 100",
            Self::Latency => "Redis protocol, 50,000 requests a second",
        }
    }

    /// What carries it.
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Resp1 | Self::Resp16 | Self::Resp100 | Self::Latency => Protocol::Resp,
            Self::Http1 | Self::Http16 | Self::HttpBatch => Protocol::Http,
        }
    }

    /// How many requests a connection sends at once.
    #[must_use]
    pub const fn pipelining(self) -> usize {
        match self {
            Self::Resp1 | Self::Http1 | Self::HttpBatch | Self::Latency => 1,
            Self::Resp16 | Self::Http16 => 16,
            Self::Resp100 => 100,
        }
    }

    /// How many checks a request asks for.
    #[must_use]
    pub const fn checks(self) -> usize {
        if matches!(self, Self::HttpBatch) { BATCH } else { 1 }
    }

    /// Whether `reply`, which is not an error, answers the request of this row.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn verify(self, reply: &[u8]) -> Result<(), String> {
        if self != Self::HttpBatch {
            return Ok(());
        }
        let text = String::from_utf8_lossy(reply);
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let body: serde_json::Value = serde_json::from_str(body).map_err(|e| e.to_string())?;
        match body["results"].as_array().map(Vec::len) {
            Some(BATCH) => Ok(()),
            results => Err(format!("{BATCH} checks were asked for, the results are {results:?}")),
        }
    }
}

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The node, and the ceiling.
    Tidegate,
    /// Redis with redis-cell.
    RedisCell,
    /// throttlecrab-server.
    Throttlecrab,
}

impl Dialect {
    /// The request of a row; `None` where such a server has no such thing.
    #[must_use]
    pub fn request(self, row: Row) -> Option<String> {
        match (self, row.protocol()) {
            (Self::Tidegate | Self::RedisCell, Protocol::Resp) => {
                Some(command("CL.THROTTLE", PER_MINUTE))
            }
            (Self::Throttlecrab, Protocol::Resp) => Some(command("THROTTLE", PER_MINUTE)),
            (Self::Tidegate, Protocol::Http) if row == Row::HttpBatch => {
                let checks = [CHECK; BATCH].join(",");
                Some(post("/v1/check-batch", &format!("{{\"checks\":[{checks}]}}")))
            }
            (Self::Tidegate, Protocol::Http) => Some(post("/v1/check", CHECK)),
            (Self::Throttlecrab, Protocol::Http) if row != Row::HttpBatch => {
                let quota = r#""max_burst":15,"count_per_period":30,"period":60,"quantity":1"#;
                Some(post("/throttle", &format!("{{\"key\":\"{KEY}\",{quota}}}")))
            }
            (Self::RedisCell | Self::Throttlecrab, Protocol::Http) => None,
        }
    }
}

/// A check of [`KEY`].
const CHECK: &str = r#"{"key":"key:0000000","rate":"100/s","burst":20}"#;

/// 30 checks a minute, 15 beyond the first at once.
const PER_MINUTE: [&str; 3] = ["15", "30", "60"];

/// A command that checks [`KEY`] under a quota: how many beyond the first at once, and how many in
/// how many seconds.
pub(super) fn command(name: &str, [more, count, seconds]: [&str; 3]) -> String {
    let words = [name, KEY, more, count, seconds, "1"];
    let bulk = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.map(bulk).concat())
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_whole_and_have_their_keys() {
        for row in Row::ALL {
            for dialect in [Dialect::Tidegate, Dialect::RedisCell, Dialect::Throttlecrab] {
                let Some(request) = dialect.request(row) else { continue };
                let length = row.protocol().request(request.as_bytes());
                assert_eq!(length, Ok(Some(request.len())), "{row:?} {dialect:?}");
                assert_eq!(request.matches(KEY).count(), row.checks(), "{row:?} {dialect:?}");
            }
        }
    }
}
