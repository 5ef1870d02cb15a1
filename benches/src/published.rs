//! Where published figures stand, below the root of the repository.

/// What is recorded.
pub const RECORD: &str = "benches/recorded/compare.jsonl";
/// What is drawn from it.
pub const FIGURE: &str = "docs/compare.svg";
/// What shows tables of it.
pub const README: &str = "README.md";
