//! The parsers of bytes from outside, for fuzz targets: only under `--cfg fuzzing`.

use std::sync::Arc;

use crate::config::file::LimitConfig;
use crate::front::resp::{RespBounds, ServerInfo};
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::service::Service;
use crate::telemetry::meter::{FrontEndName, Meter};

pub use crate::config::file::{parse as parse_rules, text as rules_text};
pub use crate::front::resp::{Command, MAX_ARG_BYTES, MAX_ARGS, Parser, ProtocolError, Session};
pub use crate::replay::{decide, log};

/// The service behind the front-ends of a node without arguments.
pub struct Node {
    server: Arc<ServerInfo>,
    http: Meter,
}

impl Node {
    /// A node without a cluster, with the built-in limit.
    pub fn alone() -> Self {
        let hasher = tidegate_engine::KeyHasher::rapid(1);
        let limiters =
            Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &hasher).expect("memory");
        let address = ([127, 0, 0, 1], 7379).into();
        let service = Arc::new(Service::new(limiters, Gossip::alone()));
        Self {
            http: service.meter(FrontEndName::Http),
            server: Arc::new(ServerInfo::new(service, address, None, RespBounds::default())),
        }
    }

    /// A client of the Redis protocol that has just connected.
    pub fn session(&self) -> Session {
        Session::new(Arc::clone(&self.server), None)
    }

    /// The status and header fields of the answer to the body of a check, or what is wrong with it.
    pub fn check(&self, body: &[u8]) -> Result<(u16, Vec<(String, String)>), String> {
        let answer = crate::front::http::decide(self.server.service(), &self.http, body);
        let answer = answer.map_err(|problem| problem.text)?;
        let field = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Ok((answer.status().as_u16(), answer.headers().iter().map(field).collect()))
    }

    /// The answer to the body of a batch of checks, or what is wrong with it.
    pub fn check_batch(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        let results = crate::front::http::decide_batch(self.server.service(), &self.http, body);
        results.map_err(|problem| problem.text)
    }
}
