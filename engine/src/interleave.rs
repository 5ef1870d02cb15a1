//! Atomics whose accesses can be replayed, for the exhaustive search over interleavings
//! (`--cfg interleave`). Memory is sequentially consistent here: orderings are loom's to judge.
//!
//! The state of a thread that only accesses atomics is determined by the values it has observed. So
//! running it again with the list of those values leads to its next access.

#![cfg_attr(
    not(test),
    allow(dead_code, reason = "only the search, which is a test, stops threads")
)]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU64 as Inner;
use std::vec;

pub(crate) use std::sync::atomic::Ordering;

/// What an access does to the value it observes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Load,
    Store(u64),
    Add(u64),
    Exchange { expected: u64, new: u64 },
}

impl Access {
    /// The value after the access.
    pub(crate) fn apply(self, observed: u64) -> u64 {
        match self {
            Self::Load => observed,
            Self::Store(value) => value,
            Self::Add(value) => observed.wrapping_add(value),
            Self::Exchange { expected, new } => {
                if observed == expected {
                    new
                } else {
                    observed
                }
            }
        }
    }
}

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// An access to the atomic at this address.
    Access(usize, Access),
    Done(u64),
}

/// How this thread's accesses are executed.
enum Mode {
    /// For real, at most this many.
    Real(usize),
    /// They observe the listed values, and the one after those stops the thread.
    Replayed(vec::IntoIter<u64>),
}

thread_local! {
    static MODE: RefCell<Mode> = const { RefCell::new(Mode::Real(usize::MAX)) };
}

/// Thrown through a thread to stop it before an access.
struct Stopped(usize, Access);

/// Runs `thread` up to the access that follows those which observed `seen`.
pub(crate) fn resume(seen: Vec<u64>, thread: impl FnOnce() -> u64) -> Next {
    MODE.set(Mode::Replayed(seen.into_iter()));
    let outcome = catch_unwind(AssertUnwindSafe(thread));
    MODE.set(Mode::Real(usize::MAX));
    match outcome {
        Ok(result) => Next::Done(result),
        Err(payload) => match payload.downcast::<Stopped>() {
            Ok(stopped) => Next::Access(stopped.0, stopped.1),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// Runs `thread` for real; panics if it needs more than `limit` accesses.
pub(crate) fn run_within<T>(limit: usize, thread: impl FnOnce() -> T) -> T {
    MODE.set(Mode::Real(limit));
    let result = thread();
    MODE.set(Mode::Real(usize::MAX));
    result
}

#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct AtomicU64(Inner);

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self(Inner::new(value))
    }

    pub(crate) fn load(&self, _: Ordering) -> u64 {
        self.access(Access::Load)
    }

    pub(crate) fn store(&self, value: u64, _: Ordering) {
        self.access(Access::Store(value));
    }

    pub(crate) fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
        self.access(Access::Add(value))
    }

    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value.wrapping_neg(), order)
    }

    pub(crate) fn fetch_min(&self, value: u64, order: Ordering) -> u64 {
        loop {
            let seen = self.load(order);
            if seen <= value || self.compare_exchange(seen, value, order, order).is_ok() {
                return seen;
            }
        }
    }

    pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        loop {
            let seen = self.load(order);
            if seen >= value || self.compare_exchange(seen, value, order, order).is_ok() {
                return seen;
            }
        }
    }

    pub(crate) fn compare_exchange(
        &self,
        expected: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        let observed = self.access(Access::Exchange { expected, new });
        if observed == expected { Ok(observed) } else { Err(observed) }
    }

    fn access(&self, access: Access) -> u64 {
        let observed = MODE.with_borrow_mut(|mode| match mode {
            Mode::Real(left) => {
                *left =
                    left.checked_sub(1).expect("a thread that runs alone needs too many accesses");
                let update = |seen| Some(access.apply(seen));
                self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update).ok()
            }
            Mode::Replayed(seen) => seen.next(),
        });
        observed.unwrap_or_else(|| {
            resume_unwind(Box::new(Stopped(std::ptr::from_ref(self).addr(), access)))
        })
    }
}

/// Does nothing: accesses are sequentially consistent.
pub(crate) fn fence(_: Ordering) {}
