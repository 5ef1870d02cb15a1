//! A client without a connection, for tests.

use std::sync::{Arc, LazyLock};

use tidegate_engine::KeyHasher;

use super::parser::Parser;
use super::server_info::{RespBounds, ServerInfo};
use super::session::Session;
use crate::config::file::LimitConfig;
use crate::config::password::InForce;
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::service::Service;

/// A client that has just connected, to a server of its own; all servers decide by one service.
pub fn session() -> Session {
    session_of(None, RespBounds::default())
}

/// The same where a password is asked for.
pub fn guarded_session(password: InForce) -> Session {
    session_of(Some(password), RespBounds::default())
}

/// The same where these bounds were chosen.
pub fn bounded_session(bounds: RespBounds) -> Session {
    session_of(None, bounds)
}

fn session_of(password: Option<InForce>, bounds: RespBounds) -> Session {
    static SERVICE: LazyLock<Arc<Service>> = LazyLock::new(|| {
        let limiters = Limiters::build(
            &[LimitConfig::built_in()],
            &Gossip::alone(),
            &KeyHasher::siphash([7; 16]),
        );
        Arc::new(Service::new(limiters.unwrap(), Gossip::alone()))
    });
    let address = "127.0.0.1:1".parse().unwrap();
    let server = ServerInfo::new(Arc::clone(&SERVICE), address, password, bounds);
    Session::new(Arc::new(server), None)
}

/// Runs what a client sends; the replies.
pub fn answer(session: &mut Session, input: &[u8]) -> Vec<u8> {
    let (mut parser, mut out, mut used) = (Parser::default(), Vec::new(), 0);
    while let Some((length, _)) = session.run_next(&mut parser, &input[used..], &mut out).unwrap() {
        used += length;
    }
    session.decide(&mut out);
    session.flush_counts();
    out
}

/// The replies to lines, without the end of the last.
pub fn talk(session: &mut Session, lines: &[&str]) -> String {
    let replies = answer(session, format!("{}\r\n", lines.join("\r\n")).as_bytes());
    String::from_utf8(replies).unwrap().trim_end().to_owned()
}
