//! The words of a text, and the numbers in them.

/// Words with ASCII white space between them.
pub struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    pub text: &'t str,
    /// The bytes of the text before it.
    pub at: usize,
}

impl<'t> Tokens<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        let rest = &self.text[self.at..];
        let start = rest.find(|c: char| !c.is_ascii_whitespace())?;
        let word = &rest[start..];
        let length = word.find(|c: char| c.is_ascii_whitespace()).unwrap_or(word.len());
        let at = self.at + start;
        self.at = at + length;
        Some(Token { text: &word[..length], at })
    }
}

impl Token<'_> {
    /// The first `bytes` of the word, and the rest. It is split in front of a character.
    pub fn split_at(self, bytes: usize) -> (Self, Self) {
        let (text, rest) = self.text.split_at(bytes);
        (Self { text, ..self }, Self { text: rest, at: self.at + bytes })
    }

    /// The number that the word begins with, whole or not, and the rest.
    pub fn split_number(self) -> (Self, Self) {
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '_' | '.' | ',' | '+' | '-');
        self.split_at(self.text.find(|c| !is_of_number(c)).unwrap_or(self.text.len()))
    }

    /// The word as a whole number.
    pub fn number(self) -> Result<u128, NumberError> {
        let digits = self.text.as_bytes();
        let (mut value, mut is_after_digit) = (Some(0_u128), false);
        for byte in digits {
            match byte {
                b'0'..=b'9' => {
                    let digit = u128::from(byte - b'0');
                    value = value.and_then(|value| value.checked_mul(10)?.checked_add(digit));
                }
                b'_' if is_after_digit => {}
                _ => return Err(NumberError::NotWhole),
            }
            is_after_digit = *byte != b'_';
        }
        if is_after_digit { value.ok_or(NumberError::TooLarge) } else { Err(NumberError::NotWhole) }
    }
}

/// Why a word is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// Not a decimal whole number, whose `_` each stand between two digits.
    NotWhole,
    /// 2^128 or more.
    TooLarge,
}
