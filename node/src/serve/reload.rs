//! What a node reads again on SIGHUP.

use tidegate_cluster::Trust;
use tokio::signal::unix::Signal;

use super::files::{Reader, limits, password};
use crate::config::cli::ServeArgs;
use crate::config::file::LimitConfig;
use crate::config::password::InForce;
use crate::config::trust;
use crate::limits::gossip::Gossip;

/// Limits that a line of the log names, at most.
const MAX_NAMED: usize = 8;

/// Reads secrets or certificates again with each SIGHUP, and goes on with those in force where that
/// fails; looks up seeds again. What does not come before the next SIGHUP is given up.
pub async fn rotate_on(mut hangups: Signal, files: Reader, gossip: Gossip) {
    let mut hangup = hangups.recv().await;
    while hangup.is_some() {
        gossip.look_up_seeds();
        if !files.has_any() {
            tracing::info!("SIGHUP: no file is named, so there is nothing to read again");
        }
        let (trust, next) = read_until(&mut hangups, &files, trust::read).await;
        if let Some(trust) = trust {
            rotate(&gossip, trust).await;
        }
        hangup = if next.is_some() { next } else { hangups.recv().await };
    }
}

/// Reads the password of Redis clients again with each SIGHUP, in the same manner.
pub async fn renew_on(mut hangups: Signal, files: Reader, in_force: InForce) {
    let mut hangup = hangups.recv().await;
    while hangup.is_some() {
        let (read, next) = read_until(&mut hangups, &files, password).await;
        match read {
            Some(Ok(Some(password))) => {
                in_force.replace(password);
                tracing::info!("SIGHUP: clients that come now give the password that was read");
            }
            Some(Err(line)) => tracing::error!("SIGHUP: the password stays: {line}"),
            // The command line names a file.
            Some(Ok(None)) | None => {}
        }
        hangup = if next.is_some() { next } else { hangups.recv().await };
    }
}

/// Compares the configuration with the limits in force at each SIGHUP, and says whether a restart
/// would change them: they stay as they are while the node runs.
pub async fn compare_on(mut hangups: Signal, files: Reader, in_force: Vec<LimitConfig>) {
    let mut hangup = hangups.recv().await;
    while hangup.is_some() {
        let (read, next) = read_until(&mut hangups, &files, limits).await;
        match read {
            Some(Ok(limits)) => log_others(&limits, &in_force),
            Some(Err(line)) => tracing::error!("SIGHUP: the limits stay: {line}"),
            None => {}
        }
        hangup = if next.is_some() { next } else { hangups.recv().await };
    }
}

/// Says which limits a restart would change; in which order they stand does not matter.
fn log_others(read: &[LimitConfig], in_force: &[LimitConfig]) {
    let changed = read.iter().filter(|limit| !in_force.contains(limit));
    let gone = in_force.iter().filter(|old| read.iter().all(|limit| limit.name != old.name));
    let mut others = changed.chain(gone).map(|limit| limit.name.as_str()).collect::<Vec<_>>();
    if others.is_empty() {
        tracing::info!("SIGHUP: --config was read; the limits in force stay, as it has no others");
        return;
    }
    let left_out = others.len().saturating_sub(MAX_NAMED);
    others.truncate(MAX_NAMED);
    let others = others.join(",");
    let line = "SIGHUP: the limits stay; --config has others, for a restart";
    tracing::warn!(others, left_out, "{line}");
}

/// Reads files, or gives that up with the next SIGHUP, which then is the second.
async fn read_until<T: Send + 'static>(
    hangups: &mut Signal,
    files: &Reader,
    what: fn(&ServeArgs) -> Result<T, String>,
) -> (Option<Result<T, String>>, Option<()>) {
    tokio::select! {
        read = files.read(what) => (Some(read), None),
        hangup = hangups.recv() => {
            tracing::warn!("SIGHUP again: no longer waiting for a file");
            (None, hangup)
        }
    }
}

/// Puts what was read in force.
async fn rotate(gossip: &Gossip, trust: Result<Option<Trust>, String>) {
    let rotated = match trust {
        Ok(Some(trust)) => gossip.rotate(trust).await,
        // A node without a cluster.
        Ok(None) => return,
        Err(line) => Err(line),
    };
    match rotated {
        Ok(()) => tracing::info!("SIGHUP: new links use what was read"),
        Err(line) => tracing::error!("SIGHUP: secrets or certificates stay: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::testing::Captured;

    #[test]
    fn each_comparison_says_what_came_of_it() {
        let limit = |name: &str| LimitConfig { name: name.to_owned(), ..LimitConfig::built_in() };
        let log = Captured::start();
        log_others(&[limit("b"), limit("a")], &[limit("a"), limit("b")]);
        let text = log.text();
        assert!(text.contains(" INFO ") && text.contains("the limits in force stay"), "{text}");
        log_others(&[limit("a"), limit("c")], &[limit("a"), limit("b")]);
        let text = log.text();
        assert!(text.ends_with("others, for a restart others=\"c,b\" left_out=0\n"), "{text}");
    }
}
