//! The threads on which a node's tasks run.
//!
//! The operating system schedules them concurrently with all other threads: neither a runtime that
//! is busy with clients, nor a task of the embedding service that blocks, delays membership or
//! gossip. One thread has the protocol's state, which has one owner, and another one the links:
//! what a step of the protocol takes delays no acknowledgement of QUIC. Where packets are lost,
//! what a link carries is inversely proportional to its round trips.
//!
//! Each has a runtime, and so timers, of its own: where the protocol waits for the next flush, no
//! other thread has to wake for it. All threads are started here, where one that cannot be had is
//! an error: a runtime that starts threads panics.

use std::io;
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

use tokio::runtime::{self, Handle, Runtime};
use tokio::sync::oneshot;

use crate::config::StartError;

/// What the operating system calls the threads, and those that may block.
const NAME: &str = "tidegate-gossip";
const BLOCKING_NAME: &str = "tidegate-seeds";
/// How long the end of the links is waited for, at most. Their tasks do not block, so it takes less
/// than a millisecond; but what they log is written by a subscriber of the embedding service.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// Begins a node on threads of its own and waits for its handle; what `begin` returns with it runs
/// there. Its output is dropped once all has ended that the node ran, and its sockets are closed.
/// Nothing keeps running where `begin` fails, or where no caller waits for it any more.
pub(super) async fn start<H, F>(
    begin: impl FnOnce() -> Result<(H, F), StartError> + Send + 'static,
) -> Result<H, StartError>
where
    H: Send + 'static,
    F: Future,
{
    let (sender, receiver) = oneshot::channel();
    Builder::new()
        .name(NAME.into())
        .spawn(move || run(begin, sender))
        .map_err(StartError::Thread)?;
    receiver.await.unwrap_or_else(|_| Err(StartError::Thread(std::io::ErrorKind::Other.into())))
}

fn run<H, F: Future>(
    begin: impl FnOnce() -> Result<(H, F), StartError>,
    sender: oneshot::Sender<Result<H, StartError>>,
) {
    let (own, links) = match runtimes() {
        Ok(runtimes) => runtimes,
        Err(error) => return drop(sender.send(Err(StartError::Thread(error)))),
    };
    let started = {
        let _in_links = links.tasks.enter();
        begin()
    };
    match started {
        Ok((handle, running)) => {
            if sender.send(Ok(handle)).is_ok() {
                let awaited = own.block_on(running);
                links.end();
                drop(awaited);
            }
        }
        Err(error) => drop(sender.send(Err(error))),
    }
}

/// That of the protocol, for the calling thread, and that of the links.
fn runtimes() -> io::Result<(Runtime, Links)> {
    let own = runtime::Builder::new_current_thread().enable_time().build()?;
    let links = runtime::Builder::new_current_thread().enable_all().build()?;
    Ok((own, Links::start(links)?))
}

/// The tasks of links, on a thread of their own: they end with this.
struct Links {
    tasks: Handle,
    end: oneshot::Sender<()>,
    /// Disconnected once they have ended.
    ended: mpsc::Receiver<()>,
}

impl Links {
    fn start(runtime: Runtime) -> io::Result<Self> {
        let (end, is_over) = oneshot::channel();
        let (ending, ended) = mpsc::sync_channel(0);
        let tasks = runtime.handle().clone();
        Builder::new().name(NAME.into()).spawn(move || {
            // An error says that `end` is gone.
            let _ = runtime.block_on(is_over);
            drop(runtime);
            drop(ending);
        })?;
        Ok(Self { tasks, end, ended })
    }

    /// Ends them, and waits until what they hold is dropped, sockets among it.
    fn end(self) {
        drop(self.end);
        // Nothing is sent: it is disconnected, or takes too long.
        let _ = self.ended.recv_timeout(END_TIMEOUT);
    }
}

/// Work that may block, as a question to the system's resolver.
pub(super) type Work = Box<dyn FnOnce() + Send>;
/// Begins it elsewhere.
pub(super) type Begin = fn(Work) -> Result<(), String>;

/// Begins work on a thread that neither the node nor the process waits for at its end.
///
/// # Errors
/// There is no thread.
pub(super) fn begin(work: Work) -> Result<(), String> {
    begin_on(Builder::new().name(BLOCKING_NAME.into()), work)
}

fn begin_on(thread: Builder, work: Work) -> Result<(), String> {
    let started = thread.spawn(work);
    started.map_err(|error| format!("no thread: {error}"))?;
    Ok(())
}

/// What is said of work whose thread has ended without a result.
pub(super) fn ended() -> String {
    "its thread has ended".to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::sleep;

    use super::*;

    /// How long anything may take that has to happen.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// What a task of links holds, as a socket.
    struct Held {
        is_closed: Arc<AtomicBool>,
        takes: Duration,
    }

    impl Drop for Held {
        fn drop(&mut self) {
            sleep(self.takes);
            self.is_closed.store(true, Ordering::Relaxed);
        }
    }

    /// Runs a node that ends at once: whether what its links hold is closed when a caller
    /// learns of it.
    async fn is_closed_when_asked(takes: Duration) -> bool {
        let is_closed = Arc::new(AtomicBool::new(false));
        let held = Held { is_closed: Arc::clone(&is_closed), takes };
        let end = start(move || {
            Handle::current().spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            let (asked, end) = oneshot::channel::<()>();
            Ok((end, async move { asked }))
        });
        let closed = tokio::time::timeout(PATIENCE, end.await.unwrap()).await;
        assert!(closed.is_ok_and(|closed| closed.is_err()));
        is_closed.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn who_waits_for_the_end_of_a_node_finds_its_sockets_closed() {
        assert!(is_closed_when_asked(END_TIMEOUT / 50).await);
    }

    #[tokio::test]
    async fn a_task_that_blocks_is_not_waited_for_without_end() {
        assert!(!is_closed_when_asked(END_TIMEOUT * 20).await);
    }

    #[test]
    fn a_thread_that_cannot_be_had_is_an_error() {
        let thread = Builder::new().stack_size(usize::MAX / 8);
        let missing = begin_on(thread, Box::new(|| ())).unwrap_err();
        assert!(missing.starts_with("no thread: "), "{missing}");
        let (sender, receiver) = mpsc::sync_channel(1);
        begin(Box::new(move || sender.send(7).unwrap())).unwrap();
        assert_eq!(receiver.recv(), Ok(7));
    }
}
