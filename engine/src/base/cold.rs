//! A hint to the compiler.

/// Marks the branch in which it is called as unlikely; does nothing else.
#[cold]
#[inline]
pub(crate) const fn cold_path() {}
