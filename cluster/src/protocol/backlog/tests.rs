use super::*;
use crate::protocol::wire::Agreement;

fn batch(number: u64, debts: &[(u64, i64)]) -> Batch {
    let delta = |&(key, debt): &(u64, i64)| Delta {
        limit: 1,
        key,
        change: Change { debt, date: number.cast_signed() },
    };
    let deltas = debts.iter().map(delta).collect();
    Batch::new(number, (0, number), deltas, Agreement::default())
}

fn keep(_: &Delta) -> bool {
    false
}

fn sums(part: &BacklogPart) -> Vec<(u64, i64)> {
    part.deltas.iter().map(|delta| (delta.key, delta.change.debt)).collect()
}

#[test]
fn a_peer_is_given_what_came_after_it_and_no_more() {
    let mut backlog = Backlog::new(MAX_BACKLOG_KEYS);
    backlog.fold(&batch(1, &[(1, 1), (2, 1)]), true, keep);
    backlog.fold(&batch(2, &[(1, 10)]), false, keep);
    // A peer stands after batch 2.
    backlog.fold(&batch(3, &[(1, 100), (3, 100)]), true, keep);
    assert_eq!(sums(&backlog.part((0, 3), None, 10, keep)), [(1, 111), (2, 1), (3, 100)]);
    assert_eq!(sums(&backlog.part((2, 3), None, 10, keep)), [(1, 100), (3, 100)]);
    assert_eq!(sums(&backlog.part((0, 2), None, 10, keep)), [(1, 11), (2, 1)]);
    backlog.release(Some(2), &mut Discard::default());
    assert_eq!((backlog.keys(), backlog.dropped), (2, 0));
    backlog.release(None, &mut Discard::default());
    assert_eq!(backlog.keys(), 0);
}

#[test]
fn parts_follow_each_other_in_order_of_keys_and_leave_nothing_out() {
    let mut backlog = Backlog::new(MAX_BACKLOG_KEYS);
    for number in 1..=4 {
        let debts: Vec<_> = (0..40).filter(|key| key % number == 0).map(|key| (key, 1)).collect();
        backlog.fold(&batch(number, &debts), true, keep);
    }
    // Some that have no key in common, each of fewer than a part: all of them have two parts.
    let mut apart = Backlog::new(MAX_BACKLOG_KEYS);
    for number in 1..=3 {
        let debts: Vec<_> = (0..5).map(|key| (3 * key + number, 1)).collect();
        apart.fold(&batch(number, &debts), true, keep);
    }
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let part = apart.part((0, 3), after, 7, keep);
        seen.extend(sums(&part));
        let Some(upto) = part.upto else { break };
        after = Some(upto);
    }
    assert_eq!(seen, (1..=15).map(|key| (key, 1)).collect::<Vec<_>>());
    for most in [1, 3, 7, 100] {
        let (mut after, mut seen) = (None, BTreeMap::new());
        loop {
            let part = backlog.part((0, 4), after, most, keep);
            assert!(part.deltas.len() <= most);
            for (key, debt) in sums(&part) {
                assert_eq!(seen.insert(key, debt), None, "key {key} comes twice");
            }
            let Some(upto) = part.upto else { break };
            assert!(after.is_none_or(|after| after < upto));
            after = Some(upto);
        }
        let expected = (0..40).map(|key| (key, (1..=4).filter(|n| key % n == 0).count() as i64));
        assert_eq!(seen, expected.collect(), "{most} at once");
    }
}

#[test]
fn what_has_drained_makes_room() {
    let mut backlog = Backlog::new(MAX_BACKLOG_KEYS);
    let void = |delta: &Delta| delta.key < 1_000;
    let debts: Vec<_> = (0..1_000).map(|key| (key, 1)).collect();
    backlog.fold(&batch(1, &debts), true, void);
    let debts: Vec<_> = (1_000..3_000).map(|key| (key, 1)).collect();
    backlog.fold(&batch(2, &debts), false, void);
    assert_eq!(backlog.keys(), 2_000);
    assert_eq!(backlog.part((0, 2), None, 5_000, void).deltas.len(), 2_000);
}
