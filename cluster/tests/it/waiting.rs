//! Waiting for what other nodes do.

use std::time::Duration;

/// Tests wait for conditions; this only ends a test that has failed.
pub const TIMEOUT: Duration = Duration::from_mins(2);
/// Between two looks at a condition.
pub const PAUSE: Duration = Duration::from_millis(2);

pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, waiting).await.is_ok(), "never: {what}");
}
