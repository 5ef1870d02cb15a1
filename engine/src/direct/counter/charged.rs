//! What counts, and since when: how counters and logs report it when they are saved.

/// Units that expire together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    /// The time from which they count: the index of a sub-window, or a time of a log.
    pub(super) at: u64,
    pub(super) units: u64,
}
