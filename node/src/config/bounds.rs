//! Bounds on what clients may take of the node, as the command line sets them.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use crate::config::byte_size::{ByteSize, at_least, within};

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
/// The most bytes that all connections together hold in bodies that came in parts, or whose checks
/// wait, unless another number is given.
pub const MAX_HELD_BODY_BYTES: usize = 256 * 1024 * 1024;
/// The smallest of these three that may be given: the largest command fits.
const LEAST_ROOM: ByteSize = ByteSize(8 * 1024 * 1024);
/// How long a Redis command may take from its first byte to its last, unless another time is given.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest and the longest time that a client may take, or be silent for.
const TIMEOUTS: RangeInclusive<SignedDuration> =
    SignedDuration::from_secs(1)..=SignedDuration::from_hours(24);
/// The heads that may be allowed: each connection may hold one, which no room is kept for.
const HEAD_BYTES: RangeInclusive<ByteSize> = ByteSize(1024)..=ByteSize(64 * 1024);
/// The numbers of fields that may be allowed: proxies add some to those of clients.
const HEAD_FIELDS: RangeInclusive<u64> = 16..=1_000;
/// The bodies that may be allowed.
const BODY_BYTES: RangeInclusive<ByteSize> = ByteSize(1024)..=ByteSize(16 * 1024 * 1024);
/// The commands of a transaction that may be allowed: they are run in one piece.
const TRANSACTION_COMMANDS: RangeInclusive<u64> = 1..=100_000;
/// What they may take: a few fit into the room of all transactions.
const TRANSACTION_BYTES: RangeInclusive<ByteSize> = ByteSize(1024)..=ByteSize(16 * 1024 * 1024);

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Bounds")]
pub struct BoundArgs {
    /// How many connections each front-end serves at a time; further ones are refused. 10000 unless
    /// given; the limit of open files may allow for fewer.
    #[arg(long, value_name = "N", value_parser = connections)]
    pub max_connections: Option<usize>,
    /// How many of them may be of one address: an IPv4 address, or the /64 of an IPv6 one. 0 is
    /// any number: clients behind a proxy have one address.
    #[arg(long, value_name = "N", default_value = "0", value_parser = per_address)]
    pub max_connections_per_address: PerAddress,
    /// How long a Redis client may send nothing before its connection is closed, such as 5m; at
    /// least a second, at most a day. 0 is any time.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = idle_timeout)]
    pub idle_timeout: SignedDuration,
    /// How long a client's system may take nothing of the replies that wait for it before its
    /// connection is reset: 1s to 24h. Where a client reads slowly its system takes them in steps.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    pub write_timeout: SignedDuration,
    /// How much all Redis connections together may hold in commands that have not arrived in full,
    /// such as 64MiB; at least 8MiB.
    #[arg(long, value_name = "BYTES", default_value_t = ByteSize(MAX_UNREAD_BYTES))]
    #[arg(value_parser = at_least(LEAST_ROOM))]
    pub max_unread_bytes: ByteSize,
    /// How much all connections together may hold in replies that clients have not taken; at least
    /// 8MiB.
    #[arg(long, value_name = "BYTES", default_value_t = ByteSize(MAX_UNSENT_BYTES))]
    #[arg(value_parser = at_least(LEAST_ROOM))]
    pub max_unsent_bytes: ByteSize,
    /// How long a Redis command may take to arrive in full: 1s to 24h.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    pub command_timeout: SignedDuration,
    /// How many commands a transaction of a Redis client may have, at most 100000.
    #[arg(long, value_name = "N", value_parser = transaction_commands)]
    #[arg(default_value_t = TransactionBounds::default().commands)]
    pub max_transaction_commands: usize,
    /// How much the commands of a transaction may take: 1KiB to 16MiB.
    #[arg(long, value_name = "BYTES", value_parser = within(TRANSACTION_BYTES))]
    #[arg(default_value_t = ByteSize(TransactionBounds::default().bytes))]
    pub max_transaction_bytes: ByteSize,
    /// How large the head of an HTTP request may be: 1KiB to 64KiB.
    #[arg(long, value_name = "BYTES", value_parser = within(HEAD_BYTES))]
    #[arg(default_value_t = ByteSize(HttpBounds::default().head_bytes))]
    pub max_head_bytes: ByteSize,
    /// How many fields it may have: 16 to 1000.
    #[arg(long, value_name = "N", value_parser = head_fields)]
    #[arg(default_value_t = HttpBounds::default().head_fields)]
    pub max_head_fields: usize,
    /// How long an HTTP client may take for a head, silence before it included: 1s to 24h. Proxies
    /// that keep connections open should close them earlier.
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = timeout)]
    pub head_timeout: SignedDuration,
    /// How large the body of a check may be: 1KiB to 16MiB.
    #[arg(long, value_name = "BYTES", value_parser = within(BODY_BYTES))]
    #[arg(default_value_t = ByteSize(HttpBounds::default().body_bytes))]
    pub max_body_bytes: ByteSize,
    /// How large the body of a batch of checks may be: 1KiB to 16MiB.
    #[arg(long, value_name = "BYTES", value_parser = within(BODY_BYTES))]
    #[arg(default_value_t = ByteSize(HttpBounds::default().batch_bytes))]
    pub max_batch_bytes: ByteSize,
    /// How long a body may take to arrive in full: 1s to 24h.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = timeout)]
    pub body_timeout: SignedDuration,
    /// How much all HTTP connections together may hold in bodies that came in parts, or whose
    /// checks wait; at least 8MiB.
    #[arg(long, value_name = "BYTES", default_value_t = ByteSize(MAX_HELD_BODY_BYTES))]
    #[arg(value_parser = at_least(LEAST_ROOM))]
    pub max_held_body_bytes: ByteSize,
}

