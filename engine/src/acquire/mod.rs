//! Waiting instead of being denied: a place in line, a time at which it begins, and a timer to sleep by.
//!
//! Who has to wait charges the key's word into the future, in one atomic step. The charge is a ticket: what
//! it makes of the word says when its holder starts. So there is no list of waiters, nobody is woken to find
//! that another was faster, and a waiter that is never polled again holds up no other. Each sleeps until its own
//! time and wakes once.

#[cfg(all(test, loom))]
mod models;
mod timer;
mod turn;
mod wait;
mod waiters;

#[cfg(feature = "acquire")]
pub use timer::ThreadTimer;
pub use timer::Timer;
#[cfg(feature = "std")]
pub(crate) use timer::sleep_for;
pub(crate) use turn::{Granted, line};
pub use turn::{Line, Turn};
pub use wait::Wait;
pub use waiters::DEFAULT_MAX_WAITERS;
#[cfg(feature = "std")]
pub(crate) use waiters::Seat;
pub(crate) use waiters::Waiters;
