//! Every interleaving with sequentially consistent memory, and no bound.
//!
//! A state is the memory and, for each thread, the values it has observed. The search visits every
//! reachable state once; states that differ only by a permutation of threads with one body count as
//! one. It ends only if every run does, so a model that was explored is also a proof that its
//! threads terminate, whatever the others do and wherever they stop.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::base::sync::{AtomicU64, Ordering};
use crate::interleave::{self, Access, Next};

use super::{Model, Shared, State, Thread, key};

/// The most accesses of a thread that runs while all others are stopped.
const ALONE_MAX: usize = 200;
const THREADS_MAX: usize = 4;
/// `full` for the searches that models state; otherwise all stop after [`STATES_MAX`] states, and
/// those of models marked as large after [`MODEST_STATES_MAX`].
const MODELS: &str = "TIDEGATE_MODELS";
const MODEST_STATES_MAX: usize = 200_000;
/// The search of a model marked as large stops after this many states, unless [`MORE`] says
/// otherwise.
const STATES_MAX: usize = 1_000_000;
/// How many states to visit of large models, for runs by hand; 10 million take a gigabyte.
const MORE: &str = "TIDEGATE_INTERLEAVE_STATES";

pub(super) fn explore(model: &Model, end: &dyn Fn(&State<'_>)) {
    let shared = model.shared();
    let mut search = Search::new(model, &shared);
    let (mut ends, mut memories) = (0, 0);
    // Grows as it is walked.
    let mut at = 0;
    let most = states_max(model);
    while at < search.states.len().min(most) {
        let results = search.results(at);
        let state = State { shared: &shared, results: &results };
        // Memories are numbered in the order in which they come about.
        if search.states[at].point.memory == memories {
            memories += 1;
            search.look(at, || at_most_one_live_word(&state));
            search.look(at, || a_newcomer_gets_through(&shared));
        }
        for always in &model.always {
            search.look(at, || always(&state));
        }
        if results.iter().all(Option::is_some) {
            ends += 1;
            search.look(at, || end(&state));
        }
        for thread in 0..model.threads.len() {
            search.step(at, thread);
        }
        at += 1;
    }
    let (threads, longest) = (model.threads.len(), search.longest());
    if at < search.states.len() {
        let steps = search.steps(at);
        println!("{threads} threads: stopped after {at} states, all that {steps} steps reach");
    } else {
        println!(
            "{threads} threads, no bound: complete after {at} states, {ends} of them ends; no \
             thread makes more than {longest} accesses"
        );
    }
}

fn states_max(model: &Model) -> usize {
    if let Ok(states) = std::env::var(MORE) {
        let states = states.parse().expect(MORE);
        return if model.large { states } else { usize::MAX };
    }
    let is_full = std::env::var(MODELS).is_ok_and(|models| models == "full");
    match (is_full, model.large) {
        (true, true) | (false, false) => STATES_MAX,
        (true, false) => usize::MAX,
        (false, true) => MODEST_STATES_MAX,
    }
}

/// In every state, so also while threads are in the middle of a claim.
fn at_most_one_live_word(state: &State<'_>) {
    let mut names: Vec<_> = state.shared.table.entries().collect();
    names.retain(|(_, value)| state.shared.is_live(*value));
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0].0.tag() == pair[1].0.tag());
    assert_eq!(twice, None, "a key has two live words");
}

/// With all threads stopped, a new key is decided in a bounded number of accesses.
fn a_newcomer_gets_through(shared: &Shared) {
    interleave::run_within(ALONE_MAX, || super::check(shared, key(999), 1));
}

/// Where a thread is when it has observed certain values.
struct Local {
    /// Where it was before the last of them, which was `seen`. The start is its own parent.
    parent: u32,
    seen: u64,
    accesses: usize,
    next: Next,
    /// By what the next access observes.
    children: Vec<(u64, u32)>,
}

