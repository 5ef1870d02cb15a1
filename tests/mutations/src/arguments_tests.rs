use super::*;

fn parse(line: &str) -> Result<Arguments, String> {
    Arguments::parse(line.split_whitespace().map(str::to_owned))
}

fn choice(line: &str) -> Choice {
    parse(line).expect("a choice").choice
}

#[test]
fn without_a_choice_the_changed_and_a_share_run() {
    assert_eq!(choice(""), Choice::Share(20));
    assert_eq!(choice("--record"), Choice::Share(20));
    assert_eq!(choice("--share 5"), Choice::Share(5));
}

#[test]
fn record_goes_with_every_choice() {
    for line in ["--all --record", "--record --changed", "a-name --record"] {
        assert!(parse(line).expect("a choice").record, "{line}");
    }
    assert!(!parse("--all").expect("a choice").record);
}

#[test]
fn names_are_a_choice_of_their_own() {
    let names = ["one", "two"].map(str::to_owned).into();
    assert_eq!(choice("one two"), Choice::Named(names));
}

#[test]
fn what_contradicts_itself_or_is_unknown_is_an_error() {
    for line in ["--all --changed", "--fit a-name", "--share", "--share 0", "--workers x", "--al"] {
        assert!(parse(line).is_err(), "{line}");
    }
}
