//! `GET /healthz` and `GET /readyz`: whether the process lives, and whether to send it clients.

use hyper::StatusCode;
use serde::Serialize;

use super::answer::{Answer, json};
use crate::service::readiness::Phase;

pub const HEALTH: &str = "/healthz";
pub const READY: &str = "/readyz";

#[derive(Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    alone: bool,
}

/// Whether the process lives, also while it joins; one that stops need not be restarted, but it is
/// no longer healthy to those that probe nothing else.
pub fn health(phase: Phase) -> Answer {
    let (code, status) = match phase {
        Phase::Joining | Phase::Ready => (StatusCode::OK, "ok"),
        Phase::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
    };
    json(code, &Health { status, alone: false })
}

/// Whether to send clients. A node that decides alone is ready: it decides by what it knows, and
/// others cut off as it is would be taken out of service with it.
pub fn ready(phase: Phase, is_alone: bool) -> Answer {
    let (code, status) = match phase {
        Phase::Joining => (StatusCode::SERVICE_UNAVAILABLE, "joining"),
        Phase::Ready => (StatusCode::OK, "ready"),
        Phase::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
    };
    json(code, &Health { status, alone: is_alone && phase == Phase::Ready })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::{Phase, health, ready};

    #[tokio::test]
    async fn a_node_that_joins_lives_and_one_that_decides_alone_is_ready() {
        for (answer, code, expected) in [
            (health(Phase::Joining), 200, r#"{"status":"ok"}"#),
            (health(Phase::Ready), 200, r#"{"status":"ok"}"#),
            (health(Phase::Draining), 503, r#"{"status":"draining"}"#),
            (ready(Phase::Joining, true), 503, r#"{"status":"joining"}"#),
            (ready(Phase::Ready, false), 200, r#"{"status":"ready"}"#),
            (ready(Phase::Ready, true), 200, r#"{"status":"ready","alone":true}"#),
            (ready(Phase::Draining, true), 503, r#"{"status":"draining"}"#),
        ] {
            assert_eq!(answer.status(), code, "{expected}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, expected);
        }
    }
}
