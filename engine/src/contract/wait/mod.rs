//! Waiting instead of being denied: a place in line, its start time, and a timer to sleep on.
//!
//! A waiter charges the key's word into the future, in one atomic step. The charge is a ticket: the
//! resulting word determines when the waiter starts, and until then it sleeps. The tickets of a key
//! are in a list, so that when one is given up those behind it move up (`list.rs`); checks, and
//! calls that start at once unless they are given up, do not touch the list.

mod bound;
mod charge;
mod list;
mod lists;
#[cfg(all(test, loom))]
mod models;
mod moved;
mod timer;
mod turn;
mod waiters;

pub use bound::{Deadline, Wait};
pub(crate) use charge::{Behind, Charge, Granted, Removal, TakenOff};
pub(crate) use lists::WaitLists;
pub(crate) use timer::LONGEST_SLEEP;
#[cfg(feature = "acquire")]
pub use timer::ThreadTimer;
pub use timer::Timer;
#[cfg(feature = "std")]
pub(crate) use timer::{sleep_for, unpark_this_thread};
pub use turn::{Hold, JoinRequest, JoinResult, Line, Rest, Turn};
pub(crate) use turn::{line, until};
pub use waiters::DEFAULT_MAX_WAITERS;
#[cfg(feature = "std")]
pub(crate) use waiters::WaiterGuard;
pub(crate) use waiters::Waiters;
