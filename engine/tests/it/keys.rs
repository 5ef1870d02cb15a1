//! Which keys are one key.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_engine::clock::{SharedClock, Timestamp};
use tidegate_engine::{Clock, Decision, Key, KeyHash, KeyHasher, Limiter, ManualClock, Quota};

const HASHERS: [fn() -> KeyHasher; 2] =
    [|| KeyHasher::rapid(0x5eed), || KeyHasher::siphash([7; 16])];

fn hashes(key: impl Key) -> [KeyHash; 2] {
    HASHERS.map(|hasher| key.hash_with(&hasher()))
}

/// Short texts over few letters, which are often prefixes of each other.
fn text() -> impl Strategy<Value = String> {
    "[ab]{0,3}"
}

proptest! {
    #[test]
    fn pairs_are_one_key_when_both_parts_are(
        one in (text(), text()),
        other in (text(), text()),
    ) {
        for (left, right) in hashes(&one).into_iter().zip(hashes(&other)) {
            prop_assert_eq!(left == right, one == other);
        }
    }

    #[test]
    fn triples_are_one_key_when_all_parts_are(
        one in (text(), text(), text()),
        other in (text(), text(), text()),
    ) {
        for (left, right) in hashes(&one).into_iter().zip(hashes(&other)) {
            prop_assert_eq!(left == right, one == other);
        }
    }

    #[test]
    fn a_pair_is_neither_of_its_parts_nor_all_its_bytes(one in text(), other in text()) {
        let pair = hashes((&one, &other));
        let joined = format!("{one}{other}");
        for part in [hashes(&one), hashes(&other), hashes(joined)] {
            prop_assert!(pair.iter().zip(part).all(|(pair, part)| *pair != part));
        }
    }

    #[test]
    fn a_part_may_be_hashed_before(one in any::<u64>(), other in text()) {
        for hasher in HASHERS.map(|hasher| hasher()) {
            let part = one.hash_with(&hasher);
            let whole = (one, &other).hash_with(&hasher);
            prop_assert_eq!((part, &other).hash_with(&hasher), whole);
            prop_assert_eq!(whole, (part, other.as_bytes()).hash_with(&hasher));
        }
    }

    #[test]
    fn a_pair_is_no_integer(one in any::<u64>(), other in any::<u64>()) {
        let [first, second] = [one, other].map(hashes);
        let bits = |index: usize| (first[index].to_bits(), second[index].to_bits());
        for (index, pair) in hashes((one, other)).into_iter().enumerate() {
            let (high, low) = bits(index);
            let integer = u128::from(high) << 64 | u128::from(low);
            prop_assert_ne!(pair, hashes(integer)[index]);
            prop_assert_ne!(pair, hashes(integer.to_le_bytes())[index]);
        }
    }

    #[test]
    fn integers_of_the_same_bits_are_one_key(value in any::<i8>()) {
        let expected = hashes(value);
        prop_assert_eq!(hashes(i16::from(value)), expected);
        prop_assert_eq!(hashes(i64::from(value)), expected);
        prop_assert_eq!(hashes(i64::from(value).cast_unsigned()), expected);
        prop_assert_eq!(hashes(i128::from(value)), hashes(i128::from(value).cast_unsigned()));
        prop_assert!(hashes(i128::from(value)) != expected);
    }
}

#[test]
fn a_pair_is_in_order_and_a_triple_is_a_pair_of_a_pair() {
    assert_ne!(hashes(("ab", "c")), hashes(("a", "bc")));
    assert_ne!(hashes(("a", "b")), hashes(("b", "a")));
    assert_ne!(hashes(("", "a")), hashes(("a", "")));
    assert_eq!(hashes(("a", 1_u8, "b")), hashes((("a", 1_i64), "b")));
    assert_ne!(hashes(("a", "b", "c")), hashes(("a", ("b", "c"))));
}

#[test]
fn a_text_is_one_key_however_it_is_held() {
    let expected = hashes("user:42");
    let text = || String::from("user:42");
    assert_eq!(hashes(text()), expected);
    assert_eq!(hashes(text().into_boxed_str()), expected);
    assert_eq!(hashes(Arc::<str>::from("user:42")), expected);
    assert_eq!(hashes(Rc::<str>::from("user:42")), expected);
    assert_eq!(hashes(Cow::Borrowed("user:42")), expected);
    assert_eq!(hashes(Cow::<str>::Owned(text())), expected);
    assert_eq!(hashes(Arc::<[u8]>::from(text().into_bytes())), expected);
    assert_eq!(hashes(b"user:42"), expected);
    assert_eq!(hashes((Arc::<str>::from("user:42"), 1)), hashes(("user:42", 1)));
}

/// A clock that the limiter treats as a plain load.
#[derive(Debug)]
struct Unstalled(ManualClock);

impl Clock for Unstalled {
    fn waits_for_loads(&self) -> bool {
        false
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// Twenty keys of one home bucket, so that they fill its block and overflow, with equal high bits,
/// so that a first comparison cannot distinguish them.
fn charge_lookalikes(clock: impl Clock) {
    let limiter = Limiter::builder(Quota::per_hour(1).burst(100)).clock(clock).build().unwrap();
    let keys: Vec<_> =
        (1..=20).map(|low| KeyHash::from_bits(0x0321_4567_89ab_0000 | low)).collect();
    let mut decisions = Vec::new();
    for (cost, key) in (1..).zip(&keys) {
        assert!(limiter.check_n(*key, cost).is_allowed());
    }
    for _ in 0..3 {
        for key in &keys {
            assert!(limiter.check(*key).is_allowed());
        }
        limiter.check_many(&keys, &mut decisions);
        assert!(decisions.iter().all(Decision::is_allowed));
    }
    assert_eq!(limiter.live().count(), keys.len());
    for (cost, key) in (1..).zip(&keys) {
        assert_eq!(limiter.peek(*key).remaining(), 100 - cost - 6);
    }
}

#[test]
fn keys_that_agree_in_their_high_bits_are_distinguished() {
    charge_lookalikes(ManualClock::new());
    charge_lookalikes(Unstalled(ManualClock::new()));
    let shared: SharedClock = Arc::new(Unstalled(ManualClock::new()));
    assert!(
        !shared.waits_for_loads() && !Box::new(&shared).waits_for_loads(),
        "as the clock behind it says"
    );
    charge_lookalikes(shared);
}

/// Rule, capacity and live keys; no words, no secrets of the hasher.
#[test]
fn a_limiter_prints_its_rule_and_its_fill() {
    let clock = tidegate_engine::ManualClock::new();
    let limiter = Limiter::builder(Quota::per_second(5)).capacity(1_000).clock(clock.clone());
    let limiter = limiter.build().unwrap();
    for key in 0..100_u64 {
        assert!(limiter.check(key).is_allowed());
    }
    let shown = format!("{limiter:?}");
    assert!(shown.starts_with("Limiter { rule: Quota { count: 5"), "{shown}");
    assert!(shown.contains("live_keys: 100, evicted: 0"), "{shown}");
    assert!(shown.len() < 200, "{shown}");
    clock.advance(core::time::Duration::from_secs(1));
    assert!(format!("{limiter:?}").contains("live_keys: 0"));
}
