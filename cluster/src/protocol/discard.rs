//! Maps that are no longer needed, freed a part at a time: freeing a million entries at once takes
//! as long as ten steps may.

use std::collections::BTreeMap;
use std::collections::btree_map::IntoIter;

use super::change::Change;
use super::delta::KeyId;

#[derive(Debug, Default)]
pub(super) struct Discard {
    changes: Vec<IntoIter<KeyId, Change>>,
    sums: Vec<IntoIter<KeyId, i64>>,
}

impl Discard {
    pub(super) fn changes(&mut self, map: BTreeMap<KeyId, Change>) {
        if !map.is_empty() {
            self.changes.push(map.into_iter());
        }
    }

    pub(super) fn sums(&mut self, map: BTreeMap<KeyId, i64>) {
        if !map.is_empty() {
            self.sums.push(map.into_iter());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.sums.is_empty()
    }

    /// Frees at most `most` entries.
    pub(super) fn free(&mut self, most: usize) {
        let left = free(&mut self.changes, most);
        free(&mut self.sums, left);
    }
}

/// Frees entries of the last maps; how many less than `most`.
fn free<T>(maps: &mut Vec<IntoIter<KeyId, T>>, mut most: usize) -> usize {
    while most > 0
        && let Some(last) = maps.last_mut()
    {
        most -= last.take(most).count();
        if last.len() == 0 {
            maps.pop();
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_freed_in_parts() {
        let sums = |count: u64| (0..count).map(|key| ((0, key), 1)).collect();
        let mut discard = Discard::default();
        discard.sums(sums(10));
        discard.sums(sums(5));
        discard.changes((0..4).map(|key| ((0, key), Change::new(1, 0))).collect());
        discard.changes(BTreeMap::new());
        let mut steps = 0;
        while !discard.is_empty() {
            discard.free(3);
            steps += 1;
        }
        assert_eq!(steps, 19_usize.div_ceil(3));
        discard.free(3);
    }
}
