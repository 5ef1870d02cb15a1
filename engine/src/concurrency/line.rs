//! Those who wait for permits, in the order in which they came.
//!
//! The list has a lock, which is held for one step in the list, and for each waiter that is answered one more and an
//! exchange of the word; nobody pauses under it. It is never held while a waker is cloned, called or dropped: that may
//! run anything, and come back here. The word says whether the list is empty; that bit changes under the lock only.
//! Permits go to the head of the list as soon as they are enough for it, so a waiter is woken when it has its permit,
//! and a small cost never passes a large one that came before.

use core::future::{Future, poll_fn};
use core::mem;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Instant;

use crate::acquire::Seat;
use crate::decision::Decision;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

use super::word::{self, Word};
use super::{Concurrency, Permit};

#[derive(Debug)]
pub(super) struct Line {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By their numbers, which is the order in which they came.
    waiting: BTreeMap<u64, Waiter>,
    /// What the waiter of this number has not fetched yet.
    answered: BTreeMap<u64, Answer>,
    /// The number of the next waiter.
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    cost: u64,
    waker: Waker,
}

/// Granted, or never.
type Answer = Result<Decision, Decision>;

impl Line {
    pub(super) fn new() -> Self {
        let (waiting, answered) = (BTreeMap::new(), BTreeMap::new());
        Self { state: Mutex::new(State { waiting, answered, next: 0 }) }
    }

    /// Nothing under the lock panics half-way; a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the list under the lock, answers whom the word has room for, and wakes them.
    fn change<T>(&self, word: &AtomicU64, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        let woken = state.serve(word);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Answers those whom the word has room for.
    pub(super) fn serve(&self, word: &AtomicU64) {
        self.change(word, |_| ());
    }

    /// Returns units while somebody waits.
    #[cold]
    #[inline(never)]
    pub(super) fn give_back(&self, word: &AtomicU64, cost: u64) {
        self.change(word, |_| {
            let _ = word::update(word, Ordering::Release, |word| Some(word.returned(cost)));
        });
    }

    /// The number of a waiter at the end of the list.
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

    /// The answer to a waiter; if there is none yet, `waker` is woken by it.
    fn ask(&self, number: u64, waker: &Waker) -> Option<Answer> {
        // Before the lock, and so dropped after it: this one, or the one it takes the place of.
        let mut waker = waker.clone();
        let mut state = self.lock();
        let Some(waiter) = state.waiting.get_mut(&number) else {
            return state.answered.remove(&number);
        };
        mem::swap(&mut waiter.waker, &mut waker);
        None
    }

    /// Takes a waiter out of the list; what it has been answered, if it has.
    fn leave(&self, word: &AtomicU64, number: u64) -> Option<Answer> {
        let (_gone, answer) = self
            .change(word, |state| (state.waiting.remove(&number), state.answered.remove(&number)));
        answer
    }
}

impl State {
    /// Answers the head of the list as long as the word has room for it or never will.
    fn serve(&mut self, word: &AtomicU64) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(entry) = self.waiting.first_entry() {
            let head = entry.get();
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

/// Says in the word whether somebody waits.
fn mark(word: &AtomicU64, waiters: bool) {
    let marked = |word: Word| (word.has_waiters() != waiters).then(|| word.with_waiters(waiters));
    let _ = word::update(word, Ordering::Relaxed, marked);
}

/// One who waits for permits; gives up its place when dropped.
#[derive(Debug)]
pub(super) struct Waiting<'c> {
    concurrency: &'c Concurrency,
    cost: u64,
    /// Where it stands: in the list from the first poll to the answer.
    place: Place,
    _seat: Seat<'c>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Outside,
    InLine(u64),
}

impl<'c> Waiting<'c> {
    pub(super) fn new(concurrency: &'c Concurrency, cost: u64, seat: Seat<'c>) -> Self {
        Self { concurrency, cost, place: Place::Outside, _seat: seat }
    }

    /// The permit, or the denial of what never fits; `waker` is woken when there is one.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<Permit<'c>, Decision>> {
        let Concurrency { word, line, .. } = self.concurrency;
        let number = match self.place {
            Place::InLine(number) => number,
            Place::Outside => line.push(word, self.cost, waker),
        };
        self.place = Place::InLine(number);
        let Some(answer) = line.ask(number, waker) else { return Poll::Pending };
        self.place = Place::Outside;
        Poll::Ready(self.permit(answer))
    }

    /// Gives up: the permit if it has just been granted, else a denial.
    pub(super) fn give_up(mut self) -> Result<Permit<'c>, Decision> {
        let denied = self.concurrency.load().denied(self.cost);
        let answer = self.leave().unwrap_or(Err(denied));
        self.permit(answer)
    }

    fn permit(&self, answer: Answer) -> Result<Permit<'c>, Decision> {
        answer.map(|decision| Permit::new(self.concurrency, self.cost, decision))
    }

    fn leave(&mut self) -> Option<Answer> {
        match mem::replace(&mut self.place, Place::Outside) {
            Place::Outside => None,
            Place::InLine(number) => self.concurrency.line.leave(&self.concurrency.word, number),
        }
    }

    /// Waits until there is an answer or `sleep` is over.
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

    /// Blocks the thread until there is an answer or `max_wait` is over.
    pub(super) fn block(mut self, max_wait: Duration) -> Result<Permit<'c>, Decision> {
        let begin = Instant::now();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
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

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
