//! The output of a node when it starts.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;

use tracing::Level;

use crate::config::file::LimitConfig;
use crate::config::origin::Host;
use crate::telemetry::blocking_writer::BlockingWriter;
use crate::telemetry::log::json_line;

/// Standard output, for one text. A thread writes it, so nothing waits for its reader: it may be a
/// terminal that is stopped.
#[derive(Debug)]
pub struct Output(SyncSender<String>);

impl Output {
    /// # Errors
    /// There is no thread.
    pub fn start() -> io::Result<Self> {
        let (sender, texts) = sync_channel::<String>(1);
        Builder::new().name("output".to_owned()).spawn(move || {
            let mut out = BlockingWriter(io::stdout());
            for text in texts {
                // A closed standard output does not stop the node.
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            }
        })?;
        Ok(Self(sender))
    }

    /// Prints it, and flushes: scripts wait for its last line.
    pub fn print(self, text: String) {
        // Its thread waits for it.
        let _ = self.0.try_send(text);
    }
}

/// The addresses a node has bound.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub resp: SocketAddr,
    pub http: SocketAddr,
    pub cluster: Option<SocketAddr>,
}

/// What a node asks of its clients.
#[derive(Clone, Copy, Debug)]
pub struct Required<'a> {
    /// Where the password of Redis clients stands.
    pub password_file: Option<&'a Path>,
    /// The hosts by which clients reach HTTP; any if there is none.
    pub hosts: &'a [Host],
}

/// The start-up text: commands to try, with what their answers mean, then the line that says where
/// the node listens. `limit` is one that the node enforces.
pub fn text(bound: &Bound, limit: &LimitConfig, asked: Required<'_>) -> String {
    let LimitConfig { name, quota, .. } = limit;
    let resp = reachable(bound.resp);
    let (host, port) = (resp.ip(), resp.port());
    let http = reachable(bound.http);
    let body = serde_json::json!({ "key": "user:42", "limit": name });
    let body = quoted(&body.to_string());
    let password = asked.password_file.map(|file| quoted(&file.display().to_string()));
    let password = password.map(|file| format!("REDISCLI_AUTH=\"$(cat {file})\" "));
    let password = password.unwrap_or_default();
    let host_field = host_field(http.ip(), asked.hosts);
    let is_built_in = *limit == LimitConfig::built_in();
    let origin = if is_built_in { ": built in, as no --config is given" } else { "" };
    format!(
        "tidegate {version} is ready. Three commands to try in another terminal, \
         the last one in the repository:\n\
         \n\
         \x20 {password}redis-cli -h {host} -p {port} CL.THROTTLE user:42 19 100 60\n\
         \x20   100 requests in 60 seconds, 20 at once; five numbers: denied (0 or 1), limit,\n\
         \x20   remaining, seconds until a retry (-1 if allowed), seconds until it is all back\n\
         \x20 curl -i {host_field}http://{http}/v1/check -d {body}\n\
         \x20   the limit `{name}`, {quota}{origin}\n\
         \x20 cargo run --release -- replay tests/fixtures/access.log --rate 10/m --burst 5\n\
         \x20   what that limit for each client address would have denied\n\
         \n\
         {listening}\n",
        version = env!("CARGO_PKG_VERSION"),
        listening = listening(bound),
    )
}

/// The same of a node whose log is JSON, as its outputs may be one stream: where it listens, in one
/// line.
pub fn event(bound: &Bound) -> String {
    let mut fields = vec![("resp", bound.resp.to_string()), ("http", bound.http.to_string())];
    fields.extend(bound.cluster.map(|address| ("cluster", address.to_string())));
    json_line(Level::INFO, "listening", &fields)
}

/// The option by which curl names a host that is allowed, where the address is none.
fn host_field(address: IpAddr, hosts: &[Host]) -> String {
    match hosts.first() {
        Some(host) if !hosts.contains(&Host::Address(address)) => format!("-H 'Host: {host}' "),
        _ => String::new(),
    }
}

/// As one word of a shell. Single quotes cannot contain a quote; a shell joins adjacent strings.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// `listening resp=ADDR http=ADDR [cluster=ADDR]`
fn listening(bound: &Bound) -> String {
    let cluster = bound.cluster.map(|address| format!(" cluster={address}")).unwrap_or_default();
    format!("listening resp={} http={}{cluster}", bound.resp, bound.http)
}

/// The address at which a client on this machine reaches a listener bound to `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Bound, Required, text};
    use crate::config::file::LimitConfig;

    const NOTHING: Required<'_> = Required { password_file: None, hosts: &[] };

    fn loopback() -> Bound {
        Bound {
            resp: "127.0.0.1:1".parse().unwrap(),
            http: "127.0.0.1:2".parse().unwrap(),
            cluster: None,
        }
    }

    #[test]
    fn the_last_line_says_where_the_node_listens() {
        let mut bound = Bound { http: "0.0.0.0:2".parse().unwrap(), ..loopback() };
        let shown = text(&bound, &LimitConfig::built_in(), NOTHING);
        assert!(shown.ends_with("\n\nlistening resp=127.0.0.1:1 http=0.0.0.0:2\n"));
        assert!(shown.contains("the limit `default`, 100/s burst 200: built in"), "{shown}");
        assert!(shown.contains("http://127.0.0.1:2/v1/check"));
        bound.cluster = Some("[::1]:3".parse().unwrap());
        let shown = text(&bound, &LimitConfig::built_in(), NOTHING);
        assert!(shown.ends_with("\nlistening resp=127.0.0.1:1 http=0.0.0.0:2 cluster=[::1]:3\n"));
    }

    #[test]
    fn the_name_of_a_limit_is_safe_to_paste() {
        let limit = LimitConfig { name: "it's".to_owned(), ..LimitConfig::built_in() };
        let shown = text(&loopback(), &limit, NOTHING);
        assert!(shown.contains(r#""limit":"it'\''s"}'"#), "{shown}");
        assert!(!shown.contains("built in"), "{shown}");
    }

    #[test]
    fn the_commands_give_what_the_node_asks_for() {
        let hosts = ["limits.example.org".parse().unwrap(), "::1".parse().unwrap()];
        let asked = Required { password_file: Some(Path::new("it's/secret")), hosts: &hosts };
        let shown = text(&loopback(), &LimitConfig::built_in(), asked);
        let redis = r#"  REDISCLI_AUTH="$(cat 'it'\''s/secret')" redis-cli -h 127.0.0.1 -p 1 CL"#;
        assert!(shown.contains(redis), "{shown}");
        assert!(shown.contains("curl -i -H 'Host: limits.example.org' http://"), "{shown}");
        let bound = Bound { http: "[::1]:2".parse().unwrap(), ..loopback() };
        let shown = text(&bound, &LimitConfig::built_in(), asked);
        assert!(shown.contains("curl -i http://[::1]:2/"), "{shown}");
        let hosts = ["::2".parse().unwrap()];
        let shown = text(&bound, &LimitConfig::built_in(), Required { hosts: &hosts, ..asked });
        assert!(shown.contains("curl -i -H 'Host: [::2]' http://[::1]:2/"), "{shown}");
    }
}
