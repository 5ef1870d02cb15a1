//! Selection of the next keys to check.

use rand::Rng;
use rand::seq::SliceRandom as _;

/// Draws the next `at_once` keys to check, given the theoretical arrival time of each key, 0 for
/// keys without a slot.
///
/// Three in four have no slot, if there are enough such keys, and must reuse the slot of a key that
/// is not drawn. So slots are reused at each draw, independent of the speed and time of checks.
pub(super) fn draw(tats: &[u64], at_once: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut keys: Vec<_> = (0..tats.len()).collect();
    keys.shuffle(rng);
    let (mut drawn, settled): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| tats[*key] == 0);
    let newcomers = at_once * 3 / 4;
    let others = drawn.split_off(drawn.len().min(newcomers));
    let missing = at_once.saturating_sub(drawn.len());
    drawn.extend(settled.into_iter().chain(others).take(missing));
    drawn
}
