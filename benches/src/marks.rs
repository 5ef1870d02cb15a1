//! Generated parts of a document, between two marks.

use crate::failure::Failure;

/// The document with the text between the marks of this name replaced by `text`.
///
/// # Errors
/// When the document does not have both marks.
pub fn renew(document: &str, name: &str, text: &str) -> Result<String, Failure> {
    let [begin, end] = ["begin", "end"].map(|which| mark(name, which));
    let unmarked = || Failure::SetUp(format!("there are no lines {begin} and {end}"));
    let (before, rest) = document.split_once(&begin).ok_or_else(unmarked)?;
    let (_, after) = rest.split_once(&end).ok_or_else(unmarked)?;
    Ok(format!("{before}{begin}\n{text}{end}{after}"))
}

fn mark(name: &str, which: &str) -> String {
    format!("<!-- {name}, written by the `figure` program of benches: {which} -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_made_anew() {
        let [begin, end] = ["begin", "end"].map(|which| mark("speeds", which));
        let document = format!("before\n{begin}\nold\n{end}\nafter\n");
        let renewed = renew(&document, "speeds", "new\n").expect("marks");
        assert_eq!(renewed, format!("before\n{begin}\nnew\n{end}\nafter\n"));
        assert_eq!(renew(&renewed, "speeds", "new\n"), Ok(renewed));
        assert!(renew("no marks", "speeds", "new\n").is_err());
        assert!(renew(&document, "other", "new\n").is_err());
    }
}
