//! Where published figures stand, below the root of the repository.

/// What is recorded.
pub const RECORD: &str = "benches/recorded/compare.jsonl";
/// What is recorded of algorithms other than GCRA for many keys.
pub const ALGORITHMS_RECORD: &str = "benches/recorded/algorithms.jsonl";
/// What is drawn from the first.
pub const FIGURE: &str = "docs/compare.svg";
/// What shows tables of both.
pub const README: &str = "README.md";
