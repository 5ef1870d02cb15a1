//! The threads on which a node's tasks run.
//!
//! The operating system schedules them concurrently with all other threads: neither a runtime that
//! is busy with clients, nor a task of the embedding service that blocks, delays membership or
//! gossip. One thread has the protocol's state, which has one owner, and another one the links:
//! what a step of the protocol takes delays no acknowledgement of QUIC. Where packets are lost,
//! what a link carries is inversely proportional to its round trips.
//!
//! Each has a runtime, and so timers, of its own: where the protocol waits for the next flush, no
//! other thread has to wake for it.

use std::io;
use std::thread::Builder;

use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;

use crate::config::StartError;

/// What the operating system calls the threads.
const NAME: &str = "tidegate-gossip";

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
        let _in_links = links.enter();
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
    // A file of seeds that blocks its reader keeps neither this thread nor the process.
    links.shutdown_background();
}

/// That of the protocol, on the calling thread, and that of the links.
fn runtimes() -> io::Result<(Runtime, Runtime)> {
    let own = runtime::Builder::new_current_thread().enable_time().build()?;
    let mut links = runtime::Builder::new_multi_thread();
    let links = links.worker_threads(1).thread_name(NAME).enable_all().build()?;
    Ok((own, links))
}
