//! Values that a serialisation has as their text.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde_core::de::{Deserializer, Error, Visitor};

/// Reads a value from its text; `expected` says what that is, where there is no text.
pub(crate) fn deserialize<'de, T, D>(from: D, expected: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    from.deserialize_str(Text { expected, value: PhantomData })
}

struct Text<T> {
    expected: &'static str,
    value: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// The traits of serde for a type that has a text.
macro_rules! as_text {
    ($type:ty, $expected:literal) => {
        impl serde_core::Serialize for $type {
            /// As its text.
            fn serialize<S: serde_core::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde_core::Deserialize<'de> for $type {
            /// From its text.
            fn deserialize<D: serde_core::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::base::text::deserialize(from, $expected)
            }
        }
    };
}

pub(crate) use as_text;
