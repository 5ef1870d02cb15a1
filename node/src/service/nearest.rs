//! The name that was probably meant.

/// How much of each name is compared, in characters: the work is its square, for each name that
/// there is, and clients choose what they ask for.
const MAX_COMPARED_CHARS: usize = 32;
/// The share of a name that may be wrong: one character in this many.
const CHARS_A_MISTAKE: usize = 3;

/// The name of `known` that is nearest to `name`, whatever the case, if one is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let compared = |text: &str| -> String {
        text.chars().take(MAX_COMPARED_CHARS).flat_map(char::to_lowercase).collect()
    };
    let name = compared(name);
    let most = (name.chars().count() / CHARS_A_MISTAKE).max(1);
    let distances = known.into_iter().map(|one| (strsim::osa_distance(&name, &compared(one)), one));
    let (_, found) = distances.filter(|(distance, _)| *distance <= most).min()?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const KNOWN: [&str; 5] = ["default", "login", "per-tenant", "per-user", "logon"];

    #[test]
    fn what_is_mistyped_is_recognised() {
        for (name, expected) in [
            ("defualt", "default"),
            ("DEFAULT", "default"),
            ("logni", "login"),
            ("per_user", "per-user"),
            ("per-tenants", "per-tenant"),
            ("logn", "login"),
        ] {
            assert_eq!(nearest(name, KNOWN), Some(expected), "{name}");
        }
    }

    #[test]
    fn what_is_something_else_is_not() {
        let long = "x".repeat(100_000);
        for name in ["", "nope", "user", "signup", long.as_str()] {
            assert_eq!(nearest(name, KNOWN), None, "{name}");
        }
        assert_eq!(nearest("login", []), None);
    }
}
