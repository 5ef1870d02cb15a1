//! Units are given back while their sub-window is advanced, reset or charged: they count until then
//! and never after.

use loom::sync::Arc;

use super::super::sharded::UnitShards;
use super::{PAIR, TRIO, explore, spawn, take, window};

/// The index of the sub-window of an instant.
const fn index(now: u64) -> u64 {
    now / 10 + 1
}

/// Two checks, of which the second finds the window full or freed.
#[test]
fn a_give_back_during_a_check_frees_its_units_once() {
    explore(None, || {
        let world = Arc::new(window(3));
        assert_eq!(take(&world, 2, 1), 2);
        let other = spawn(&world, |window| window.ring.give_back(index(1), 1));
        let admitted = take(&world, 1, 9) + take(&world, 1, 9);
        other.join().unwrap();
        assert!((1..=2).contains(&admitted));
        assert_eq!(world.peek(9).remaining(), 2 - admitted);
        assert_eq!(world.peek(20).remaining(), 3);
    });
}

/// A check advances the window meanwhile: the units leave the head or enter the returns, never
/// both, and none of them expires a second time.
#[test]
fn a_give_back_meets_the_turn_of_its_sub_window() {
    explore(None, || {
        let world = Arc::new(window(4));
        assert_eq!(take(&world, 3, 1), 3);
        let other = spawn(&world, |window| window.ring.give_back(index(1), 1));
        let admitted = take(&world, 1, 11) + take(&world, 1, 11);
        other.join().unwrap();
        assert!((1..=2).contains(&admitted));
        assert_eq!(world.peek(11).remaining(), 2 - admitted);
        assert_eq!(world.peek(20).remaining(), 4 - admitted);
        assert_eq!(take(&world, 4 - admitted, 20), 4 - admitted);
        assert_eq!(world.peek(40).remaining(), 4);
    });
}

/// Two give-backs of a past sub-window, concurrent with a check that advances the window.
#[test]
fn two_give_backs_of_a_past_sub_window_are_both_made() {
    explore(Some(TRIO), || {
        let world = Arc::new(window(3));
        assert_eq!((take(&world, 2, 1), take(&world, 1, 11)), (2, 1));
        let others = [(); 2].map(|()| spawn(&world, |window| window.ring.give_back(index(1), 1)));
        let admitted = take(&world, 1, 12);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(world.peek(12).remaining(), 2 - admitted);
        assert_eq!(world.peek(20).remaining(), 2 - admitted);
        assert_eq!(world.peek(30).remaining(), 3);
    });
}

/// A give-back is late by a lap: the cell of its sub-window is being reused by a later one.
#[test]
fn a_give_back_of_what_has_expired_leaves_later_returns() {
    explore(Some(PAIR), || {
        let world = Arc::new(window(3));
        assert_eq!((take(&world, 1, 1), take(&world, 2, 11)), (1, 2));
        let late = spawn(&world, |window| window.ring.give_back(index(1), 1));
        assert_eq!(take(&world, 1, 21), 1);
        // The sub-windows 1 and 3 share a cell.
        assert_eq!(take(&world, 2, 31), 2);
        world.ring.give_back(index(21), 1);
        late.join().unwrap();
        assert_eq!(world.peek(31).remaining(), 1);
        assert_eq!(world.peek(40).remaining(), 1);
        assert_eq!(world.peek(50).remaining(), 3);
    });
}

/// What a reset has erased is not given back in addition.
#[test]
fn a_reset_meets_a_give_back_of_a_past_sub_window() {
    explore(Some(PAIR), || {
        let world = Arc::new(window(2));
        assert_eq!((take(&world, 1, 1), take(&world, 1, 11)), (1, 1));
        let other = spawn(&world, |window| window.ring.give_back(index(1), 1));
        world.ring.reset(11);
        let admitted = take(&world, 1, 11);
        other.join().unwrap();
        assert_eq!((admitted, take(&world, 2, 11), take(&world, 1, 11)), (1, 0, 1));
        assert_eq!(world.peek(19).remaining(), 0);
        assert_eq!(world.peek(30).remaining(), 2);
    });
}

/// A unit of a block goes back to the counter, and the block's other units stay in the shard.
#[test]
fn a_unit_of_a_block_is_given_back_to_the_counter() {
    explore(None, || {
        let world = Arc::new(UnitShards::new(window(3), 1, 2).unwrap());
        let (decision, charged) = world.take(0, 1, 1, || ());
        assert_eq!((decision.is_allowed(), charged), (true, Some(index(1))));
        let other = spawn(&world, |shards| shards.source.ring.give_back(index(1), 1));
        let check = |shards: &UnitShards| u64::from(shards.check(0, 1, 9, || ()).is_allowed());
        let admitted = check(&world) + check(&world) + check(&world);
        other.join().unwrap();
        assert!((2..=3).contains(&admitted), "{admitted}");
        assert_eq!(world.peek(9).remaining(), 3 - admitted);
    });
}
