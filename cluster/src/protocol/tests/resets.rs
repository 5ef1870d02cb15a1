//! What nodes give back, next to what others consume.

use super::network::MS;
use super::words::QUICK;
use super::world::World;
use crate::protocol::Options;

const SECOND: u64 = 1_000 * MS;
const KEY: (u64, u64) = (QUICK, 1);

/// Two nodes reset a key before they hear of each other, and one of them consumes soon after that.
/// Were the other's reset sent with what that node consumes later, no date would say that it came
/// first, and it would forgive what was consumed in between.
#[test]
fn what_is_consumed_after_two_resets_at_once_stays() {
    // Levels are sent every 100 ms, and with them all that waits.
    for phase in 0..10 {
        let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
        world.start(0, &[]);
        world.start(1, &[0]);
        world.run(5 * SECOND);
        world.admit(0, KEY.0, KEY.1, 50 * MS);
        for _ in 0..50 + phase {
            world.run(world.now() + 10 * MS);
            world.admit(0, KEY.0, KEY.1, 10 * MS);
        }
        // All of that is flushed.
        world.run(world.now() + 12 * MS);
        let at = world.now();
        let given_back = [0, 1].map(|place| world.reset(place, KEY));
        assert!(given_back[0] > 20 * MS, "{phase}: {given_back:?}");
        // Each has sent what it gave back.
        world.run(at + 12 * MS);
        world.admit(1, KEY.0, KEY.1, 90 * MS);
        world.run(at + 18 * MS);
        world.admit(0, KEY.0, KEY.1, MS);
        world.run(at + 80 * MS);
        for place in [0, 1] {
            let until = world.tat(place, KEY.0, KEY.1).saturating_sub(at) / MS;
            // Up to a flush interval more, as what is consumed has no date until the flush.
            assert!((100..=115).contains(&until), "{phase}, node {place}: {until}");
        }
    }
}
