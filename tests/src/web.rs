//! An HTTP client.

use serde_json::Value;

use crate::{Node, PATIENCE};

/// What the node answered.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Reply {
    /// The value of a header field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Sends a GET request.
///
/// # Panics
/// When there is no answer.
#[must_use]
pub fn get(node: &Node, path: &str) -> Reply {
    reply(agent().get(format!("http://{}{path}", node.http)).call())
}

/// Sends a GET request for one of these media types.
///
/// # Panics
/// When there is no answer.
#[must_use]
pub fn get_as(node: &Node, path: &str, accept: &str) -> Reply {
    reply(agent().get(format!("http://{}{path}", node.http)).header("accept", accept).call())
}

impl Node {
    /// The value of a metric, of this name with its labels.
    ///
    /// # Panics
    /// When there is none, or it is no whole number.
    #[must_use]
    pub fn metric(&self, name: &str) -> u64 {
        let metrics = get(self, "/metrics").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name}")).parse().expect("a whole number")
    }
}

/// Sends a POST request.
///
/// # Panics
/// When there is no answer.
#[must_use]
pub fn post(node: &Node, path: &str, body: &str) -> Reply {
    reply(agent().post(format!("http://{}{path}", node.http)).send(body))
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder();
    config.http_status_as_error(false).timeout_global(Some(PATIENCE)).build().into()
}

fn reply(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Reply {
    let mut answer = answer.expect("an answer");
    let headers = answer
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().expect("text").to_owned()));
    Reply {
        status: answer.status().as_u16(),
        headers: headers.collect(),
        body: answer.body_mut().read_to_string().expect("a body"),
    }
}
