//! Results of two limiters that must be alike.

use std::fmt::Debug;

use proptest::prelude::*;

/// What both have handed out, `None` if both have refused with the same error.
pub(crate) fn both<A: Debug, B: Debug, E: Debug + PartialEq>(
    one: Result<A, E>,
    other: Result<B, E>,
) -> Result<Option<(A, B)>, TestCaseError> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(Some((one, other))),
        (Err(one), Err(other)) => {
            prop_assert_eq!(one, other);
            Ok(None)
        }
        (one, other) => Err(TestCaseError::fail(format!("{one:?} {other:?}"))),
    }
}
