//! Slots that have expired: what a stopped thread claims, or has read, may be reused by others.

use super::Action::{Batch, Charge, Check, Expire, Live, Peek, Raise, Refund, Settle};
use super::{Action, PLAIN, Scenario, stop_everywhere};

/// Four keys in four slots, none of which owes anything.
const DRAINED: &[Action] = &[Check(2), Check(2), Check(3), Check(4), Check(5), Expire];
/// The same; the stopped thread's key has a slot.
const OWN: &[Action] = &[Check(1), Check(2), Check(3), Check(4), Expire];
/// Three slots are live, and the fourth is not.
const ONE_LEFT: &[Action] = &[Check(5), Expire, Check(2), Check(2), Check(3), Check(4)];

#[test]
fn a_claim_of_an_expired_slot_stops_no_other_thread() {
    stop_everywhere(&[
        Scenario { name: "claim", before: DRAINED, ..PLAIN },
        Scenario { name: "claim in two lines", lines: 2, before: DRAINED, ..PLAIN },
        Scenario { name: "claim of the last one", before: ONE_LEFT, ..PLAIN },
        Scenario { name: "claim of a charge", before: ONE_LEFT, stopped: Charge(1), ..PLAIN },
        Scenario { name: "claim of a raise", before: DRAINED, stopped: Raise(1), ..PLAIN },
        Scenario { name: "claim of a batch", before: ONE_LEFT, stopped: Batch(1), ..PLAIN },
        Scenario { name: "claim of units", before: ONE_LEFT, stopped: Settle(1), ..PLAIN },
        Scenario { name: "come back", before: OWN, ..PLAIN },
        Scenario { name: "take-over", before: ONE_LEFT, died: Some(Check(9)), ..PLAIN },
        Scenario { name: "join", before: ONE_LEFT, died: Some(Check(1)), ..PLAIN },
        Scenario { name: "look", before: OWN, stopped: Peek(1), ..PLAIN },
        Scenario { name: "live", before: DRAINED, stopped: Live, ..PLAIN },
    ]);
}

/// The thread resumes with words and a time that it read when its key was live.
#[test]
fn a_thread_whose_slot_expires_stops_no_other_thread() {
    const LIVE: &[Action] = &[Check(1), Check(2), Check(3), Check(4)];
    let late = Scenario { before: LIVE, expires: true, ..PLAIN };
    stop_everywhere(&[
        Scenario { name: "late claim", before: &[], ..late },
        Scenario { name: "late claim with eviction", before: &LIVE[1..], ..late },
        Scenario { name: "late claim of an expired slot", before: DRAINED, ..late },
        Scenario { name: "late check", ..late },
        Scenario { name: "late charge", stopped: Charge(1), ..late },
        Scenario { name: "late batch", stopped: Batch(1), ..late },
        Scenario { name: "late refund", stopped: Refund(1), ..late },
        Scenario { name: "late return", stopped: Settle(1), ..late },
        Scenario { name: "late join", died: Some(Check(1)), before: &LIVE[1..], ..late },
    ]);
}