/// A state: indexes into [`Search::memories`] and, for each thread, [`Search::locals`]; among
/// threads with one body in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Point {
    memory: u32,
    locals: [u32; THREADS_MAX],
}

/// A state that was reached, first from the one at `before` by a step of `thread`.
struct Reached {
    point: Point,
    before: u32,
    thread: u8,
}

struct Search<'m> {
    model: &'m Model,
    shared: &'m Shared,
    atomics: Vec<&'m AtomicU64>,
    /// Indexes into `atomics`.
    addresses: HashMap<usize, usize>,
    memories: Vec<Vec<u64>>,
    known_memories: HashMap<Vec<u64>, u32>,
    /// For each thread, the first one with the same body.
    twins: Vec<usize>,
    /// By the first thread with a body.
    locals: Vec<Vec<Local>>,
    states: Vec<Reached>,
    known: HashSet<Point>,
}

impl<'m> Search<'m> {
    fn new(model: &'m Model, shared: &'m Shared) -> Self {
        assert!(model.threads.len() <= THREADS_MAX);
        let slots = shared.table.lines.all().iter().flat_map(|line| &line.slots);
        let mut atomics: Vec<_> = slots.flat_map(|slot| [&slot.tag, &slot.word]).collect();
        atomics.extend(shared.table.counters.atomics());
        atomics.extend(shared.table.lines.all_home_bits());
        atomics.extend([&shared.table.pressed, &shared.clock]);
        let same = |body| move |other: &Thread| Arc::ptr_eq(body, other);
        let twin = |body| model.threads.iter().position(same(body)).unwrap();
        let address = |(index, atomic): (usize, &&AtomicU64)| (address(atomic), index);
        let mut search = Self {
            model,
            shared,
            addresses: atomics.iter().enumerate().map(address).collect(),
            memories: Vec::new(),
            known_memories: HashMap::new(),
            twins: model.threads.iter().map(twin).collect(),
            locals: model.threads.iter().map(|_| Vec::new()).collect(),
            states: Vec::new(),
            known: HashSet::new(),
            atomics,
        };
        let first = search.atomics.iter().map(|atomic| atomic.load(Ordering::SeqCst)).collect();
        let memory = search.memory(first);
        for (thread, twin) in search.twins.clone().into_iter().enumerate() {
            if twin == thread {
                search.local(thread, 0, 0, Vec::new());
            }
        }
        let start = Point { memory, locals: [0; THREADS_MAX] };
        search.known.insert(start);
        search.states.push(Reached { point: start, before: 0, thread: 0 });
        search
    }

    /// Makes the next access of `thread` in a state.
    fn step(&mut self, at: usize, thread: usize) {
        let mut point = self.states[at].point;
        let local = point.locals[thread];
        let Some((atomic, access, seen)) = self.next(&point, thread) else { return };
        point.locals[thread] = self.child(self.twins[thread], local, seen);
        self.sort(&mut point.locals, thread);
        let value = access.apply(seen);
        if value != seen {
            let mut memory = self.memories[point.memory as usize].clone();
            memory[atomic] = value;
            point.memory = self.memory(memory);
        }
        if self.known.insert(point) {
            self.states.push(Reached { point, before: at as u32, thread: thread as u8 });
        }
    }

    /// The next access of a thread in a state: to which atomic, what, and what it observes.
    fn next(&self, point: &Point, thread: usize) -> Option<(usize, Access, u64)> {
        let local = &self.locals[self.twins[thread]][point.locals[thread] as usize];
        let Next::Access(address, access) = local.next else { return None };
        let atomic = self.addresses[&address];
        Some((atomic, access, self.memories[point.memory as usize][atomic]))
    }

    /// Sorts the threads with the body of `moved` again.
    fn sort(&self, locals: &mut [u32; THREADS_MAX], moved: usize) {
        let twins = (0..self.twins.len()).filter(|thread| self.twins[*thread] == self.twins[moved]);
        let twins: Vec<_> = twins.collect();
        let mut sorted: Vec<_> = twins.iter().map(|thread| locals[*thread]).collect();
        sorted.sort_unstable();
        twins.iter().zip(sorted).for_each(|(thread, local)| locals[*thread] = local);
    }

