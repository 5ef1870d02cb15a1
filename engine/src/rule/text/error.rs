//! What is wrong with the text of a rule.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::tokens::Token;

/// The most characters of a text that an error shows, before those that are escaped.
const MAX_TEXT_CHARS: usize = 48;
/// The most characters of a word that an error shows, before those that are escaped.
const MAX_WORD_CHARS: usize = 24;

/// Why a text is not a rule. It displays as one line that shows the text, names the word at fault
/// and says what was expected.
///
/// The text may come from anywhere: what is shown of it is at most 48 characters, and 24 of the
/// word, with control characters and the like escaped.
///
/// ```
/// use tidegate_engine::Quota;
/// let error = "100/s bursts 20".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`100/s bursts 20`: unknown word `bursts`, \
///      expected burst, strict, sliding, fixed or calendar",
/// );
/// assert_eq!(error.offset(), 6);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRuleError {
    text: Box<str>,
    word: Box<str>,
    offset: usize,
    problem: Problem,
}

/// What is wrong with a word, or with all of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    Empty,
    NoPeriod,
    NoCount,
    NotWhole,
    TooLarge,
    NoUnit,
    UnknownUnit,
    TooLong,
    CalendarPeriod,
    UnknownWord,
    NoBurst,
    NoAnchor,
    Offset,
    NoCalendar,
    Twice,
    /// The word does not go with this one.
    Apart(&'static str),
    WrongKind {
        found: RuleKind,
        expected: RuleKind,
    },
}

/// A kind of rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    Quota,
    Sliding,
    Fixed,
    Calendar,
}

impl RuleKind {
    /// The word that it is chosen by.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quota => "burst",
            Self::Sliding => "sliding",
            Self::Fixed => "fixed",
            Self::Calendar => "calendar",
        }
    }

    /// Its name, and an example.
    fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Quota => ("a quota", "100/m"),
            Self::Sliding => ("a sliding window", "100/m sliding"),
            Self::Fixed => ("a fixed window", "100/m fixed"),
            Self::Calendar => ("a calendar window", "100/d calendar"),
        }
    }
}

impl ParseRuleError {
    /// Of a word of the text.
    #[cold]
    pub(super) fn of(text: &str, word: Token<'_>, problem: Problem) -> Self {
        Self {
            text: shown(text.trim_ascii(), MAX_TEXT_CHARS),
            word: shown(word.text, MAX_WORD_CHARS),
            offset: word.at,
            problem,
        }
    }

    /// Of the text as a whole.
    #[cold]
    pub(super) fn of_all(text: &str, problem: Problem) -> Self {
        Self::of(text, Token { text: "", at: 0 }, problem)
    }

    /// Where the word at fault begins, in bytes from the beginning of the text; 0 where the whole
    /// text is at fault.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }
}

/// The beginning of a text, printable and in one line.
fn shown(text: &str, max: usize) -> Box<str> {
    let mut shown = String::new();
    let mut characters = text.chars();
    for character in characters.by_ref().take(max) {
        match character {
            '\'' | '"' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    if characters.next().is_some() {
        shown.push_str("...");
    }
    shown.into()
}

impl fmt::Display for ParseRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RATE: &str = "expected COUNT/PERIOD, such as 100/s or 5/15m";
        let (text, word) = (&self.text, &self.word);
        match self.problem {
            Problem::Empty => return write!(f, "an empty rule, {RATE}"),
            Problem::WrongKind { found, expected } => {
                let ((found, _), (expected, example)) = (found.shown(), expected.shown());
                return write!(f, "`{text}` is {found}, expected {expected} such as {example}");
            }
            _ => write!(f, "`{text}`: ")?,
        }
        match self.problem {
            Problem::Empty | Problem::WrongKind { .. } => Ok(()),
            Problem::NoPeriod if *text == *word => f.write_str(RATE),
            Problem::NoPeriod => write!(f, "`{word}` is not a rate, {RATE}"),
            Problem::NoCount => write!(f, "no count before `/`, {RATE}"),
            Problem::NotWhole => {
                write!(f, "`{word}` is not a whole number, expected digits such as 1000 or 1_000")
            }
            Problem::TooLarge => write!(f, "`{word}` is too large, expected at most {}", u64::MAX),
            Problem::NoUnit => write!(f, "no unit after `{word}`, expected s, m, h or d"),
            Problem::UnknownUnit => {
                write!(f, "unknown unit `{word}`, expected s, m, h or d")
            }
            Problem::TooLong => write!(f, "`{word}` is too large for a time"),
            Problem::CalendarPeriod => {
                write!(f, "a calendar has no period of `{word}`, expected m, h, d or month")
            }
            Problem::UnknownWord => write!(
                f,
                "unknown word `{word}`, expected burst, strict, sliding, fixed or calendar"
            ),
            Problem::NoBurst => f.write_str("no number after `burst`, expected one as in burst 20"),
            Problem::NoAnchor => f.write_str(
                "no time after `anchored`, expected that since 1970 as in anchored 1796079590s",
            ),
            Problem::Offset => {
                write!(f, "`{word}` is not an offset, expected one such as utc+02:00")
            }
            Problem::NoCalendar => write!(f, "`{word}` goes with `calendar` only"),
            Problem::Twice => write!(f, "`{word}` is given twice"),
            Problem::Apart(other) => write!(f, "`{word}` does not go with `{other}`"),
        }
    }
}

impl core::error::Error for ParseRuleError {}
