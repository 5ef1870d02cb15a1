//! The threads on which a node's tasks run.
//!
//! The operating system gives them their turn beside all other threads: neither a runtime that is
//! busy with clients, nor a task of the embedding service that blocks, delays membership or gossip.
//! One thread has the protocol's state, which has one owner, and another one the links: what a step
//! of the protocol takes delays no acknowledgement of QUIC. Where packets are lost, what a link
//! carries is inversely proportional to its round trips.

use std::thread::Builder;

use tokio::runtime;
use tokio::sync::oneshot;

use super::{Handle, begin};
use crate::config::{Config, StartError};

/// What the operating system calls the threads.
const NAME: &str = "tidegate-gossip";

/// Starts a node on threads of its own, and waits until it is bound. Nothing keeps running where
/// that fails, or where nobody waits for it any more.
pub(super) async fn start(config: Config) -> Result<Handle, StartError> {
    let (tell, told) = oneshot::channel();
    Builder::new()
        .name(NAME.into())
        .spawn(move || run(config, tell))
        .map_err(StartError::Thread)?;
    told.await.unwrap_or_else(|_| Err(StartError::Thread(std::io::ErrorKind::Other.into())))
}

fn run(config: Config, tell: oneshot::Sender<Result<Handle, StartError>>) {
    let runtime = match runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(NAME)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return drop(tell.send(Err(StartError::Thread(error)))),
    };
    runtime.block_on(async {
        match begin(config) {
            Ok((handle, running)) => {
                if tell.send(Ok(handle)).is_ok() {
                    running.await;
                }
            }
            Err(error) => drop(tell.send(Err(error))),
        }
    });
    // A file of seeds that blocks its reader keeps neither this thread nor the process.
    runtime.shutdown_background();
}
