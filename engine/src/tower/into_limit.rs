//! Limits as a layer takes them: by value, or shared.

use std::sync::Arc;

use crate::contract::limit::Limit;

/// A [`Limit`] by value or in an [`Arc`], as [`RequestLimit::new`](super::RequestLimit::new) takes
/// it. In an `Arc` it can be shared with other layers, other servers of the process and the rest of
/// the program.
pub trait IntoLimit: sealed::Sealed {
    /// The limit, shared.
    #[doc(hidden)]
    fn into_limit(self) -> Arc<dyn Limit>;
}

impl<L: Limit + 'static> IntoLimit for L {
    fn into_limit(self) -> Arc<dyn Limit> {
        Arc::new(self)
    }
}

impl<L: Limit + 'static> IntoLimit for Arc<L> {
    fn into_limit(self) -> Arc<dyn Limit> {
        self
    }
}

impl IntoLimit for Arc<dyn Limit> {
    fn into_limit(self) -> Arc<dyn Limit> {
        self
    }
}

mod sealed {
    use std::sync::Arc;

    use crate::contract::limit::Limit;

    pub trait Sealed {}

    impl<L: Limit> Sealed for L {}

    impl<L: Limit + ?Sized> Sealed for Arc<L> {}
}
