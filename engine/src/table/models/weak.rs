//! loom: every interleaving and every value a weak memory may show, within a bound on preemptions.
//!
//! What loom can not see: it weakens sequentially consistent accesses (this protocol uses none, only
//! a fence, which is modelled), it does not model load buffering, and its loads never move behind
//! later stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::thread;

use super::{Check, Model, State};

/// Explores deeper than the models say, for runs by hand: at least so many preemptions a run.
const DEEPER: &str = "TIDEGATE_LOOM_PREEMPTIONS";

pub(super) fn explore(model: Model, preemptions: Option<usize>, end: Check) {
    let mut builder = loom::model::Builder::new();
    // Nothing else may end the exploration early: when it returns, it is complete.
    (builder.max_permutations, builder.max_duration) = (None, None);
    let deeper = std::env::var(DEEPER).ok().map(|bound| bound.parse().expect(DEEPER));
    builder.preemption_bound =
        preemptions.map(|bound| deeper.map_or(bound, |deep| bound.max(deep)));
    let bound = builder.preemption_bound;
    let threads = model.threads.len();
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let shared = loom::sync::Arc::new(model.shared());
        let threads: Vec<_> = model.threads.iter().map(|thread| (thread, &shared)).collect();
        let threads = threads.into_iter().map(|(thread, shared)| {
            let (thread, shared) = (Arc::clone(thread), loom::sync::Arc::clone(shared));
            thread::spawn(move || thread(&shared))
        });
        let threads: Vec<_> = threads.collect();
        let results: Vec<_> =
            threads.into_iter().map(|thread| Some(thread.join().unwrap())).collect();
        let state = State { shared: &shared, results: &results };
        model.always.iter().for_each(|always| always(&state));
        end(&state);
    });
    let bound = bound.map_or("any number of".to_owned(), |bound| bound.to_string());
    let runs = runs.load(Ordering::Relaxed);
    println!("{threads} threads, {bound} preemptions: complete after {runs} runs");
}
