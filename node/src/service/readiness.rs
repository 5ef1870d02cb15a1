//! Whether this node is ready for clients: it joins its cluster, then serves, then stops. It may
//! stop without having joined. What was reached is never left again.

use std::sync::OnceLock;

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Readiness {
    joined: Flag,
    stopping: Flag,
    changed: Notify,
}

/// Set once and read by a load. A thread that sees it set also sees what happened before: the state
/// that was taken over, and the flags that were set.
type Flag = OnceLock<()>;

/// What a node does for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It does not know yet what other nodes have admitted: checks wait.
    Joining,
    Ready,
    /// It was asked to stop. Once it had joined, whatever reaches it is answered nevertheless.
    Draining,
}

impl Readiness {
    pub fn new() -> Self {
        Self::default()
    }

    /// The node has joined its cluster, or is in none.
    pub fn join(&self) {
        self.set(&self.joined);
    }

    /// The node was asked to stop.
    pub fn stop(&self) {
        self.set(&self.stopping);
    }

    fn set(&self, flag: &Flag) {
        // It may be set already.
        let _ = flag.set(());
        self.changed.notify_waiters();
    }

    pub fn phase(&self) -> Phase {
        if self.is_stopping() {
            Phase::Draining
        } else if self.has_joined() {
            Phase::Ready
        } else {
            Phase::Joining
        }
    }

    /// Waits until checks may be decided: whether they may. They never may if the node was asked to
    /// stop before it had joined.
    ///
    /// Cancel-safe: dropping the future changes nothing, and any number may wait.
    #[inline]
    pub async fn joined(&self) -> bool {
        if self.has_joined() {
            return true;
        }
        // It is woken by what is set after its creation, so what was set before is seen here.
        let changed = self.changed.notified();
        if self.phase() == Phase::Joining {
            changed.await;
        }
        self.has_joined()
    }

    #[inline]
    fn has_joined(&self) -> bool {
        self.joined.get().is_some()
    }

    /// Whether the node was asked to stop.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Phase, Readiness};

    #[test]
    fn a_node_joins_is_ready_and_drains() {
        let readiness = Readiness::new();
        assert_eq!(readiness.phase(), Phase::Joining);
        readiness.join();
        assert_eq!(readiness.phase(), Phase::Ready);
        readiness.stop();
        assert_eq!(readiness.phase(), Phase::Draining);
    }

    #[tokio::test]
    async fn all_waiters_learn_how_joining_ended() {
        for has_joined in [true, false] {
            let readiness = Arc::new(Readiness::new());
            let wait = |_| {
                let readiness = Arc::clone(&readiness);
                tokio::spawn(async move { readiness.joined().await })
            };
            let waiting: Vec<_> = (0..3).map(wait).collect();
            tokio::task::yield_now().await;
            assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
            if has_joined {
                readiness.join();
            } else {
                readiness.stop();
            }
            for waiting in waiting {
                assert_eq!(waiting.await.unwrap(), has_joined);
            }
            // A node that drains answers clients that still arrive as it did before.
            readiness.stop();
            assert_eq!(readiness.joined().await, has_joined);
        }
    }
}
