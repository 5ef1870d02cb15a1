//! The threads of a node.

use std::io;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::telemetry::meter::FrontEndName;

/// A runtime each for the clients of Redis, for those of HTTP, and for all else: the cluster,
/// signals and the drain. A runtime has one queue of tasks that can run; between runtimes the
/// system divides the processors. So what busy Redis clients wait for, neither a health check nor a
/// peer does.
///
/// Each has as many threads as there are processors: what one leaves over, another may use.
#[derive(Debug)]
pub struct Threads {
    pub main: Runtime,
    resp: Runtime,
    http: Runtime,
}

/// Where the front-ends run.
#[derive(Clone, Debug)]
pub struct FrontEndThreads {
    resp: Handle,
    http: Handle,
}

impl Threads {
    /// # Errors
    /// One line.
    pub fn start() -> Result<Self, String> {
        let start = |name| {
            let runtime = Builder::new_multi_thread().enable_all().thread_name(name).build();
            runtime.map_err(|error| format!("threads cannot be started: {error}"))
        };
        Ok(Self {
            main: start("tidegate")?,
            resp: start("tidegate-resp")?,
            http: start("tidegate-http")?,
        })
    }

    pub fn of_front_ends(&self) -> FrontEndThreads {
        FrontEndThreads { resp: self.resp.handle().clone(), http: self.http.handle().clone() }
    }

    /// Ends them, without waiting for a thread that is blocked: a name may still be looked up, or a
    /// file be a pipe.
    pub fn end(self) {
        for runtime in [self.main, self.resp, self.http] {
            runtime.shutdown_background();
        }
    }
}

impl FrontEndThreads {
    pub const fn of(&self, name: FrontEndName) -> &Handle {
        match name {
            FrontEndName::Resp => &self.resp,
            FrontEndName::Http => &self.http,
        }
    }
}

/// Moves a listener to a runtime, where its connections then are too.
pub fn move_listener(listener: TcpListener, to: &Handle) -> io::Result<TcpListener> {
    let listener = listener.into_std()?;
    let _in_runtime = to.enter();
    TcpListener::from_std(listener)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;

    use super::*;

    /// How long anything may take that has to happen.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Clients of Redis that take all threads which they can.
    #[test]
    fn busy_clients_of_one_front_end_hold_up_nothing_else() {
        let threads = Threads::start().unwrap();
        let front_ends = threads.of_front_ends();
        let workers = front_ends.of(FrontEndName::Resp).metrics().num_workers();
        let tasks = 4 * workers;
        let (release, end) = mpsc::sync_channel::<()>(0);
        let (started, starts) = mpsc::sync_channel(tasks);
        let end = Arc::new(Mutex::new(end));
        for _ in 0..tasks {
            let (started, end) = (started.clone(), Arc::clone(&end));
            front_ends.of(FrontEndName::Resp).spawn(async move {
                started.send(()).unwrap();
                let _ = end.lock().unwrap().recv();
            });
        }
        (0..workers).for_each(|_| starts.recv().unwrap());
        let health = front_ends.of(FrontEndName::Http).spawn(async { 200 });
        let answered = threads.main.block_on(async {
            let gossip = tokio::spawn(async { 7 });
            let both = async { (gossip.await.unwrap(), health.await.unwrap()) };
            tokio::time::timeout(PATIENCE, both).await
        });
        assert_eq!(answered, Ok((7, 200)));
        drop(release);
        threads.end();
    }
}
