//! loom: every interleaving of a model and every value a weak memory may show it, within a bound on preemptions.
//!
//! What loom can not see: it weakens sequentially consistent accesses, it does not model load buffering, and its loads
//! never move behind later stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Explores deeper than the models say, for runs by hand: at least so many preemptions a run.
const DEEPER: &str = "TIDEGATE_LOOM_PREEMPTIONS";

/// No run makes more steps than this: one that never ended would.
const STEPS_MAX: usize = 10_000;

/// Explores every interleaving of `model`, or those with so many preemptions a run, and prints how many runs that took.
pub(crate) fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    println!("{}", told(preemptions, model));
}

/// The same, but tells what [`explore`] prints. Nothing else ends it early, whatever loom's environment says: when it
/// returns, it is complete.
pub(crate) fn told(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) -> String {
    let mut builder = loom::model::Builder::new();
    (builder.max_permutations, builder.max_duration) = (None, None);
    builder.max_branches = STEPS_MAX;
    let deeper = std::env::var(DEEPER).ok().map(|bound| bound.parse().expect(DEEPER));
    builder.preemption_bound =
        preemptions.map(|bound| deeper.map_or(bound, |deep| bound.max(deep)));
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
