//! The models under loom: with weak memory, within a bound on preemptions (`explore.rs`).
//!
//! The protocol's only sequentially consistent operation is a fence, which loom models; such
//! accesses it would weaken.

use std::sync::Arc;

use loom::thread;

use crate::explore;

use super::{Check, Model, State};

pub(super) fn explore(model: Model, preemptions: Option<usize>, end: Check) {
    let count = model.threads.len();
    let report = explore::report(preemptions, move || {
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
    println!("{count} threads, {report}");
}
