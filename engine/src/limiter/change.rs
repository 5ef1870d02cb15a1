//! What an update of a key's word has changed.

use crate::base::word::Update;

/// A change of a key's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) now: u64,
}

impl Change {
    /// What an update has changed, whose `decide` is given; `None` for nothing.
    #[inline]
    pub(super) fn of(update: Update, decide: impl FnOnce(u64, u64) -> Option<u64>) -> Option<Self> {
        let Update::Written { before: from, now } = update else { return None };
        decide(from, now).map(|to| Self { from, to, now })
    }
}
