//! Which keys are checked next.

use rand::Rng;
use rand::seq::SliceRandom as _;

/// Draws `at_once` keys to be checked next, given the theoretical arrival time of each, 0 of those without a slot.
///
/// Three in four have no slot, as far as there are so many, and have to take one from a key that is not drawn. So slots
/// change hands at each draw, however fast checks are, and whatever time it was when they were made.
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
