//! The arithmetic itself, which tests of the limiter cannot reach.

use core::time::Duration;

use proptest::prelude::*;

use super::{Gcra, NOW_MAX, Scale, TAT_MAX, Terms as _};
use crate::rule::quota::Quota;
use crate::time::Timestamp;

/// Scales of quotas whose interval is not a whole number of nanoseconds, and of one whose is.
fn scales() -> impl Strategy<Value = Scale> {
    prop_oneof![
        Just(Quota::per_second(1)),
        (1_u64..1_000_000_000).prop_map(Quota::per_second),
        (1_u64..1_000_000).prop_map(Quota::per_day),
    ]
    .prop_map(|quota| Gcra::exact(&quota.burst(1)).unwrap().scale())
}

proptest! {
    /// With no wait this admits as a check does; with a wait, the start is when a check would be
    /// admitted.
    #[test]
    fn a_start_is_the_first_time_at_which_a_check_fits(
        burst in 1_u64..100,
        debt in 0_u64..300,
        part in 0_u64..1_000_000,
        cost in 1_u64..120,
        max_wait in 0_u64..200_000_000,
    ) {
        let gcra = Gcra::exact(&Quota::per_second(1_000).burst(burst)).unwrap();
        let now = 1 << 40;
        let tat = now + debt * gcra.interval() - part.min(debt * gcra.interval());
        prop_assert_eq!(gcra.admit_by(tat, now, cost, 0), gcra.admit(tat, now, cost));
        match gcra.admit_by(tat, now, cost, max_wait) {
            Some(charged) => {
                let wait = gcra.wait(charged, now);
                prop_assert!(wait <= max_wait);
                prop_assert_eq!(gcra.admit(tat, now + wait, cost), Some(charged.max(now + wait)));
                prop_assert!(wait == 0 || gcra.admit(tat, now + wait - 1, cost).is_none());
            }
            None => prop_assert!(gcra.admit(tat, now + max_wait, cost).is_none()),
        }
    }

    #[test]
    fn no_wait_leads_beyond_the_last_tat(
        tat in 0..=TAT_MAX,
        late in 0..1_u64 << 40,
        cost in 1_u64..100,
    ) {
        let gcra = Gcra::exact(&Quota::per_day(1).burst(100)).unwrap();
        let charged = gcra.admit_by(tat, NOW_MAX - late, cost, u64::MAX);
        prop_assert!(charged.is_none_or(|charged| charged <= TAT_MAX && charged > tat));
    }

    #[test]
    fn a_duration_in_units_and_back_covers_itself(scale in scales(), units in 0..TAT_MAX) {
        let nanos = scale.to_nanos(units);
        prop_assert!(scale.to_units(nanos) >= units, "waiting {nanos} ns is not enough");
        prop_assert!(scale.to_units(nanos.saturating_sub(2)) <= units, "{nanos} ns is too much");
    }

    #[test]
    fn a_units_length_is_from_one_to_two_nanoseconds(scale in scales(), nanos in 0_u64..1 << 58) {
        let units = scale.to_units(nanos);
        prop_assert!(units <= nanos && nanos <= 2 * (units + 1));
    }

    #[test]
    fn a_foreign_quotas_interval_is_rounded_up_to_a_unit(
        scale in scales(),
        count in 1_u64..1_000_000_000,
        seconds in 1_u64..100_000,
    ) {
        let quota = Quota::new(count, Duration::from_secs(seconds)).burst(1);
        let interval = Gcra::in_scale(&quota, scale).unwrap().interval;
        let exact = seconds as f64 * 1e9 / count as f64 * (scale.units() as f64 / 2_f64.powi(63));
        let above = interval as f64 - exact;
        let rounding = exact * 1e-12;
        prop_assert!(interval >= 1);
        prop_assert!((-rounding..1.0 + rounding).contains(&above), "{interval} for {exact}");
    }

    #[test]
    fn whole_tokens_are_counted_exactly(interval in 1_u64..1 << 40, room in 0_u64..1 << 57) {
        let burst = (1 << 57) / interval;
        let gcra = Gcra::new(Scale::NANOSECOND, interval, burst).unwrap();
        let room = room.min(gcra.tau);
        prop_assert_eq!(gcra.tokens(gcra.tau - room), room / interval);
    }
}

#[test]
fn saturated_time_leaves_room_for_a_full_burst() {
    let longest = Quota::per_second(1).burst(1 << 27);
    let gcra = Gcra::exact(&longest).unwrap();
    let now = gcra.scale().instant(Timestamp::from_nanos(u64::MAX));
    assert_eq!(now, NOW_MAX);
    let charged = gcra.admit(0, now, 1 << 27).expect("a fresh key has its burst");
    assert!(charged <= TAT_MAX);
    assert_eq!(gcra.admit(charged, now, 1), None);
}
