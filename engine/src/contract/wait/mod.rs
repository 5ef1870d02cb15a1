//! Waiting instead of being denied: a place in line, its start time, and a timer to sleep on.
//!
//! A waiter charges the key's word into the future, in one atomic step. The charge is a ticket: the
//! resulting word determines when its holder starts. So there is no list of waiters, no waiter is
//! woken in vain, and one that is never polled again delays no other. Each sleeps until its start
//! and wakes once.

mod bound;
#[cfg(all(test, loom))]
mod models;
mod timer;
mod turn;
mod waiters;

pub use bound::Wait;
#[cfg(feature = "acquire")]
pub use timer::ThreadTimer;
pub use timer::Timer;
#[cfg(feature = "std")]
pub(crate) use timer::sleep_for;
pub(crate) use turn::{Granted, line};
pub use turn::{Line, Turn};
pub use waiters::DEFAULT_MAX_WAITERS;
#[cfg(feature = "std")]
pub(crate) use waiters::WaiterGuard;
pub(crate) use waiters::Waiters;
