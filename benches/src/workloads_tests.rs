use clap::ValueEnum as _;

use super::*;

/// The longest burst both limiters take.
const TOLERANCE: u128 = tidegate_engine::rule::MAX_BURST_TOLERANCE.as_nanos();

#[test]
fn names_on_the_command_line_are_names_in_reports() {
    for workload in Workload::ALL {
        let value = workload.to_possible_value().expect("no workload is hidden");
        assert_eq!(value.get_name(), workload.name());
    }
}

#[test]
fn a_plan_holds_its_checks_on_one_key_and_keeps_idle_keys_live() {
    for checks in [0, 1, 1_000, 20_000_000, 75_000_000, 1_500_000_000] {
        let plan = Plan::allowing(1_000, checks).expect("the checks fit");
        let room = u64::from(plan.burst.get() - plan.warm_up.get());
        assert!(room >= checks, "{checks} checks: {plan:?}");
        let tolerance = plan.interval.as_nanos() * u128::from(plan.burst.get());
        assert!(tolerance <= TOLERANCE, "{checks} checks: {plan:?}");
        assert!(plan.interval * plan.warm_up.get() >= Plan::LIVE_FOR, "{checks} checks: {plan:?}");
    }
}

#[test]
fn more_checks_than_a_burst_holds_are_refused() {
    assert!(Plan::allowing(1, u64::from(u32::MAX) + 1).is_err());
    assert!(Plan::allowing(1, u64::MAX).is_err());
}
