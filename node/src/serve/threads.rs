//! The threads of a node.

use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::telemetry::meter::FrontEndName;

/// A runtime each for the clients of Redis, for those of HTTP, and for all else: the cluster,
/// signals and the drain. A runtime has one queue of tasks that can run; between runtimes the
/// system divides the processors. So neither a health check nor a peer queues behind busy Redis
/// clients.
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
        let start =
            |name| build(Builder::new_multi_thread().enable_all().thread_name(name)).map_err(none);
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

/// The line about a thread that the node lacks at the start.
pub fn none(error: impl std::fmt::Display) -> String {
    format!("threads cannot be started: {error}")
}

/// Builds a runtime. tokio panics if a thread cannot be started, and then its destructor joins
/// those that were, which nothing ends. In a task, which must not block, it does not join: so the
/// runtime is built in one, and those threads stay idle until the process ends.
pub(super) fn build(runtime: &mut Builder) -> Result<Runtime, String> {
    let here = Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let built = here.block_on(async { quietly(|| runtime.build()) });
    match built {
        Ok(built) => built.map_err(|error| error.to_string()),
        Err(panic) => {
            let text = panic.downcast::<String>().map_or_else(|_| "no thread".into(), |text| *text);
            Err(text)
        }
    }
}

/// Catches a panic of this, and prints nothing about it.
fn quietly<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    done
}

/// Runs what may block on a thread that nothing waits for when the node stops. Not as the runtime
/// has such threads: it panics where it lacks one.
///
/// # Errors
/// One line, where there is no thread.
pub async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    run_on(thread::Builder::new().name("tidegate-files".to_owned()), work).await
}

async fn run_on<T: Send + 'static>(
    thread: thread::Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = oneshot::channel();
    let started = thread.spawn(move || drop(sender.send(work())));
    started.map_err(|error| format!("no thread: {error}"))?;
    receiver.await.map_err(|_| "its thread has ended".to_owned())
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

    /// A stack for which no machine has room.
    const ENDLESS: usize = usize::MAX / 8;

    /// As the system's refusal in the middle, where some are there.
    #[test]
    fn a_runtime_that_lacks_a_thread_is_an_error_and_waits_for_none() {
        let error = build(Builder::new_multi_thread().thread_stack_size(ENDLESS)).unwrap_err();
        assert!(error.contains("thread"), "{error}");
        let named = Mutex::new(0);
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(3).thread_name_fn(move || {
            let mut named = named.lock().unwrap();
            *named += 1;
            assert!(*named < 2, "no thread {}", *named);
            "one".to_owned()
        });
        assert_eq!(build(&mut runtime).unwrap_err(), "no thread 2");
        build(Builder::new_multi_thread().worker_threads(3)).unwrap();
    }

    #[tokio::test]
    async fn a_thread_that_cannot_be_had_is_an_error() {
        let missing = run_on(thread::Builder::new().stack_size(ENDLESS), || 7).await.unwrap_err();
        assert!(missing.starts_with("no thread: "), "{missing}");
        assert_eq!(apart(|| 7).await, Ok(7));
    }

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
