//! Words that go down: a refund, a reset, units of a reservation that are given back.

use super::Action::{Charge, Check, Raise, Refund, Reset, Settle};
use super::{Action, FULL, PLAIN, Scenario, stop_everywhere};

const LIVE: &[Action] = &[Check(1), Check(1), Check(2), Check(3)];
const ALONE: &[Action] = &[Check(1)];
const IN_DEBT: &[Action] = &[Charge(1), Charge(1), Check(2), Check(3), Check(4)];

#[test]
fn a_refund_stops_no_other_thread() {
    let refund = Scenario { stopped: Refund(1), ..PLAIN };
    stop_everywhere(&[
        Scenario { name: "refund", before: LIVE, ..refund },
        Scenario { name: "refund to none", before: ALONE, ..refund },
        Scenario { name: "refund of debt", before: IN_DEBT, ..refund },
        Scenario { name: "refund of nothing", before: FULL, ..refund },
        Scenario { name: "refund in two lines", lines: 2, before: FULL, ..refund },
        Scenario {
            name: "refund during a claim",
            before: &LIVE[2..],
            died: Some(Check(1)),
            ..refund
        },
    ]);
}

#[test]
fn a_reset_stops_no_other_thread() {
    let reset = Scenario { stopped: Reset(1), ..PLAIN };
    stop_everywhere(&[
        Scenario { name: "reset", before: LIVE, ..reset },
        Scenario { name: "reset of debt", before: IN_DEBT, ..reset },
        Scenario { name: "reset of nothing", before: FULL, ..reset },
        Scenario {
            name: "reset during a raise",
            before: &LIVE[2..],
            died: Some(Raise(1)),
            ..reset
        },
    ]);
}

#[test]
fn units_given_back_stop_no_other_thread() {
    let settle = Scenario { stopped: Settle(1), ..PLAIN };
    stop_everywhere(&[
        Scenario { name: "settle", before: ALONE, ..settle },
        Scenario { name: "settle in a new slot", ..settle },
        Scenario { name: "settle with eviction", before: FULL, ..settle },
        Scenario { name: "settle in two lines", lines: 2, before: FULL, ..settle },
        Scenario {
            name: "settle during a claim",
            before: &FULL[..4],
            died: Some(Check(1)),
            ..settle
        },
        Scenario {
            name: "take-over to settle",
            before: &FULL[..4],
            died: Some(Check(9)),
            ..settle
        },
    ]);
}
