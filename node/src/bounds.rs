//! Bounds on what clients may take of the node, as the command line sets them.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

/// The most connections of one front-end at a time, unless another number is given.
pub const MAX_CONNECTIONS: usize = 10_000;
/// The largest number that may be given.
const MOST_CONNECTIONS: u64 = 1_000_000;
/// The most bytes that all connections together hold in incomplete commands, unless another number
/// is given.
pub const MAX_UNREAD_BYTES: usize = 256 * 1024 * 1024;
/// The most bytes that all connections of the node together hold in unsent replies, unless another
/// number is given.
pub const MAX_UNSENT_BYTES: usize = 64 * 1024 * 1024;
/// The smallest of both numbers that may be given, in bytes: the largest command fits.
const LEAST_BYTES: u64 = 8 * 1024 * 1024;
/// The shortest and the longest time that a client may take, or be silent for.
const TIMEOUTS: RangeInclusive<SignedDuration> =
    SignedDuration::from_secs(1)..=SignedDuration::from_hours(24);

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Bounds")]
pub struct BoundArgs {
    /// How many connections each front-end serves at a time; further ones are refused. The limit
    /// of open files may allow for fewer.
    #[arg(long, value_name = "N", default_value_t = MAX_CONNECTIONS, value_parser = connections)]
    pub max_connections: usize,
    /// How many of them may be of one address: an IPv4 address, or the /64 of an IPv6 one. 0 is
    /// any number: clients behind a proxy have one address.
    #[arg(long, value_name = "N", default_value = "0", value_parser = per_address)]
    pub max_connections_per_address: PerAddress,
    /// How long a Redis client may send nothing before its connection is closed, such as 5m; at
    /// least a second, at most a day. 0s is any time.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = idle_timeout)]
    pub idle_timeout: SignedDuration,
    /// How long a client may take nothing of the replies that wait for it before its connection is
    /// reset: 1s to 24h.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = write_timeout)]
    pub write_timeout: SignedDuration,
    /// How much all Redis connections together may hold in commands that have not arrived in full,
    /// such as 64MiB; at least 8MiB.
    #[arg(long, value_name = "BYTES", default_value_t = ByteSize(MAX_UNREAD_BYTES))]
    pub max_unread_bytes: ByteSize,
    /// How much all connections together may hold in replies that clients have not taken; at least
    /// 8MiB.
    #[arg(long, value_name = "BYTES", default_value_t = ByteSize(MAX_UNSENT_BYTES))]
    pub max_unsent_bytes: ByteSize,
}

impl BoundArgs {
    /// How long a Redis client may be silent, if not for any time.
    pub fn idle_timeout(&self) -> Option<Duration> {
        Some(self.idle_timeout.unsigned_abs()).filter(|timeout| !timeout.is_zero())
    }
}

/// The most connections of an address; `None` is any number.
type PerAddress = Option<NonZeroUsize>;

fn per_address(text: &str) -> Result<PerAddress, String> {
    text.parse().map(NonZeroUsize::new).map_err(|_| "expected a number, 0 for no bound".to_owned())
}

/// A number of connections, at least one.
fn connections(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_CONNECTIONS).contains(number));
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("expected a number from 1 to {MOST_CONNECTIONS}"))
}

fn idle_timeout(text: &str) -> Result<SignedDuration, String> {
    let time = text.parse().ok();
    let time = time.filter(|time: &SignedDuration| time.is_zero() || TIMEOUTS.contains(time));
    time.ok_or_else(|| "expected a time from 1s to 24h, such as 5m, or 0s".to_owned())
}

fn write_timeout(text: &str) -> Result<SignedDuration, String> {
    let time = text.parse().ok().filter(|time| TIMEOUTS.contains(time));
    time.ok_or_else(|| "expected a time from 1s to 24h, such as 30s".to_owned())
}

/// A number of bytes that is written as a whole number of them, or of KiB, MiB or GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub usize);

/// The units, the largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |(unit, bytes): (&str, u64)| {
            let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
            count.checked_mul(bytes)
        };
        let bytes = UNITS.into_iter().find_map(read).filter(|bytes| *bytes >= LEAST_BYTES);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| "expected at least 8MiB, such as 64MiB or 1GiB".to_owned())
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = |(_, bytes): &(&str, u64)| (self.0 as u64).is_multiple_of(*bytes);
        let (unit, bytes) = UNITS.into_iter().find(is_whole).unwrap_or(("", 1));
        write!(f, "{}{unit}", self.0 as u64 / bytes)
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::{BoundArgs, ByteSize, MAX_UNREAD_BYTES, MAX_UNSENT_BYTES};
    use crate::cli::parse;
    use crate::unsent::tests::WRITE_TIMEOUT;

    fn bounds(args: &[&str]) -> BoundArgs {
        parse([&["tidegate"], args].concat()).unwrap().serve.bounds
    }

    #[test]
    fn bytes_have_units() {
        for (text, bytes) in [
            ("8388608", 8 << 20),
            ("8MiB", 8 << 20),
            ("8193KiB", 8193 << 10),
            ("3GiB", 3 << 30),
            ("8388609", (8 << 20) + 1),
        ] {
            let read: ByteSize = text.parse().unwrap();
            assert_eq!(read.0, bytes, "{text}");
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        assert_eq!(ByteSize(8 << 20).to_string(), "8MiB");
        for text in ["", "MiB", "7MiB", "8388607", "64 MiB", "64MB", "-64MiB", "17179869184GiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_bound_of_addresses_and_silence_unless_given() {
        let unless_given = bounds(&[]);
        assert_eq!(unless_given.max_connections_per_address, None);
        assert_eq!(unless_given.idle_timeout(), None);
        assert_eq!(unless_given.write_timeout.unsigned_abs(), WRITE_TIMEOUT);
        assert_eq!(unless_given.max_unread_bytes.0, MAX_UNREAD_BYTES);
        assert_eq!(unless_given.max_unsent_bytes.0, MAX_UNSENT_BYTES);
        let given = bounds(&["--idle-timeout", "90s", "--max-unsent-bytes", "1GiB"]);
        assert_eq!(given.idle_timeout().unwrap().as_secs(), 90);
        assert_eq!(given.max_unsent_bytes.0, 1 << 30);
    }

    #[test]
    fn bounds_are_documented_with_their_figures() {
        let documented = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/node.md");
        let documented = std::fs::read_to_string(documented).unwrap();
        let mut command = BoundArgs::augment_args(clap::Command::new("serve"));
        command.build();
        for flag in command.get_arguments().filter(|flag| flag.get_id() != "help") {
            let name = flag.get_long().unwrap();
            let unless_given = flag.get_default_values()[0].to_str().unwrap();
            // The number of connections has a comma there.
            let figure = if unless_given == "10000" { "10,000" } else { unless_given };
            let row = format!("| `--{name} ");
            let row = documented.lines().find_map(|line| Some(line.split_once(&row)?.1));
            let told =
                row.and_then(|row| row.split_once("` | ")).unwrap_or_else(|| panic!("{name}"));
            assert!(told.1.starts_with(figure), "{name}: {}", told.1);
        }
    }
}
