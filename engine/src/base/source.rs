//! Where a builder takes a clock or a hasher from.

/// Where a clock or a hasher comes from.
#[derive(Debug)]
pub(crate) enum Source<T> {
    /// Made when the limiter is built.
    #[cfg_attr(
        not(feature = "std"),
        expect(dead_code, reason = "there is nothing to make it from")
    )]
    Made(fn() -> T),
    Given(T),
}

impl<T> Source<T> {
    pub(crate) fn get(self) -> T {
        match self {
            Self::Made(make) => make(),
            Self::Given(it) => it,
        }
    }
}
