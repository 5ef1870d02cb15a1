//! How many keys the limits hold.
//!
//! A count reads every slot, which takes milliseconds a limit. So a thread counts, at most once a
//! second and for at most a twentieth of its time, and only where somebody asks.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::gossip::Limiter;

/// For how long a count is good enough.
const LIFE: Duration = Duration::from_secs(1);
/// How many times longer than it took a count is kept at least.
const LIVES_OF_WORK: u32 = 19;
/// How long the one who asks first waits for the count; whoever asks meanwhile gets the last one.
const PATIENCE: Duration = Duration::from_millis(5);

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
        let state = State { keys: 0, is_counting: false, expiry: None };
        let state = Mutex::new(state);
        let shared = Shared { count: Box::new(count), state, counted: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// The number of keys in debt, as of the last count. Waits at most [`PATIENCE`], and at most
    /// once in [`LIFE`].
    pub fn get(&self) -> u64 {
        let mut state = self.shared.state();
        let is_old = state.expiry.is_none_or(|expiry| Instant::now() >= expiry);
        if state.is_counting || !is_old {
            return state.keys;
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("key count".to_owned());
        // Without a thread the last count stands.
        state.is_counting = thread.spawn(move || shared.count()).is_ok();
        let is_counting = |state: &mut State| state.is_counting;
        let waited = self.shared.counted.wait_timeout_while(state, PATIENCE, is_counting);
        waited.map_or_else(|error| error.into_inner().0.keys, |(state, _)| state.keys)
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
        *state = State { keys, is_counting: false, expiry: end.checked_add(life) };
        self.shared.counted.notify_all();
    }
}

impl Shared {
    fn count(&self) {
        let mut counting = Counting { shared: self, begin: Instant::now(), keys: None };
        counting.keys = Some((self.count)());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No panic leaves a state half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "key_count_tests.rs"]
mod tests;