    /// The index of a memory's contents.
    fn memory(&mut self, memory: Vec<u64>) -> u32 {
        if let Some(known) = self.known_memories.get(&memory) {
            return *known;
        }
        let index = self.memories.len() as u32;
        self.memories.push(memory.clone());
        self.known_memories.insert(memory, index);
        index
    }

    /// Where a thread is after its next access observed `seen`.
    fn child(&mut self, thread: usize, parent: u32, seen: u64) -> u32 {
        let children = &self.locals[thread][parent as usize].children;
        if let Some((_, child)) = children.iter().find(|child| child.0 == seen) {
            return *child;
        }
        let mut observed = vec![seen];
        let mut local = parent;
        while local != 0 {
            observed.push(self.locals[thread][local as usize].seen);
            local = self.locals[thread][local as usize].parent;
        }
        observed.reverse();
        let child = self.local(thread, parent, seen, observed);
        self.locals[thread][parent as usize].children.push((seen, child));
        child
    }

    /// Finds out where a thread is that has observed these values.
    fn local(&mut self, thread: usize, parent: u32, seen: u64, observed: Vec<u64>) -> u32 {
        let accesses = observed.len();
        assert!(accesses <= self.model.accesses, "a run does not end");
        let body = &self.model.threads[thread];
        let next = interleave::resume(observed, || body(self.shared));
        self.locals[thread].push(Local { parent, seen, accesses, next, children: Vec::new() });
        self.locals[thread].len() as u32 - 1
    }

    fn results(&self, at: usize) -> Vec<Option<u64>> {
        let locals = self.twins.iter().zip(self.states[at].point.locals);
        let result = |(twin, local): (&usize, u32)| match self.locals[*twin][local as usize].next {
            Next::Done(result) => Some(result),
            Next::Access(..) => None,
        };
        locals.map(result).collect()
    }

    /// How many steps lead to the state: all states of fewer steps were visited before it.
    fn steps(&self, mut at: usize) -> usize {
        let mut steps = 0;
        while at != 0 {
            at = self.states[at].before as usize;
            steps += 1;
        }
        steps - 1
    }

    fn longest(&self) -> usize {
        self.locals.iter().flatten().map(|local| local.accesses).max().unwrap_or(0)
    }

    /// Sets the memory to that of a state and runs a check on it; prints how the state was reached
    /// if the check panics.
    fn look(&self, at: usize, check: impl FnOnce()) {
        let memory = &self.memories[self.states[at].point.memory as usize];
        for (atomic, value) in self.atomics.iter().zip(memory) {
            atomic.store(*value, Ordering::SeqCst);
        }
        let story = Story { search: self, at };
        check();
        std::mem::forget(story);
    }
}

fn address(atomic: &AtomicU64) -> usize {
    std::ptr::from_ref(atomic).addr()
}

/// Prints the accesses that led to a state when it is dropped.
struct Story<'s> {
    search: &'s Search<'s>,
    at: usize,
}

impl Drop for Story<'_> {
    fn drop(&mut self) {
        let search = self.search;
        let mut steps = Vec::new();
        let mut at = self.at;
        while at != 0 {
            let Reached { before, thread, .. } = search.states[at];
            at = before as usize;
            steps.push((thread, search.next(&search.states[at].point, thread.into()).unwrap()));
        }
        for (thread, (atomic, access, seen)) in steps.into_iter().rev() {
            let part = ["tag", "word"][atomic % 2];
            let slot = atomic / 2;
            let access = match access {
                Access::Load => "is loaded".to_owned(),
                Access::Exchange { expected, .. } if expected != seen => "has changed".to_owned(),
                access => format!("becomes {:#x}", access.apply(seen)),
            };
            eprintln!("thread {thread}: {part} of slot {slot}, {seen:#x}, {access}");
        }
    }
}
