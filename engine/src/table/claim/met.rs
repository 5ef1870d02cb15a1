//! A slot that a claim may be made of.

use crate::table::bits::{Generation, Word};
use crate::table::line::Slot;

/// A slot as a scan read it, in the `candidate`-th line of the key.
#[derive(Clone, Copy)]
pub(in crate::table) struct Met<'t> {
    pub(super) slot: &'t Slot,
    pub(super) candidate: usize,
    pub(super) word: Word,
    /// The generation of the next claim; of a joined intent its own.
    pub(super) generation: Generation,
}
