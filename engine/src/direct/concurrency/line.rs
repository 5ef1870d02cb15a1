//! The waiters for permits, in order of arrival.
//!
//! The list has a lock, held for one list operation, plus one more and an exchange of the word for
//! each waiter that gets a result; there is no pause under it. It is never held while a waker is
//! cloned, called or dropped, which may run any code and re-enter this module. A bit of the word
//! says whether the list is empty; it changes only under the lock. Permits go to the head of the
//! list as soon as there are enough for it, so a waiter is woken when it has its permit, and a
//! small cost never passes an earlier large one.

use core::future::{Future, poll_fn};
use core::mem;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::thread;
use std::time::Instant;

use crate::base::decision::Decision;
use crate::base::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::contract::wait::{WaiterGuard, unpark_this_thread};

use super::word::{self, PermitWord};
use super::{Concurrency, Permit};

#[derive(Debug)]
pub(super) struct WaiterList {
    state: Mutex<LineState>,
}

#[derive(Debug)]
struct LineState {
    /// By number, which is the order of arrival.
    waiting: BTreeMap<u64, Waiter>,
    /// Results by number, until the waiter fetches them.
    answered: BTreeMap<u64, PermitResult>,
    /// The number of the next waiter.
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    cost: u64,
    waker: Waker,
}

/// Granted, or never.
type PermitResult = Result<Decision, Decision>;

impl WaiterList {
    pub(super) fn new() -> Self {
        let (waiting, answered) = (BTreeMap::new(), BTreeMap::new());
        Self { state: Mutex::new(LineState { waiting, answered, next: 0 }) }
    }

    /// Nothing panics half-way under the lock, so a poisoned one is still consistent.
    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the list under the lock, serves the waiters that the word has room for, and wakes
    /// them.
    fn change<T>(&self, word: &AtomicU64, act: impl FnOnce(&mut LineState) -> T) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        let woken = state.serve(word);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Serves the waiters that the word has room for.
    pub(super) fn serve(&self, word: &AtomicU64) {
        self.change(word, |_| ());
    }

    /// Returns units while there are waiters.
    #[cold]
    #[inline(never)]
    pub(super) fn give_back(&self, word: &AtomicU64, cost: u64) {
        self.change(word, |_| {
            let _ = word::update(word, Ordering::Release, |word| Some(word.returned(cost))); // C2
        });
    }

    /// Appends a waiter to the list; returns its number.
    fn push(&self, word: &AtomicU64, cost: u64, waker: &Waker) -> u64 {
        let waker = waker.clone();
        self.change(word, |state| {
            let number = state.next;
            state.next += 1;
            state.waiting.insert(number, Waiter { cost, waker });
            mark(word, true);
            number
        })
    }

    /// The result of a waiter; if there is none yet, `waker` is woken by it.
    fn ask(&self, number: u64, waker: &Waker) -> Option<PermitResult> {
        // Cloned before the lock and hence dropped after it: this one, or the one it replaces.
        let mut waker = waker.clone();
        let mut state = self.lock();
        let Some(waiter) = state.waiting.get_mut(&number) else {
            return state.answered.remove(&number);
        };
        mem::swap(&mut waiter.waker, &mut waker);
        None
    }

    /// Removes a waiter from the list; returns its result, if there is one.
    fn leave(&self, word: &AtomicU64, number: u64) -> Option<PermitResult> {
        let (_gone, answer) = self
            .change(word, |state| (state.waiting.remove(&number), state.answered.remove(&number)));
        answer
    }
}

impl LineState {
    /// Serves the head of the list as long as the word has room for it, or denies it if it never
    /// will.
    fn serve(&mut self, word: &AtomicU64) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(entry) = self.waiting.first_entry() {
            let head = entry.get();
            // C4
            let answer = match word::update(word, Ordering::Acquire, |word| word.taken(head.cost)) {
                Ok(before) => Ok(before.granted(head.cost)),
                Err(found) if head.cost > found.limit() => Err(found.denied(head.cost)),
                Err(_) => return woken,
            };
            self.answered.insert(*entry.key(), answer);
            woken.push(entry.remove().waker);
        }
        mark(word, false);
        woken
    }
}

/// Stores in the word whether there are waiters.
fn mark(word: &AtomicU64, waiters: bool) {
    let marked =
        |word: PermitWord| (word.has_waiters() != waiters).then(|| word.with_waiters(waiters));
    let _ = word::update(word, Ordering::Relaxed, marked); // C5
}

/// A waiter for permits; gives up its place when dropped.
#[derive(Debug)]
pub(super) struct Waiting<'c> {
    concurrency: &'c Concurrency,
    cost: u64,
    /// In the list from the first poll to the result.
    place: ListPlace,
    _guard: WaiterGuard<'c>,
}

#[derive(Clone, Copy, Debug)]
enum ListPlace {
    Outside,
    InLine(u64),
}

impl<'c> Waiting<'c> {
    pub(super) fn new(concurrency: &'c Concurrency, cost: u64, guard: WaiterGuard<'c>) -> Self {
        Self { concurrency, cost, place: ListPlace::Outside, _guard: guard }
    }

    /// The permit, or the denial of a cost that never fits; `waker` is woken when there is one.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<Permit<'c>, Decision>> {
        let Concurrency { word, line, .. } = self.concurrency;
        let number = match self.place {
            ListPlace::InLine(number) => number,
            ListPlace::Outside => line.push(word, self.cost, waker),
        };
        self.place = ListPlace::InLine(number);
        let Some(answer) = line.ask(number, waker) else { return Poll::Pending };
        self.place = ListPlace::Outside;
        Poll::Ready(self.permit(answer))
    }

    /// Gives up: the permit if it has just been granted, else a denial.
    pub(super) fn give_up(mut self) -> Result<Permit<'c>, Decision> {
        let denied = self.concurrency.load().denied(self.cost);
        let answer = self.leave().unwrap_or(Err(denied));
        self.permit(answer)
    }

    fn permit(&self, answer: PermitResult) -> Result<Permit<'c>, Decision> {
        answer.map(|decision| Permit::new(self.concurrency, self.cost, decision))
    }

    fn leave(&mut self) -> Option<PermitResult> {
        match mem::replace(&mut self.place, ListPlace::Outside) {
            ListPlace::Outside => None,
            ListPlace::InLine(number) => {
                self.concurrency.line.leave(&self.concurrency.word, number)
            }
        }
    }

    /// Waits for the result or the end of `sleep`.
    pub(super) async fn wait_on(
        mut self,
        sleep: impl Future<Output = ()>,
    ) -> Result<Permit<'c>, Decision> {
        let mut sleep = pin!(sleep);
        let over = |cx: &mut Context<'_>| match self.poll(cx.waker()) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
        };
        match poll_fn(over).await {
            Some(answer) => answer,
            None => self.give_up(),
        }
    }

    /// Blocks the thread until there is a result or `max_wait` is over.
    pub(super) fn block(mut self, max_wait: Duration) -> Result<Permit<'c>, Decision> {
        let begin = Instant::now();
        let waker = unpark_this_thread();
        loop {
            if let Poll::Ready(answer) = self.poll(&waker) {
                return answer;
            }
            match max_wait.checked_sub(begin.elapsed()) {
                None | Some(Duration::ZERO) => return self.give_up(),
                Some(rest) => thread::park_timeout(rest),
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(Ok(_)) = self.leave() {
            self.concurrency.give_back(self.cost);
        }
    }
}
