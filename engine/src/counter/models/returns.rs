//! Units that are given back, of a sub-window that is being turned, reset or charged meanwhile: they count until then,
//! and nowhere after.

use loom::sync::Arc;

use super::super::sharded::Shards;
use super::{PAIR, TRIO, explore, spawn, take, window};

/// The number of the sub-window of an instant.
const fn index(now: u64) -> u64 {
    now / 10 + 1
}

/// Two checks, of which the second finds the window full, or not any more.
#[test]
fn a_give_back_beside_a_check_frees_its_units_once() {
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

/// The sub-window of the units is turned by a check meanwhile: they leave the head or its returns, never both, and
/// nothing of them expires later.
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

/// Two that give back of a past sub-window, beside a check that turns the next one.
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

/// Who gives back is late by a lap: the cell of its sub-window is being taken by a later one.
#[test]
fn a_give_back_of_what_has_expired_leaves_later_returns() {
    explore(Some(PAIR), || {
        let world = Arc::new(window(3));
        assert_eq!((take(&world, 1, 1), take(&world, 2, 11)), (1, 2));
        let late = spawn(&world, |window| window.ring.give_back(index(1), 1));
        assert_eq!(take(&world, 1, 21), 1);
        // The sub-windows 1 and 3 have one cell.
        assert_eq!(take(&world, 2, 31), 2);
        world.ring.give_back(index(21), 1);
        late.join().unwrap();
        assert_eq!(world.peek(31).remaining(), 1);
        assert_eq!(world.peek(40).remaining(), 1);
        assert_eq!(world.peek(50).remaining(), 3);
    });
}

/// What a reset has forgotten is not given back on top.
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

/// A unit of a block goes back to the counter, and the block's others stay where they are.
#[test]
fn a_unit_of_a_block_is_given_back_to_the_counter() {
    explore(None, || {
        let world = Arc::new(Shards::new(window(3), 1, 2).unwrap());
        let (decision, charged) = world.take(0, 1, 1, || ());
        assert_eq!((decision.is_allowed(), charged), (true, Some(index(1))));
        let other = spawn(&world, |shards| shards.source.ring.give_back(index(1), 1));
        let check = |shards: &Shards| u64::from(shards.check(0, 1, 9, || ()).is_allowed());
        let admitted = check(&world) + check(&world) + check(&world);
        other.join().unwrap();
        assert!((2..=3).contains(&admitted), "{admitted}");
        assert_eq!(world.peek(9).remaining(), 3 - admitted);
    });
}
