//! Values of two epochs, distinguished wherever they stand on the ring.

use core::time::Duration;

use proptest::prelude::*;

use super::*;

fn quotas() -> impl Strategy<Value = Quota> {
    let years = |years: u64| Duration::from_secs(years * 365 * 86_400);
    prop::sample::select(vec![
        Quota::per_second(7),
        Quota::per_second(1_000).burst(1),
        Quota::new(3, years(1)),
        Quota::new(1, years(4)).burst(1),
        Quota::blocked(),
    ])
}

fn inheritances() -> impl Strategy<Value = Inheritance> {
    prop::sample::select(vec![Inheritance::Proportional, Inheritance::Keep, Inheritance::Reset])
}

/// What a key owes at a change, at most what it may.
fn debts() -> impl Strategy<Value = Vec<u64>> {
    let debt = prop_oneof![0..4_u64, 0..1_u64 << 40, 0..=DEBT_MAX, Just(DEBT_MAX)];
    prop::collection::vec(debt, 1..5)
}

/// How long an epoch lasts: moments, or up to 20 years.
fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, 0..1_u64 << 40, 0..1_u64 << 59]
}

/// A value of the epoch, and its TAT, which is a unit more where the value would be 0.
fn stand(epoch: &Epoch, tat: u64) -> (u64, u64) {
    let value = ring::value(epoch.time.floor, tat);
    (value, ring::tat(epoch.time.floor, value))
}

/// The epoch from `at` on that comes after one in which keys owe `debts`; all its words are its
/// own.
fn enter(
    epoch: &Epoch,
    (quota, how): (Quota, Inheritance),
    at: Timestamp,
    debts: &[u64],
) -> Result<Epoch, TestCaseError> {
    let end = epoch.time.point(at);
    let owed = || debts.iter().map(|debt| stand(epoch, (end + debt).min(TAT_MAX)));
    let highest = owed().map(|(_, tat)| tat).max().unwrap_or(0);
    let gcra = Gcra::exact(&quota).unwrap();
    let Some(next) = epoch.next(quota, gcra, how, at, highest) else {
        let shortened = epoch.shortened(at);
        let by = end - shortened.time.point(at);
        prop_assert!(by > 0, "shortened in vain");
        for (value, tat) in owed() {
            prop_assert_eq!(shortened.tat(value & TAT_MAX), tat - by);
            prop_assert_eq!(shortened.found(value & TAT_MAX, end - by), tat - by);
            prop_assert_eq!(shortened.converted(value & TAT_MAX), None);
        }
        let (expired, _) = stand(epoch, by - 1);
        prop_assert_eq!(shortened.tat(expired & TAT_MAX), 0);
        let debts: Vec<_> = owed().map(|(_, tat)| tat - end).collect();
        return enter(&shortened.swept(), (quota, how), at, &debts);
    };
    for (value, tat) in owed().chain([stand(epoch, 0), stand(epoch, end)]) {
        let carried = next.past.debt(tat);
        prop_assert!(tat > end || carried == 0);
        prop_assert_eq!(next.tat(value & TAT_MAX), carried);
        prop_assert_eq!(next.found(value & TAT_MAX, 0), carried);
        let converted = next.converted(value & TAT_MAX).expect("a value from before");
        prop_assert_eq!(converted, stand(&next, carried).0);
        prop_assert_eq!(ring::whole_tat(next.time.floor, value), None);
        prop_assert_eq!(ring::whole_tat(next.past.floor, value), Some(tat));
    }
    for (value, tat) in [0, 1, next.gcra.tau(), DEBT_MAX, AHEAD_MAX].map(|tat| stand(&next, tat)) {
        prop_assert_eq!(next.tat(value & TAT_MAX), tat);
        prop_assert_eq!(next.converted(value & TAT_MAX), None);
        prop_assert_eq!(next.found(value & TAT_MAX, 1), tat);
        prop_assert_eq!(ring::whole_tat(next.time.floor, value), Some(tat));
    }
    let swept = next.swept();
    for (value, tat) in [0, NOW_MAX, TAT_MAX - 1].map(|tat| stand(&next, tat)) {
        prop_assert_eq!(swept.tat(value & TAT_MAX), tat);
    }
    Ok(swept)
}

proptest! {
    #[test]
    fn values_of_two_epochs_are_distinguished(
        first in quotas(),
        changes in prop::collection::vec((quotas(), inheritances(), lengths(), debts()), 1..60),
    ) {
        let mut epoch = Epoch::first(first, Gcra::exact(&first).unwrap());
        let mut at = Timestamp::ORIGIN;
        for (quota, how, length, debts) in changes {
            at = at.saturating_add(Duration::from_nanos(length));
            let before = epoch.time.floor;
            epoch = enter(&epoch, (quota, how), at, &debts)?;
            prop_assert_eq!(Epoch::from_words(epoch.to_words()).to_words(), epoch.to_words());
            prop_assert_ne!(epoch.time.floor, before);
            prop_assert_eq!(epoch.tat(0), 0);
        }
    }
}
