//! Where published figures stand, below the root of the repository.

/// What is recorded.
pub const RECORD: &str = "benches/recorded/compare.jsonl";
/// What is recorded of algorithms other than GCRA for many keys.
pub const ALGORITHMS_RECORD: &str = "benches/recorded/algorithms.jsonl";
/// The rows of the first that the README shows, drawn.
pub const FIGURE: &str = "docs/compare.svg";
/// All rows of the first, drawn.
pub const FULL_FIGURE: &str = "docs/compare-all.svg";
/// Shows a table of the highlights.
pub const README: &str = "README.md";
/// Shows tables of both recordings.
pub const BENCHMARKS: &str = "docs/benchmarks.md";
