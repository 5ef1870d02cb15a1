//! Where a node finds others: the grammar of seeds, and of files of them.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The largest file of seeds, in bytes.
pub const MAX_SEED_FILE_BYTES: usize = 64 * 1024;
/// Seeds in one file, at most.
pub const MAX_SEEDS_IN_FILE: usize = 256;
/// The longest name, in bytes, without a dot at its end: that of DNS (RFC 1035, 2.3.4).
const MAX_NAME_BYTES: usize = 253;
/// The longest label of a name, in bytes.
const MAX_LABEL_BYTES: usize = 63;
/// The longest part of an entry that an error shows, in characters.
const MAX_SHOWN_CHARS: usize = 80;

const SERVICE: &str = "dnssrv+";
const NAME: &str = "dns+";
const FILE: &str = "file:";

/// Where a node finds others of its cluster: see [`Config::seeds`](crate::Config::seeds).
///
/// | text | other nodes are at |
/// |---|---|
/// | `10.0.0.1:7381`, `[fd00::1]:7381` | that address |
/// | `tidegate.example.org:7381` | all A and AAAA records of the name; also with `dns+` in front |
/// | `dnssrv+_tidegate._udp.example.org` | the targets and ports of its SRV records |
/// | `file:/etc/tidegate/seeds` | what the file lists |
///
/// A file has one seed a line, of any kind but a file, and comments from `#` to the end of a line;
/// at most [`MAX_SEED_FILE_BYTES`] (64 KiB) and [`MAX_SEEDS_IN_FILE`] (256) seeds. One that has a
/// mistake is refused whole.
///
/// ```
/// # use tidegate_cluster::Seed;
/// let seed: Seed = "dnssrv+_tidegate._udp.example.org".parse()?;
/// assert_eq!(seed.to_string(), "dnssrv+_tidegate._udp.example.org");
/// # Ok::<(), tidegate_cluster::SeedError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed(SeedKind);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SeedKind {
    Address(SocketAddr),
    /// All addresses of a name, at one port.
    Name(String, u16),
    /// The SRV records of a name.
    Service(String),
    File(PathBuf),
}

impl Seed {
    pub(crate) fn kind(&self) -> &SeedKind {
        &self.0
    }
}

/// An IPv4 address that is written as IPv6 is that IPv4 address.
impl From<SocketAddr> for Seed {
    fn from(addr: SocketAddr) -> Self {
        Self(SeedKind::Address(canonical(addr)))
    }
}

/// The IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`), or the address itself.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    let ip = addr.ip().to_canonical();
    // A scope stays.
    if ip == addr.ip() { addr } else { SocketAddr::new(ip, addr.port()) }
}

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Self, SeedError> {
        let wrong = |problem| SeedError { entry: shown(text), problem };
        if let Some(path) = text.strip_prefix(FILE) {
            let path = Some(path).filter(|path| !path.is_empty());
            let path = path.ok_or_else(|| wrong("expected a path after `file:`"))?;
            return Ok(Self(SeedKind::File(path.into())));
        }
        if let Some(name) = text.strip_prefix(SERVICE) {
            return match name_problem(name) {
                None => Ok(Self(SeedKind::Service(name.to_owned()))),
                Some(problem) => Err(wrong(problem)),
            };
        }
        let named = text.strip_prefix(NAME);
        if named.is_none()
            && let Ok(addr) = text.parse::<SocketAddr>()
        {
            return if addr.port() == 0 { Err(wrong(PORT)) } else { Ok(addr.into()) };
        }
        let (name, port) = named.unwrap_or(text).rsplit_once(':').ok_or_else(|| wrong(EXPECTED))?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(|| wrong(PORT))?;
        match name_problem(name) {
            None => Ok(Self(SeedKind::Name(name.to_owned(), port))),
            Some(problem) => Err(wrong(problem)),
        }
    }
}

const EXPECTED: &str = "expected ADDRESS:PORT, NAME:PORT, dnssrv+NAME or file:PATH";
const PORT: &str = "expected a port from 1 to 65535 at its end";

/// Why a name is none.
fn name_problem(name: &str) -> Option<&'static str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(is_part)
    };
    if name.is_empty() {
        return Some(EXPECTED);
    }
    if name.parse::<IpAddr>().is_ok() || name.starts_with('[') {
        return Some("an address has a port and no prefix: ADDRESS:PORT, IPv6 in brackets");
    }
    if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
        return Some("not a name of DNS: letters, digits, `-` and `_`, with dots between");
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("neither an address nor a name");
    }
    None
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SeedKind::Address(addr) => addr.fmt(f),
            SeedKind::Name(name, port) => write!(f, "{name}:{port}"),
            SeedKind::Service(name) => write!(f, "{SERVICE}{name}"),
            SeedKind::File(path) => write!(f, "{FILE}{}", path.display()),
        }
    }
}

/// A text that is not a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedError {
    entry: String,
    problem: &'static str,
}

impl fmt::Display for SeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.entry, self.problem)
    }
}

impl std::error::Error for SeedError {}

/// The beginning of a text, for a line of a log.
fn shown(text: &str) -> String {
    let mut shown: String = text.escape_debug().take(MAX_SHOWN_CHARS).collect();
    if text.escape_debug().nth(MAX_SHOWN_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The seeds that a file lists. Blocks.
///
/// # Errors
/// What is wrong, and in which line.
pub(crate) fn read_file(path: &Path) -> Result<Vec<Seed>, String> {
    let mut bytes = Vec::new();
    // A pipe would be waited for.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("not a file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut file = file.take(MAX_SEED_FILE_BYTES as u64 + 1);
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > MAX_SEED_FILE_BYTES {
        return Err(format!("larger than {MAX_SEED_FILE_BYTES} bytes"));
    }
    parse_file(std::str::from_utf8(&bytes).map_err(|_| "not UTF-8".to_owned())?)
}

/// The seeds in the text of a file.
pub(crate) fn parse_file(text: &str) -> Result<Vec<Seed>, String> {
    let mut seeds = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let seed: Seed = entry.parse().map_err(|error| format!("line {number}: {error}"))?;
        if matches!(seed.0, SeedKind::File(_)) {
            return Err(format!("line {number}: a file lists no files"));
        }
        if seeds.len() == MAX_SEEDS_IN_FILE {
            return Err(format!("line {number}: there are more than {MAX_SEEDS_IN_FILE} seeds"));
        }
        seeds.push(seed);
    }
    Ok(seeds)
}

#[cfg(test)]
mod tests;
