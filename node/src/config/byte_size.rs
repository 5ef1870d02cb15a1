//! Numbers of bytes on the command line.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A number of bytes that is written as a whole number of them, or of KiB, MiB or GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub usize);

/// The units, the largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |(unit, bytes): (&str, u64)| {
            let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
            count.checked_mul(bytes)
        };
        let bytes = UNITS.into_iter().find_map(read);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| "expected bytes, such as 65536 or 64KiB".to_owned())
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = |(_, bytes): &(&str, u64)| (self.0 as u64).is_multiple_of(*bytes);
        let (unit, bytes) = UNITS.into_iter().find(is_whole).unwrap_or(("", 1));
        write!(f, "{}{unit}", self.0 as u64 / bytes)
    }
}

/// Reads a number of bytes that is at least `least`.
pub fn at_least(least: ByteSize) -> impl Fn(&str) -> Result<ByteSize, String> + Clone {
    move |text| {
        let bytes = text.parse().ok().filter(|bytes| *bytes >= least);
        bytes.ok_or_else(|| format!("expected at least {least}, such as 64MiB or 1GiB"))
    }
}

/// Reads a number of bytes in this range.
pub fn within(
    range: RangeInclusive<ByteSize>,
) -> impl Fn(&str) -> Result<ByteSize, String> + Clone {
    move |text| {
        let bytes = text.parse().ok().filter(|bytes| range.contains(bytes));
        bytes.ok_or_else(|| format!("expected from {} to {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteSize, at_least, within};

    #[test]
    fn bytes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("8388608", 8 << 20),
            ("8MiB", 8 << 20),
            ("8193KiB", 8193 << 10),
            ("3GiB", 3 << 30),
            ("8388609", (8 << 20) + 1),
        ] {
            let read: ByteSize = text.parse().unwrap();
            assert_eq!(read.0, bytes, "{text}");
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        assert_eq!(ByteSize(8 << 20).to_string(), "8MiB");
        for text in ["", "MiB", "64 MiB", "64MB", "-64MiB", "1.5MiB", "17179869184GiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_are_in_their_range() {
        let (least, most) = (ByteSize(1 << 10), ByteSize(1 << 20));
        let (at_least, within) = (at_least(least), within(least..=most));
        for (text, is_enough, is_within) in [
            ("1023", false, false),
            ("1KiB", true, true),
            ("1024KiB", true, true),
            ("1048577", true, false),
            ("1 KiB", false, false),
        ] {
            assert_eq!(at_least(text).is_ok(), is_enough, "{text}");
            assert_eq!(within(text).is_ok(), is_within, "{text}");
        }
        assert_eq!(within("0").unwrap_err(), "expected from 1KiB to 1MiB");
    }
}
