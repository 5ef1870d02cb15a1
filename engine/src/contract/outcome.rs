//! Whether an update charged an admission or a denial.
//!
//! Where denied checks are charged, both write the key's word, so [`Update::Written`] does not say
//! which of the two it was. The update's `decide` records it here. It may be called several times;
//! its last call is the one whose value was written.

use core::cell::Cell;

use crate::base::word::Update;

/// What the last call of an update's `decide` charged; `None` where it leaves the word.
pub(crate) struct Outcome(Cell<Option<LastCharge>>);

/// A charge, by the value that it leaves.
#[derive(Clone, Copy)]
enum LastCharge {
    Admitted(u64),
    Denied(u64),
}

impl LastCharge {
    fn value(self) -> u64 {
        match self {
            Self::Admitted(value) | Self::Denied(value) => value,
        }
    }
}

impl Outcome {
    pub(crate) fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Records a call of `decide` and returns its result: the value after the admission if there is
    /// one, else after the charged denial, else `None`.
    pub(crate) fn record(
        &self,
        admitted: Option<u64>,
        denied: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        let charge = match admitted {
            Some(value) => Some(LastCharge::Admitted(value)),
            None => denied().map(LastCharge::Denied),
        };
        self.0.set(charge);
        charge.map(LastCharge::value)
    }

    /// The value that the last charge left, whatever it was for.
    pub(crate) fn charged(&self) -> Option<u64> {
        self.0.get().map(LastCharge::value)
    }

    /// The update from which the answer follows, and the value that an admission left, which is its
    /// receipt.
    ///
    /// A charged denial is answered as a denial that found the value which its own charge left and
    /// changed nothing, so `retry_after` includes the charge.
    pub(crate) fn update_and_receipt(&self, update: Update) -> (Update, Option<u64>) {
        let (Update::Written { now, .. }, Some(charge)) = (update, self.0.get()) else {
            return (update, None);
        };
        match charge {
            LastCharge::Admitted(value) => (update, Some(value)),
            LastCharge::Denied(found) => (Update::Unchanged { found, now }, None),
        }
    }
}
