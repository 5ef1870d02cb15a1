//! Origins and hosts: as they are given on the command line, and as requests carry them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Where a page comes from, as its browser says: `SCHEME://HOST` with a port unless that is the
/// scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// Whether the value of a header field `Origin` is this one.
    pub fn is(&self, value: &[u8]) -> bool {
        value.eq_ignore_ascii_case(self.0.as_bytes())
    }
}

impl FromStr for Origin {
    type Err = String;

    /// `null` is none: every page in a sandbox has it.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected an origin without a path, such as https://example.org or \
             http://localhost:3000"
                .to_owned()
        };
        let text = text.to_ascii_lowercase();
        let (scheme, authority) = text.split_once("://").ok_or_else(expected)?;
        let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if scheme.is_empty() || !scheme.chars().all(is_of_scheme) {
            return Err(expected());
        }
        let (host, port) = split_port(authority).ok_or_else(expected)?;
        let host: Host = host.parse().map_err(|_| expected())?;
        // A browser leaves out the port that the scheme has anyway.
        let is_default = matches!((scheme, port), ("http", Some(80)) | ("https", Some(443)));
        Ok(Self(match port {
            Some(port) if !is_default => format!("{scheme}://{host}:{port}"),
            _ => format!("{scheme}://{host}"),
        }))
    }
}

/// The host of an address of HTTP, whatever its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// In lower case, without a dot at its end.
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// The host of a header field `Host` or of an authority: a port is ignored.
    pub fn of(value: &[u8]) -> Option<Self> {
        let (host, _) = split_port(std::str::from_utf8(value).ok()?)?;
        host.parse().ok()
    }
}

/// As in a header field.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(ip)) => write!(f, "{ip}"),
            Self::Address(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(address) = bracketed.and_then(|inner| inner.parse::<Ipv6Addr>().ok()) {
            return Ok(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if name.is_empty() || !name.chars().all(is_of_name) {
            return Err("expected a host without a port, such as limits.example.org".to_owned());
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }
}

/// The host of an authority, in brackets where it stands in them, and its port.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    match authority.rsplit_once(':') {
        // The colon stands within an address in brackets.
        Some((_, rest)) if rest.ends_with(']') => Some((authority, None)),
        // A port may be empty (RFC 3986, 3.2.3).
        Some((host, "")) => Some((host, None)),
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((host, Some(port.parse().ok()?)))
        }
        Some(_) => None,
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Host, Origin};

    #[test]
    fn an_origin_is_what_browsers_send() {
        for (given, sent) in [
            ("https://example.org", "https://example.org"),
            ("HTTPS://Example.org:443", "https://example.org"),
            ("http://example.org:80", "http://example.org"),
            ("http://localhost:3000", "http://LOCALHOST:3000"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://[0:0:0:0:0:0:0:1]:3000", "http://[::1]:3000"),
            ("chrome-extension://abc", "chrome-extension://abc"),
        ] {
            assert!(given.parse::<Origin>().unwrap().is(sent.as_bytes()), "{given}");
        }
        let origin: Origin = "https://example.org".parse().unwrap();
        for other in [
            "",
            "null",
            "http://example.org",
            "https://example.org:444",
            "https://example.org.evil.test",
            "https://www.example.org",
            "https://example.org/",
        ] {
            assert!(!origin.is(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for text in [
            "",
            "null",
            "*",
            "example.org",
            "https://",
            "://example.org",
            "https://example.org/",
            "https://me@example.org",
            "https://example.org:x",
            "https://example.org:99999",
            "https://*.example.org",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_is_the_same_with_any_port() {
        for (given, sent) in [
            ("limits.example.org", "Limits.Example.org:7380"),
            ("limits.example.org.", "limits.example.org"),
            ("localhost", "localhost."),
            ("localhost", "localhost:"),
            ("127.0.0.1", "127.0.0.1:7380"),
            ("::1", "[::1]:7380"),
            ("[::1]", "[0:0:0:0:0:0:0:1]"),
        ] {
            assert_eq!(Host::of(sent.as_bytes()), Some(given.parse().unwrap()), "{given}");
        }
        for sent in ["", ":80", "a b", "a:b", "a:99999", "[::1", "a/b", "\u{e9}"] {
            assert_eq!(Host::of(sent.as_bytes()), None, "{sent}");
        }
        for given in ["", "a:80", "a b", "*", "[::1]:80"] {
            assert!(given.parse::<Host>().is_err(), "{given}");
        }
    }
}