/// The longest way of a request from a client, and back to it.
pub const UNDER_WAY: Duration = Duration::from_millis(250);

/// What an HTTP client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpBounds {
    /// The largest head of a request, in bytes.
    pub head_bytes: usize,
    /// The most fields of a head.
    pub head_fields: usize,
    /// How long a client may take to send a head, or to begin the next one.
    pub head_timeout: Duration,
    /// The largest body of a check, in bytes: by default far more than the longest key takes, so
    /// that a key beyond its bound has an error of its own.
    pub body_bytes: usize,
    /// The largest body of a batch of checks, in bytes.
    pub batch_bytes: usize,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// The most bytes of bodies that came in parts, or whose checks wait, of all connections
    /// together.
    pub held_body_bytes: usize,
    /// How long a request may be under way that a client has sent before it learns that the node
    /// stops: closing its connection would lose it.
    pub under_way: Duration,
}

impl Default for HttpBounds {
    fn default() -> Self {
        Self {
            head_bytes: 16 * 1024,
            head_fields: 100,
            head_timeout: Duration::from_secs(75),
            body_bytes: 64 * 1024,
            batch_bytes: 256 * 1024,
            body_timeout: Duration::from_secs(10),
            held_body_bytes: MAX_HELD_BODY_BYTES,
            under_way: UNDER_WAY,
        }
    }
}

/// What a Redis client may queue in one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionBounds {
    /// The most commands. They are run in one piece, which bounds how long.
    pub commands: usize,
    /// The most that they take, in bytes: their arguments, and what says where each begins and
    /// ends.
    pub bytes: usize,
}

impl Default for TransactionBounds {
    fn default() -> Self {
        Self { commands: 10_000, bytes: 1024 * 1024 }
    }
}

impl BoundArgs {
    /// How long a Redis client may be silent, if not for any time.
    pub fn idle_timeout(&self) -> Option<Duration> {
        Some(self.idle_timeout.unsigned_abs()).filter(|timeout| !timeout.is_zero())
    }

    pub const fn transaction(&self) -> TransactionBounds {
        TransactionBounds {
            commands: self.max_transaction_commands,
            bytes: self.max_transaction_bytes.0,
        }
    }

    pub const fn http(&self) -> HttpBounds {
        HttpBounds {
            head_bytes: self.max_head_bytes.0,
            head_fields: self.max_head_fields,
            head_timeout: self.head_timeout.unsigned_abs(),
            body_bytes: self.max_body_bytes.0,
            batch_bytes: self.max_batch_bytes.0,
            body_timeout: self.body_timeout.unsigned_abs(),
            held_body_bytes: self.max_held_body_bytes.0,
            under_way: UNDER_WAY,
        }
    }

    /// The most connections of one front-end at a time.
    pub fn max_connections(&self) -> usize {
        self.max_connections.unwrap_or(MAX_CONNECTIONS)
    }

    /// # Errors
    /// One line that names two flags which contradict each other.
    pub fn check(&self) -> Result<(), String> {
        let room = self.max_held_body_bytes;
        for (flag, bytes) in
            [("--max-body-bytes", self.max_body_bytes), ("--max-batch-bytes", self.max_batch_bytes)]
        {
            if bytes > room {
                return Err(format!("{flag} {bytes}: more than --max-held-body-bytes {room}"));
            }
        }
        match self.max_connections_per_address {
            Some(most) if most.get() > self.max_connections() => {
                let all = self.max_connections();
                let flag = "--max-connections-per-address";
                Err(format!("{flag} {most}: more than --max-connections {all}"))
            }
            _ => Ok(()),
        }
    }
}

/// The most connections of an address; `None` is any number.
type PerAddress = Option<NonZeroUsize>;

fn per_address(text: &str) -> Result<PerAddress, String> {
    text.parse().map(NonZeroUsize::new).map_err(|_| "expected a number, 0 for no bound".to_owned())
}

fn connections(text: &str) -> Result<usize, String> {
    number(text, &(1..=MOST_CONNECTIONS))
}

fn transaction_commands(text: &str) -> Result<usize, String> {
    number(text, &TRANSACTION_COMMANDS)
}

fn head_fields(text: &str) -> Result<usize, String> {
    number(text, &HEAD_FIELDS)
}

fn number(text: &str, range: &RangeInclusive<u64>) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
}

fn idle_timeout(text: &str) -> Result<SignedDuration, String> {
    let time = if text == "0" { Some(SignedDuration::ZERO) } else { text.parse().ok() };
    let time = time.filter(|time: &SignedDuration| time.is_zero() || TIMEOUTS.contains(time));
    time.ok_or_else(|| "expected a time from 1s to 24h, such as 5m, or 0".to_owned())
}

fn timeout(text: &str) -> Result<SignedDuration, String> {
    let time = text.parse().ok().filter(|time| TIMEOUTS.contains(time));
    time.ok_or_else(|| "expected a time from 1s to 24h, such as 30s".to_owned())
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
