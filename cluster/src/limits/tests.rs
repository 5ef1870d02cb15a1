use std::thread;

use tidegate_engine::{KeyHasher, ManualClock, Quota};

use super::*;

const SECOND: Nanos = 1_000_000_000;
const LIMIT: u64 = 7;
const HOUR: Nanos = 3_600 * SECOND;

type ByHand = Limiter<Quota, ManualClock>;

/// 100 an hour.
fn limiter() -> Arc<ByHand> {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1));
    let quota = Quota::per_hour(100);
    let builder = Limiter::builder_with(quota, clock, KeyHasher::rapid(1)).capacity(1_000);
    Arc::new(builder.build().unwrap())
}

fn attach(limits: &Limits, limit: u64, to: &Arc<ByHand>, now: Nanos) -> Result<(), Refused> {
    let limiter: Arc<dyn DebtLimiter> = Arc::clone(to) as _;
    limits.insert(LimitId(limit), Arc::downgrade(&limiter), || now)
}

/// The bits of a hash, which a table spreads.
fn key(number: u64) -> u64 {
    KeyHasher::rapid(1).hash_u64(number).to_bits()
}

fn delta(limit: u64, number: u64, debt: Nanos, date: Nanos) -> Delta {
    let change = Change { debt: signed(debt), date: signed(date) };
    Delta { limit, key: key(number), change }
}

/// Whether there was room for a change of a limit that is not there.
fn keep(limits: &Limits, now: Nanos, delta: Delta) -> bool {
    limits.get_or_change(now, delta).err().expect("there is no limiter")
}

fn debt(limiter: &ByHand, number: u64) -> u64 {
    limiter.debt(number).as_secs()
}

/// All that is live, by limit and key.
fn live(limits: &Limits, now: Nanos) -> BTreeMap<(u64, u64), Nanos> {
    let (mut levels, mut at) = (Vec::new(), Some(ScanPosition::default()));
    while let Some(part) = at {
        let before = levels.len();
        at = limits.scan(now, part, &mut levels);
        assert!(levels.len() - before <= MAX_PART_KEYS);
    }
    levels.into_iter().map(|level| ((level.limit, level.key), level.debt)).collect()
}

#[test]
fn a_limiter_gets_what_was_sent_before_it_was_there() {
    let (limits, limiter) = (Limits::default(), limiter());
    for number in 1..=1_000 {
        assert!(keep(&limits, 10 * SECOND, delta(LIMIT, number, 60 * SECOND, 10 * SECOND)));
    }
    assert!(keep(&limits, 10 * SECOND, delta(LIMIT, 1, 30 * SECOND, 5 * SECOND)));
    // Drained, but for 2 s, when the limiter comes.
    assert!(keep(&limits, 10 * SECOND, delta(LIMIT, 2_000, 12 * SECOND, 10 * SECOND)));
    let level = Level { limit: LIMIT, key: key(2), debt: 90 * SECOND };
    assert_eq!(limits.get_or_raise(10 * SECOND, level).err(), Some(true));
    assert!(keep(&limits, 10 * SECOND, delta(8, 1, 60 * SECOND, 10 * SECOND)));
    // More than any node can owe.
    assert!(keep(&limits, 10 * SECOND, delta(LIMIT, 3, 99 * HOUR, 10 * SECOND)));

    attach(&limits, LIMIT, &limiter, 20 * SECOND).unwrap();
    assert_eq!([1, 2, 4, 2_000].map(|key| debt(&limiter, key)), [80, 80, 50, 2]);
    assert_eq!(debt(&limiter, 3), 16 * 3_600);
    assert_eq!(live(&limits, 20 * SECOND).len(), 1_002);
    let limiter = limits.get_or_change(20 * SECOND, delta(LIMIT, 1, 1, 1));
    assert!(limiter.is_ok(), "from here on the limiter is charged");
}

#[test]
fn a_refund_of_what_was_sent_before_counts_too() {
    let (limits, limiter) = (Limits::default(), limiter());
    assert!(keep(&limits, SECOND, delta(LIMIT, 1, 60 * SECOND, SECOND)));
    let refund = Change { debt: -signed(20 * SECOND), date: signed(SECOND) };
    assert!(keep(&limits, SECOND, Delta { limit: LIMIT, key: key(1), change: refund }));
    attach(&limits, LIMIT, &limiter, SECOND).unwrap();
    assert_eq!(debt(&limiter, 1), 40);
}

#[test]
fn a_limit_has_one_limiter_until_that_is_dropped() {
    let (limits, first) = (Limits::default(), limiter());
    attach(&limits, LIMIT, &first, 0).unwrap();
    assert_eq!(attach(&limits, LIMIT, &limiter(), 0), Err(Refused::Exists));
    drop(first);
    assert!(limits.get(LIMIT).is_none());
    assert!(keep(&limits, 0, delta(LIMIT, 1, 60 * SECOND, 0)));
    let second = limiter();
    attach(&limits, LIMIT, &second, 0).unwrap();
    assert_eq!(debt(&second, 1), 60);
}

/// Others' changes under such an id go to the one limiter of all quotas that come with checks.
#[test]
fn a_limiter_has_no_id_of_a_quota_that_comes_with_checks() {
    let (limits, limiter) = (Limits::default(), limiter());
    let inline = inline::id(SECOND, SECOND / 100);
    assert_eq!(attach(&limits, inline, &limiter, 0), Err(Refused::Inline));
    assert_eq!(attach(&limits, LimitId::INLINE.to_bits(), &limiter, 0), Ok(()));
    assert!(limits.get(inline).is_some());
}

