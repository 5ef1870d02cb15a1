//! What clients may take too long for.

use tokio::time::{Instant, sleep_until};

use crate::front::deadline;

/// What a client has taken too long for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The rest of a command.
    Command,
    /// The next command of a transaction that holds room of others.
    Transaction,
    Idle,
}

/// Waits for the earliest of these deadlines. Silence that is noticed late goes on for a while; the
/// others are put off where they are kept.
pub async fn expiry(
    command: Option<Instant>,
    transaction: Option<Instant>,
    idle: Option<Instant>,
) -> Expiry {
    let all =
        [(command, Expiry::Command), (transaction, Expiry::Transaction), (idle, Expiry::Idle)];
    let set = all.into_iter().filter_map(|(at, of)| at.map(|at| (at, of)));
    match set.min_by_key(|(at, _)| *at) {
        // Any command ends it: it begins anew each time.
        Some((at, Expiry::Idle)) => {
            deadline::passed(at).await;
            Expiry::Idle
        }
        Some((at, of)) => {
            sleep_until(at).await;
            of
        }
        None => std::future::pending().await,
    }
}
