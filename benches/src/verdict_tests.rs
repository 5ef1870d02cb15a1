use super::*;
use crate::samples;

#[test]
fn a_loss_is_a_peer_ahead_of_the_variant_it_is_set_against() {
    let losses = losses(&samples::lines());
    let texts: Vec<_> = losses.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["zipf-1m with 1 thread: sketch is 1.50 times better than precise"]);
}

#[test]
fn less_memory_is_better() {
    let lines = [samples::memory("ours", Some("precise"), 20.0), samples::memory("x", None, 10.0)];
    let texts: Vec<_> = losses(&lines).iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["memory: x is 2.00 times better than precise"]);
}

#[test]
fn a_peer_against_a_variant_that_did_not_run_proves_nothing() {
    assert_eq!(losses(&[samples::peer("zipf-1m", 1, "x", 9.0)]), []);
}

#[test]
fn absences_with_one_reason_are_one_note() {
    assert_eq!(
        absences(&samples::lines()),
        [("sketch".to_owned(), "new-key, memory (it has no keys)".to_owned())]
    );
}