/// However long the driver takes for the last change.
#[test]
fn a_limit_whose_limiter_was_dropped_in_use_does_not_exist() {
    let (limits, first) = (Limits::default(), limiter());
    attach(&limits, LIMIT, &first, 0).unwrap();
    let in_use = limits.get(LIMIT).unwrap();
    drop(first);
    thread::scope(|scope| {
        let second = scope.spawn(|| attach(&limits, LIMIT, &limiter(), 0));
        // Long enough for it to be refused.
        thread::sleep(Duration::from_millis(50));
        drop(in_use);
        assert_eq!(second.join().unwrap(), Ok(()));
    });
}

#[test]
fn states_list_words_with_and_without_a_limiter_once() {
    let (limits, limiter) = (Limits::default(), limiter());
    attach(&limits, LIMIT, &limiter, 0).unwrap();
    for key in 1..=600 {
        limiter.charge_debt(key, Duration::from_secs(60), limiter.clock().now());
        for limit in [3, 9] {
            assert!(keep(&limits, SECOND, delta(limit, key, 60 * SECOND, SECOND)));
        }
    }
    let listed = live(&limits, 11 * SECOND);
    assert_eq!(listed.len(), 1_800);
    assert_eq!(listed[&(3, key(600))], 50 * SECOND);
    assert!(listed.keys().all(|(limit, _)| [3, LIMIT, 9].contains(limit)));

    // A limit that appears while it is listed begins again with its limiter's words.
    let mut levels = Vec::new();
    let part = limits.scan(SECOND, ScanPosition(9, 0), &mut levels).unwrap();
    let nine = super::tests::limiter();
    attach(&limits, 9, &nine, SECOND).unwrap();
    let mut at = Some(part);
    while let Some(part) = at {
        at = limits.scan(SECOND, part, &mut levels);
    }
    let keys: BTreeMap<_, _> = levels.iter().map(|level| (level.key, level.debt)).collect();
    assert_eq!(keys.len(), 600);
}

#[test]
fn words_without_a_limiter_are_bounded_and_drained_ones_make_room() {
    let limits = Limits::default();
    for key in 0..MAX_UNCLAIMED_KEYS as u64 {
        assert!(keep(&limits, 0, delta(LIMIT, key, SECOND + key, 0)));
    }
    assert!(!keep(&limits, 0, delta(8, 1, 2 * SECOND, 0)));
    assert_eq!(limits.dropped(), 1);
    // A key that has a word needs no room.
    assert!(keep(&limits, 0, delta(LIMIT, 5, SECOND, 0)));
    let later = 2 * SECOND;
    let kept = (0..100).filter(|key| keep(&limits, later, delta(8, *key, SECOND, later))).count();
    assert!(kept >= 99, "{kept}");
    let table = limits.table();
    assert_eq!(table.unclaimed_keys, table.unclaimed.values().map(BTreeMap::len).sum::<usize>());
}

/// Another node may name any key.
#[test]
fn words_are_swept_past_the_last_key_that_there_is() {
    let limits = Limits::default();
    let of = |limit, key, debt| Delta { limit, key, change: Change::new(signed(debt), 0) };
    assert!(keep(&limits, 0, of(LIMIT, u64::MAX, HOUR)));
    assert!(keep(&limits, 0, of(8, 1, SECOND)));
    for _ in 0..4 {
        assert!(keep(&limits, 2 * SECOND, of(9, 1, SECOND)));
    }
    assert_eq!(limits.table().unclaimed_keys, 1, "the second one has drained");
}

#[test]
fn a_limiter_owes_no_more_for_what_came_before_and_after_it_was_there() {
    let (limits, limiter) = (Limits::default(), limiter());
    assert!(keep(&limits, 0, delta(LIMIT, 1, 99 * HOUR, 0)));
    limiter.charge_debt(1, Duration::from_secs(10 * 3_600), limiter.clock().now());
    attach(&limits, LIMIT, &limiter, 0).unwrap();
    assert_eq!(debt(&limiter, 1), 16 * 3_600);
}

/// Nodes that admit a burst each before they know of each other pay it back.
#[test]
fn a_key_may_owe_many_bursts_that_are_short() {
    let inline = LimitId::inline(Duration::from_millis(1), 1).to_bits();
    let bounds = [1, SECOND, HOUR].map(|tolerance| most_debt(LIMIT, Some(tolerance)));
    assert_eq!(bounds, [HOUR, HOUR, 16 * HOUR]);
    assert_eq!(most_debt(LIMIT, None), 1 << 57);
    assert_eq!(most_debt(inline, Some(1)), 1 << 57);
}

/// Another node may say that keys of any limits owe for years.
#[test]
fn what_lasts_longest_makes_room() {
    let limits = Limits::default();
    for key in 0..MAX_UNCLAIMED_KEYS as u64 {
        assert!(keep(&limits, 0, delta(8, key, 1_000 * HOUR, 0)));
    }
    for key in 0..100 {
        assert!(keep(&limits, 0, delta(LIMIT, key, 60 * SECOND, 0)));
    }
    assert_eq!(limits.dropped(), 100);
    assert_eq!(limits.table().unclaimed_keys, MAX_UNCLAIMED_KEYS);
    assert!(!keep(&limits, 0, delta(8, u64::MAX, 1_000 * HOUR, 0)), "it would last as long");
    let limiter = limiter();
    attach(&limits, LIMIT, &limiter, 0).unwrap();
    assert!((0..100).all(|key| debt(&limiter, key) == 60));
    let table = limits.table();
    assert_eq!(table.unclaimed_keys, table.unclaimed.values().map(BTreeMap::len).sum::<usize>());
}
