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
use std::thread::Builder;

use tokio::runtime::{self, Handle, Runtime};
use tokio::sync::oneshot;

use crate::config::StartError;

/// What the operating system calls the threads, and those that may block.
const NAME: &str = "tidegate-gossip";
const BLOCKING_NAME: &str = "tidegate-seeds";

/// Begins a node on threads of its own and waits for its handle; what `begin` returns with it runs
/// there. Nothing keeps running where `begin` fails, or where no caller waits for it any more.
pub(super) async fn start<H, F>(
    begin: impl FnOnce() -> Result<(H, F), StartError> + Send + 'static,
) -> Result<H, StartError>
where
    H: Send + 'static,
    F: Future<Output = ()>,
{
    let (sender, receiver) = oneshot::channel();
    Builder::new()
        .name(NAME.into())
        .spawn(move || run(begin, sender))
        .map_err(StartError::Thread)?;
    receiver.await.unwrap_or_else(|_| Err(StartError::Thread(std::io::ErrorKind::Other.into())))
}

fn run<H, F: Future<Output = ()>>(
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
                own.block_on(running);
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
    _end: oneshot::Sender<()>,
}

impl Links {
    fn start(runtime: Runtime) -> io::Result<Self> {
        let (end, ended) = oneshot::channel();
        let tasks = runtime.handle().clone();
        // An error says that `end` is gone.
        Builder::new().name(NAME.into()).spawn(move || drop(runtime.block_on(ended)))?;
        Ok(Self { tasks, _end: end })
    }
}

/// Runs what may block, as a question to the system's resolver, on a thread that neither the node
/// nor the process waits for at its end.
///
/// # Errors
/// There is no thread.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = oneshot::channel();
    begin(Box::new(move || drop(sender.send(work()))))?;
    receiver.await.map_err(|_| ended())
}

/// Begins it, and waits for nothing.
///
/// # Errors
/// There is no thread.
pub(super) fn begin(work: Box<dyn FnOnce() + Send>) -> Result<(), String> {
    begin_on(Builder::new().name(BLOCKING_NAME.into()), work)
}

fn begin_on(thread: Builder, work: Box<dyn FnOnce() + Send>) -> Result<(), String> {
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
    use super::*;

    #[tokio::test]
    async fn a_thread_that_cannot_be_had_is_an_error() {
        let thread = Builder::new().stack_size(usize::MAX / 8);
        let missing = begin_on(thread, Box::new(|| ())).unwrap_err();
        assert!(missing.starts_with("no thread: "), "{missing}");
        assert_eq!(apart(|| 7).await, Ok(7));
    }
}
