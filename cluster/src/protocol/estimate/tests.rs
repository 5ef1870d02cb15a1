use std::net::SocketAddr;

use super::*;
use crate::protocol::change::Change;

const MS: i64 = 1_000_000;
const KEY: KeyId = (1, 1);
/// A burst of 100 ms.
const TOLERANCE: Nanos = 100_000_000;

fn origin(n: usize) -> Origin {
    Origin { addr: SocketAddr::from(([10, 0, 0, 1], 1_000 + n as u16)), generation: 1 }
}

/// A key that is followed from 1 s on, when it was fresh.
fn followed() -> Estimates {
    let mut estimates = Estimates::default();
    estimates.follow(1_500 * MS as Nanos, KEY, TOLERANCE, 0, &[]);
    for n in 0..2 {
        estimates.since(origin(n), 1_000 * MS);
    }
    estimates
}

/// A node consumes `debt` in the 10 ms up to `at`.
fn batch(estimates: &mut Estimates, n: usize, at: i64, debt: i64) {
    let since = estimates.since(origin(n), at);
    let change = Change { debt, date: since };
    let delta = Delta { limit: KEY.0, key: KEY.1, change };
    estimates.add(at as Nanos, since, at, &[delta]);
}

fn ended(mut estimates: Estimates, at: i64) -> OverAdmission {
    estimates.play(at as Nanos, 0, |_| None);
    estimates.of(KEY.0)
}

#[test]
fn a_burst_at_each_of_two_nodes_is_one_burst_beyond() {
    let mut estimates = followed();
    for n in 0..2 {
        batch(&mut estimates, n, 1_010 * MS, 100 * MS);
    }
    let found = ended(estimates, 2_000 * MS);
    // Less what drains in the 10 ms over which it is spread.
    assert!((88..=100).contains(&found.total.as_millis()), "{found:?}");
    assert!((88..=100).contains(&found.worst.as_millis()), "{found:?}");
}

#[test]
fn what_drains_meanwhile_is_not_beyond() {
    let mut estimates = followed();
    // Together as much as drains, after half a burst.
    batch(&mut estimates, 0, 1_010 * MS, 50 * MS);
    for step in 2..80 {
        for n in 0..2 {
            batch(&mut estimates, n, (1_000 + 10 * step) * MS, 5 * MS);
        }
    }
    assert_eq!(ended(estimates, 2_000 * MS), OverAdmission::default());
}

#[test]
fn what_is_paid_back_is_beyond_once() {
    let mut estimates = followed();
    batch(&mut estimates, 0, 1_010 * MS, 150 * MS);
    // It owes 140, then 145 and so on for a while: 40 are beyond, and then 5 for each step.
    for step in 2..6 {
        batch(&mut estimates, 1, (1_000 + 10 * step) * MS, 15 * MS);
    }
    // Nothing for 200 ms, and then again what fits.
    batch(&mut estimates, 1, 1_300 * MS, 50 * MS);
    let found = ended(estimates, 2_000 * MS);
    assert!((58..=62).contains(&found.total.as_millis()), "{found:?}");
    assert!((58..=62).contains(&found.worst.as_millis()), "{found:?}");
}

#[test]
fn a_playback_begins_with_what_the_word_owed() {
    let mut estimates = Estimates::default();
    // It owes 90 at 1.1 s, of which nothing more is sent.
    estimates.follow(1_100 * MS as Nanos, KEY, TOLERANCE, 1_190 * MS, &[]);
    batch(&mut estimates, 0, 1_110 * MS, 5 * MS);
    batch(&mut estimates, 0, 1_120 * MS, 50 * MS);
    let found = ended(estimates, 2_000 * MS);
    assert!((20..=27).contains(&found.worst.as_millis()), "90 + 55 - 20 - 100: {found:?}");
    // A word that is ahead by a little was idle: nodes knew of their own use only.
    let mut estimates = Estimates::default();
    let pieces = [Piece { from: 1_080 * MS, to: 1_090 * MS, debt: 60 * MS }];
    estimates.follow(1_100 * MS as Nanos, KEY, TOLERANCE, 1_150 * MS, &pieces);
    batch(&mut estimates, 0, 1_110 * MS, 60 * MS);
    let found = ended(estimates, 2_000 * MS);
    assert!(found.worst.as_millis() < 1, "60 + 60 - 30 is less than 100: {found:?}");
}

#[test]
fn keys_beyond_the_bound_are_counted() {
    let mut estimates = Estimates::default();
    for key in 0..100 {
        estimates.want((1, key));
        estimates.want((1, key));
    }
    assert_eq!(estimates.left_out(), 2 * (100 - MAX_WANTED as u64));
    for n in 0..2_000 {
        estimates.since(origin(n), 5);
    }
    assert!(estimates.sealed.len() <= MAX_ORIGINS);
}

/// A service may make limits one after the other.
#[test]
fn figures_of_limits_that_were_exceeded_least_make_room() {
    let mut estimates = followed();
    for n in 0..2 {
        batch(&mut estimates, n, 1_010 * MS, 100 * MS);
    }
    for limit in 2..2 * MAX_LIMITS as u64 {
        let now = 2_000 * MS as Nanos + limit * PLAY_EVERY;
        estimates.follow(now, (limit, 1), TOLERANCE, 0, &[]);
        estimates.play(now, 0, |limit| (limit > 900).then_some(TOLERANCE));
    }
    assert_eq!(estimates.limits().count(), MAX_LIMITS);
    assert!(estimates.of(KEY.0).total.is_zero(), "that limit exists no more");
    assert!(estimates.limits().all(|limit| limit > 900));
}

/// Not one of the others, of which batches come.
#[test]
fn the_origin_that_was_silent_for_longest_is_forgotten_first() {
    let mut estimates = Estimates::default();
    let (living, later) = (origin(0), 100 + MAX_ORIGINS as i64);
    for n in 1..MAX_ORIGINS {
        estimates.since(origin(n), 100 + n as i64);
    }
    estimates.since(living, later);
    estimates.since(origin(9_999), later);
    assert_eq!(estimates.since(living, later + 10), later);
    assert!(!estimates.sealed.contains_key(&origin(1)));
}

#[test]
fn a_changed_tolerance_counts_from_the_next_playback_on() {
    let mut estimates = followed();
    batch(&mut estimates, 0, 1_010 * MS, 150 * MS);
    estimates.play(2_000 * MS as Nanos, 0, |_| Some(1_000 * MS as Nanos));
    assert_eq!(estimates.of(KEY.0), OverAdmission::default());
}

#[test]
fn the_worst_moment_is_forgotten_after_a_while() {
    let mut estimates = followed();
    batch(&mut estimates, 0, 1_010 * MS, 150 * MS);
    estimates.play(2_000 * MS as Nanos, 0, |_| None);
    let found = estimates.of(KEY.0);
    assert!(found.worst > Duration::ZERO);
    estimates.play(200_000 * MS as Nanos, 0, |_| None);
    assert_eq!(estimates.of(KEY.0), OverAdmission { worst: Duration::ZERO, ..found });
}
