use super::*;

const SEED: u64 = 7;

fn counts(workload: Workload, keys: usize, draws: u32) -> Vec<u32> {
    println!("seed {SEED}");
    let mut draw = Draw::new(workload, keys, SEED, 0).expect("a valid number of keys");
    let mut counts = vec![0; keys];
    for _ in 0..draws {
        counts[draw.next_index() as usize] += 1;
    }
    counts
}

#[test]
fn keys_have_sixteen_bytes_and_differ() {
    assert_eq!(key_of(0).len(), 16);
    assert_eq!(key_of(u32::MAX).len(), 16);
    assert_ne!(key_of(1), key_of(10));
}

#[test]
fn zipf_draws_follow_the_law() {
    const KEYS: usize = 1_000;
    const DRAWS: u32 = 1_000_000;
    let counts = counts(Workload::Zipf1M, KEYS, DRAWS);
    let weight = |rank: usize| (rank as f64).powf(-ZIPF_EXPONENT);
    let total: f64 = (1..=KEYS).map(weight).sum();
    for rank in [1, 2, 3, 10, 100] {
        let expected = f64::from(DRAWS) * weight(rank) / total;
        let found = f64::from(counts[rank - 1]);
        // Five standard deviations of a count.
        let slack = 5.0 * expected.sqrt();
        assert!((found - expected).abs() < slack, "rank {rank}: {found}, expected {expected}");
    }
}

#[test]
fn uniform_draws_reach_every_key_alike() {
    let counts = counts(Workload::Uniform10M, 100, 1_000_000);
    assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
}

#[test]
fn a_seed_and_a_thread_name_one_sequence() {
    let sequence = |seed, thread| {
        let mut draw = Draw::new(Workload::Uniform10M, 1_000_000, seed, thread).expect("valid");
        (0..100).map(|_| draw.next_index()).collect::<Vec<_>>()
    };
    assert_eq!(sequence(SEED, 1), sequence(SEED, 1));
    assert_ne!(sequence(SEED, 0), sequence(SEED, 1));
    assert_ne!(sequence(SEED, 0), sequence(SEED + 1, 0));
}

#[test]
fn new_keys_come_once_for_all_threads() {
    const DRAWS: usize = 10_000;
    let mut seen = std::collections::HashSet::new();
    for thread in 0..MAX_THREADS as usize {
        let mut draw = Draw::new(Workload::NewKey, DRAWS, SEED, thread).expect("few threads");
        assert!((0..DRAWS).all(|_| seen.insert(draw.next_index())), "thread {thread}");
    }
    assert!(Draw::new(Workload::NewKey, DRAWS, SEED, MAX_THREADS as usize).is_err());
}

#[test]
fn nothing_can_be_drawn_from_no_keys() {
    assert!(Draw::new(Workload::Zipf1M, 0, SEED, 0).is_err());
}

#[test]
fn frequent_keys_come_early() {
    const KEYS: usize = 10_000;
    for workload in [Workload::Zipf1M, Workload::Uniform10M] {
        let order = arrivals(workload, KEYS, 7).expect("keys");
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..KEYS as u32).collect::<Vec<_>>(), "each comes once");
    }
    let order = arrivals(Workload::Zipf1M, KEYS, 7).expect("keys");
    let place = |index: u32| order.iter().position(|other| *other == index).unwrap_or(KEYS);
    let frequent: usize = (0..10).map(place).sum();
    let rare: usize = (KEYS as u32 - 10..KEYS as u32).map(place).sum();
    assert!(frequent * 10 < rare, "{frequent} {rare}");
}
