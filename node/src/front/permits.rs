//! How many connections the node may have: each needs a file descriptor.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most connections of one front-end that are being refused at a time.
const MAX_REFUSALS: usize = 100;
/// As many can be in any case: probes are answered so. Of few file descriptors they take from
/// [`RESERVED_FILES`].
const MIN_REFUSALS: usize = 4;
/// File descriptors for all else: listeners, the cluster's socket, files that are read. A node
/// without clients has about 25 open.
const RESERVED_FILES: u64 = 64;
/// The part of the others that HTTP has for itself, one in this many: clients that fill the Redis
/// port keep no health check out.
const HTTP_PART: u64 = 4;
/// The part of a front-end's file descriptors in which clients are refused, one in this many.
const REFUSAL_PART: u64 = 10;

/// The connections of a front-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitCounts {
    /// At a time, at most.
    pub connections: usize,
    /// Those that are being refused, in addition to them.
    pub refusals: usize,
}

impl PermitCounts {
    /// Those of Redis clients and of HTTP clients where this many file descriptors may be open;
    /// `None` is any number. Neither has more than `most` connections.
    pub fn of(files: Option<u64>, most: usize) -> (Self, Self) {
        let files = files.unwrap_or(u64::MAX).saturating_sub(RESERVED_FILES);
        let http = files / HTTP_PART;
        (Self::within(files - http, most), Self::within(http, most))
    }

    fn within(files: u64, most: usize) -> Self {
        let at_most = |files: u64, most: usize| usize::try_from(files).unwrap_or(most).min(most);
        let refusals = at_most(files / REFUSAL_PART, MAX_REFUSALS).max(MIN_REFUSALS);
        let connections = at_most(files.saturating_sub(refusals as u64), most);
        // Even a node that may open next to nothing serves one client.
        Self { connections: connections.max(1), refusals }
    }
}

/// Raises the number of files that the process may open as far as it may, and says how many those
/// are; `None` where there is no limit. The usual one allows for about a thousand.
pub fn raise_file_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // If that fails, fewer connections are accepted.
    if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current }
}

/// The number of files that the process may open now; `None` where there is no limit.
pub fn file_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The limit, if a node can answer clients and health checks within it.
///
/// # Errors
/// One line, if it cannot.
pub fn enough_files(limit: Option<u64>) -> Result<Option<u64>, String> {
    match limit {
        Some(files) if files < RESERVED_FILES => Err(format!(
            "at most {files} files may be open (ulimit -n): a node needs {RESERVED_FILES}, and one \
             for each client"
        )),
        limit => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::bounds::MAX_CONNECTIONS;

    #[test]
    fn all_permits_together_have_a_file_each() {
        /// A client of each front-end, and probes beyond it.
        const LEAST: usize = 2 * (1 + MIN_REFUSALS);
        for files in [0, 1, 64, 66, 70, 84, 103, 104, 128, 1_024, 4_096, 100_000] {
            let (redis, http) = PermitCounts::of(Some(files), MAX_CONNECTIONS);
            let all = [redis, http].map(|permits| permits.connections + permits.refusals);
            let rest = files.saturating_sub(RESERVED_FILES) as usize;
            let most = if rest < 2 * LEAST { rest + LEAST } else { rest };
            assert!(all[0] + all[1] <= most, "{files}: {all:?}");
            assert!(redis.connections >= http.connections);
            let least = redis.refusals.min(http.refusals);
            assert!(least >= MIN_REFUSALS, "{files}: a probe is closed unanswered");
        }
        let few = |connections, refusals| PermitCounts { connections, refusals };
        assert_eq!(PermitCounts::of(Some(1_024), MAX_CONNECTIONS), (few(648, 72), few(216, 24)));
        let all = few(MAX_CONNECTIONS, MAX_REFUSALS);
        assert_eq!(PermitCounts::of(None, MAX_CONNECTIONS), (all, all));
        assert_eq!(PermitCounts::of(Some(1_000_000), MAX_CONNECTIONS), (all, all));
    }

    #[test]
    fn few_files_are_refused_in_words() {
        assert_eq!(enough_files(None), Ok(None));
        assert_eq!(enough_files(Some(64)), Ok(Some(64)));
        let refused = enough_files(Some(20)).unwrap_err();
        assert!(refused.starts_with("at most 20 files may be open (ulimit -n)"), "{refused}");
    }

    #[test]
    fn no_front_end_has_more_connections_than_it_is_given() {
        let permits = |connections, refusals| PermitCounts { connections, refusals };
        assert_eq!(PermitCounts::of(Some(1_024), 300), (permits(300, 72), permits(216, 24)));
        let few = permits(1, MAX_REFUSALS);
        assert_eq!(PermitCounts::of(None, 1), (few, few));
        let many = permits(50_000, MAX_REFUSALS);
        assert_eq!(PermitCounts::of(None, 50_000), (many, many));
    }
}
