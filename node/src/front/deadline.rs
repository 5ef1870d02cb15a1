//! Deadlines of clients.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

/// A time that is noticed so late passed while the node did not run: as much more is given then.
const NOTICED_LATE: Duration = Duration::from_millis(100);

/// Ends at a time, or somewhat later where that is noticed late: a node that was stopped, or whose
/// machine was, notices first how late it is, and only then what has come meanwhile.
pub async fn passed(deadline: Instant) {
    sleep_until(deadline).await;
    if deadline.elapsed() >= NOTICED_LATE {
        sleep(NOTICED_LATE).await;
    }
}
