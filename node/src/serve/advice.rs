//! What the log says of a node that starts: where its clients are exposed, and which bounds it
//! cannot have.

use super::banner::Bound;
use crate::config::bounds::MAX_CONNECTIONS;

/// Logs where clients are exposed; `has_password` if Redis clients must give one.
pub fn log_exposed(bound: &Bound, has_password: bool) {
    for (flag, address) in [("--resp", bound.resp), ("--http", bound.http)] {
        if !address.ip().is_loopback() {
            tracing::warn!("{flag} {address}: plain text on the network; put TLS in front of it");
        }
    }
    if has_password && !bound.http.ip().is_loopback() {
        let http = bound.http;
        tracing::warn!(
            "--http {http}: asks for no password; --resp-password-file is for Redis clients alone"
        );
    }
}

/// Says where a front-end has room for fewer connections than its bound, as at most `files` may be
/// open; `asked` is the bound where the command line gives one.
pub fn log_connections(
    frontend: &'static str,
    connections: usize,
    asked: Option<usize>,
    files: Option<u64>,
) {
    match asked {
        Some(asked) if connections < asked => {
            let files = files.map_or_else(|| "unlimited".to_owned(), |files| files.to_string());
            tracing::warn!(
                frontend,
                "--max-connections {asked}: at most {connections}, as the limit of open files \
                 (ulimit -n) is {files}"
            );
        }
        None if connections < MAX_CONNECTIONS => {
            tracing::info!(frontend, connections, "the limit of open files allows for this");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::testing::Captured;

    #[test]
    fn a_password_of_one_port_is_said_not_to_guard_the_other() {
        for (http, has_password, expected) in [
            ("0.0.0.0:2", true, true),
            ("0.0.0.0:2", false, false),
            ("127.0.0.1:2", true, false),
            ("[::1]:2", true, false),
        ] {
            let resp = "192.0.2.1:1".parse().unwrap();
            let bound = Bound { resp, http: http.parse().unwrap(), cluster: None };
            let log = Captured::start();
            log_exposed(&bound, has_password);
            let text = log.text();
            let line = format!("--http {http}: asks for no password");
            assert_eq!(text.contains(&line), expected, "{text}");
            assert!(text.contains("--resp 192.0.2.1:1: plain text"), "{text}");
        }
    }

    #[test]
    fn a_bound_that_was_asked_for_and_cannot_be_had_is_a_warning() {
        let said = |connections, asked| {
            let log = Captured::start();
            log_connections("resp", connections, asked, Some(1_024));
            log.text()
        };
        let text = said(648, Some(50_000));
        let line = "--max-connections 50000: at most 648, as the limit of open files (ulimit -n) \
                    is 1024 frontend=\"resp\"\n";
        assert!(text.contains(" WARN ") && text.ends_with(line), "{text}");
        // Also where that is the usual number.
        assert!(said(648, Some(MAX_CONNECTIONS)).contains(" WARN "));
        let text = said(648, None);
        assert!(text.contains(" INFO ") && text.contains("connections=648"), "{text}");
        assert_eq!(said(648, Some(648)), "");
        assert_eq!(said(MAX_CONNECTIONS, None), "");
    }
}
