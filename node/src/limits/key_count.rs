//! How many keys the limits hold.
//!
//! A count reads every slot, which takes milliseconds a limit. So a thread counts, at most once a
//! second and for at most a twentieth of its time, and only on request; the caller waits for it.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::gossip::Limiter;

/// For how long a count is good enough.
const LIFE: Duration = Duration::from_secs(1);
/// How many times longer than it took a count is kept at least.
const LIVES_OF_WORK: u32 = 19;
/// How long the first caller waits for a count while it blocks other tasks of its thread, and how
/// long a caller waits after that: beyond it the last count stands.
const PATIENCE: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(2);
/// How many wait for a count at a time; a caller beyond that gets the last count.
const MAX_WAITING: usize = 16;

/// A count of keys that is renewed when it is asked for.
#[derive(Debug)]
pub struct KeyCount {
    shared: Arc<Shared>,
}

struct Shared {
    count: Box<dyn Fn() -> u64 + Send + Sync>,
    state: Mutex<State>,
    counted: Condvar,
}

#[derive(Debug)]
struct State {
    keys: u64,
    is_counting: bool,
    waiting: usize,
    /// When the count is too old; `None` before the first.
    expiry: Option<Instant>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl KeyCount {
    pub fn new(limiters: Vec<Arc<Limiter>>) -> Self {
        Self::by(move || count(&limiters))
    }

    /// One that is counted so.
    fn by(count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let state = State { keys: 0, is_counting: false, waiting: 0, expiry: None };
        let state = Mutex::new(state);
        let shared = Shared { count: Box::new(count), state, counted: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// The number of keys in debt, as of the last count, which is made anew where it is too old:
    /// then waits for it, at most [`LONGEST`].
    pub fn get(&self) -> u64 {
        let mut state = self.shared.state();
        let is_old = state.expiry.is_none_or(|expiry| Instant::now() >= expiry);
        if !is_old || state.waiting >= MAX_WAITING {
            return state.keys;
        }
        let is_first = !state.is_counting;
        if is_first {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("key count".to_owned());
            // Without a thread the last count stands.
            state.is_counting = thread.spawn(move || shared.count()).is_ok();
        }
        let waiting = Waiting::new(&self.shared, state);
        if !is_first || self.shared.wait(PATIENCE) {
            // A runtime that lacks the thread to do it aside panics before: the last count stands.
            let wait = || aside(|| self.shared.wait(LONGEST));
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait));
        }
        drop(waiting);
        self.shared.state().keys
    }
}

/// A caller that waits for a count, until it is dropped.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared, mut state: MutexGuard<'_, State>) -> Self {
        state.waiting += 1;
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// Runs what blocks this thread. A runtime's other tasks go on in another one.
fn aside<T>(blocks: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(blocks),
        _ => blocks(),
    }
}

/// The keys in debt of these limits.
fn count(limiters: &[Arc<Limiter>]) -> u64 {
    let parts = limiters.iter().flat_map(|limiter| {
        (0..limiter.live_parts()).map(move |part| limiter.live_part(part).count() as u64)
    });
    parts.sum()
}

/// A count under way. It ends also where it panics: the last one then stands, and another is made
/// once that is too old.
struct Counting<'a> {
    shared: &'a Shared,
    begin: Instant,
    /// Once they are counted.
    keys: Option<u64>,
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let end = Instant::now();
        let life = LIFE.max((end - self.begin).saturating_mul(LIVES_OF_WORK));
        let mut state = self.shared.state();
        let keys = self.keys.unwrap_or(state.keys);
        let waiting = state.waiting;
        *state = State { keys, is_counting: false, waiting, expiry: end.checked_add(life) };
        self.shared.counted.notify_all();
    }
}

impl Shared {
    fn count(&self) {
        let mut counting = Counting { shared: self, begin: Instant::now(), keys: None };
        counting.keys = Some((self.count)());
    }

    /// Waits for the count under way; whether that takes longer.
    fn wait(&self, within: Duration) -> bool {
        let is_counting = |state: &mut State| state.is_counting;
        let waited = self.counted.wait_timeout_while(self.state(), within, is_counting);
        waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No panic leaves a state half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "key_count_tests.rs"]
mod tests;
