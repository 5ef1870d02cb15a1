//! loom: every interleaving of a model and every value that weak memory may return, within a bound
//! on preemptions.
//!
//! What loom cannot see: it weakens sequentially consistent accesses, it does not model load
//! buffering, and its loads never move behind later stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod stacks;

/// `full` for the bounds that models state; otherwise they are lowered so far that all models take
/// a minute or two ([`modest`]).
const MODELS: &str = "TIDEGATE_MODELS";

/// For runs by hand: at least this many preemptions a run, where models say less.
const DEEPER: &str = "TIDEGATE_LOOM_PREEMPTIONS";

/// In modest runs, the preemptions of a model that states no bound.
const MODEST_PREEMPTIONS: usize = 3;

/// The most steps of a run; one that never ended would exceed it.
const STEPS_MAX: usize = 10_000;

/// Explores every interleaving of `model`, or those within a bound on preemptions, and prints how
/// many runs that took.
pub(crate) fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    println!("{}", report(preemptions, model));
}

/// As [`explore`], but returns what that prints. Nothing else ends it early, whatever loom's
/// environment says: when it returns, it is complete.
pub(crate) fn report(
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) -> String {
    let mut builder = loom::model::Builder::new();
    (builder.max_permutations, builder.max_duration) = (None, None);
    builder.max_branches = STEPS_MAX;
    let deeper = std::env::var(DEEPER).ok().map(|bound| bound.parse().expect(DEEPER));
    let stated = if is_full() { preemptions } else { Some(modest(preemptions)) };
    builder.preemption_bound = stated.map(|bound| deeper.map_or(bound, |deep| bound.max(deep)));
    let bound = builder.preemption_bound;
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let bound = bound.map_or("any number of".to_owned(), |bound| bound.to_string());
    let runs = runs.load(Ordering::Relaxed);
    format!("{bound} preemptions: complete after {runs} runs")
}

fn is_full() -> bool {
    std::env::var(MODELS).is_ok_and(|models| models == "full")
}

/// One preemption less than stated, at least one.
fn modest(preemptions: Option<usize>) -> usize {
    preemptions.map_or(MODEST_PREEMPTIONS, |bound| bound.saturating_sub(1).max(1))
}
