use proptest::prelude::*;

use crate::protocol::Change;

/// Small enough that nothing saturates, and that debts and dates meet.
const RANGE: std::ops::Range<i64> = -1_000..1_000;

fn any_debt() -> impl Strategy<Value = Change> {
    (RANGE, RANGE).prop_map(|(debt, date)| Change::new(debt, date))
}

proptest! {
    #[test]
    fn composing_is_associative(a in any_debt(), b in any_debt(), c in any_debt()) {
        prop_assert_eq!(a.then(b).then(c), a.then(b.then(c)));
    }

    #[test]
    fn a_composition_is_the_fold_of_its_parts(
        first in any_debt(),
        others in prop::collection::vec(any_debt(), 0..20),
        tat in RANGE,
    ) {
        let folded = others.iter().fold(first.apply(tat), |tat, one| one.apply(tat));
        let composed = others.iter().fold(first, |all, one| all.then(*one));
        prop_assert_eq!(composed.apply(tat), folded);
    }

    #[test]
    fn parts_of_what_was_made_before_are_the_same_and_not_later(
        first in any_debt(),
        others in prop::collection::vec(any_debt(), 0..20),
        tat in RANGE,
    ) {
        let composed = others.iter().fold(first, |all, one| all.then(*one));
        let at = others.iter().fold(first.date, |at, one| at.max(one.date));
        let parts: Vec<Change> = composed.parts(at).collect();
        prop_assert!(parts.iter().all(|part| part.date <= at));
        let parted = parts.iter().fold(tat, |tat, part| part.apply(tat));
        // An empty word is one, however long it has been so.
        prop_assert_eq!(parted.max(at), composed.apply(tat).max(at));
    }

    #[test]
    fn nothing_wraps(a in any::<(i64, i64)>(), b in any::<(i64, i64)>()) {
        let both = Change::new(a.0, a.1).then(Change::new(b.0, b.1));
        prop_assert!(both.date >= a.1);
        let sum = i128::from(a.0) + i128::from(b.0);
        prop_assert_eq!(i128::from(both.debt.signum()), sum.signum());
    }
}
