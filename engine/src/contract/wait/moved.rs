//! Keys with charges that started at once and may have moved up since.
//!
//! A turn that started at once is in no list. It knows its charge only by the TAT at which that
//! ended when it was made. When an earlier charge is taken out, this one moves up, and the turn is
//! not notified; a later charge may then end at the TAT that the turn remembers. To take units off
//! by it would take those of the later charge. So after such a move nothing is taken off.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::base::key::KeyHash;
use crate::time::Timestamp;

use super::charge::{Removal, TakenOff};

/// Keys of a shard, at most. A key that finds no room keeps each charge whose removal would move
/// charges that are in no list.
const MAX_KEYS: usize = 1 << 10;

/// The keys of a shard.
#[derive(Debug, Default)]
pub(super) struct MovedKeys(BTreeMap<KeyHash, Move>);

/// The last time that charges of a key may have moved.
#[derive(Debug)]
struct Move {
    at: Timestamp,
    /// When all that had been charged by then has drained, if nothing is taken out.
    until: Timestamp,
}

impl MovedKeys {
    /// Takes a removal off the word by `take_off`, and notes the key where that moves charges that
    /// are in no list.
    pub(super) fn take_off(
        &mut self,
        key: KeyHash,
        now: Timestamp,
        mut removal: Removal,
        take_off: impl FnOnce(Removal) -> Option<TakenOff>,
    ) -> Option<TakenOff> {
        removal.only_known = !self.has_room(key, now);
        let off = take_off(removal)?;
        if removal.last_known != Some(off.tat) {
            let time = removal.time;
            let left = time.scale.to_nanos(off.tat.saturating_sub(time.point(off.at)));
            let until = off.at.saturating_add(Duration::from_nanos(left));
            let noted = self.0.entry(key).or_insert(Move { at: off.at, until });
            *noted = Move { at: noted.at.max(off.at), until: noted.until.max(until) };
        }
        Some(off)
    }

    fn has_room(&mut self, key: KeyHash, now: Timestamp) -> bool {
        if self.0.len() < MAX_KEYS || self.0.contains_key(&key) {
            return true;
        }
        self.0.retain(|_, moved| moved.until > now);
        self.0.len() < MAX_KEYS
    }

    /// Whether a charge of a start at once may have moved since.
    pub(super) fn has_moved(&self, key: KeyHash, start: Timestamp) -> bool {
        self.0.get(&key).is_some_and(|moved| start <= moved.at)
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use super::{MAX_KEYS, MovedKeys};
    use crate::base::key::KeyHash;
    use crate::contract::wait::{Behind, Removal, TakenOff};
    use crate::rule::gcra::{Gcra, Time};
    use crate::rule::quota::Quota;
    use crate::time::Timestamp;

    /// Without room, only what moves nothing that is not known is taken off; there is room again
    /// when what had moved has drained.
    #[test]
    fn keys_are_bounded() {
        let scale = Gcra::exact(&Quota::per_second(1)).unwrap().scale();
        let (time, end) = (Time::always(scale), 5_000);
        let (whole_until, behind) = (None, Behind::Started);
        let (last_known, only_known) = (Some(end), false);
        let removal =
            Removal { time, units: 10, end, least: 0, whole_until, behind, last_known, only_known };
        let at = Timestamp::from_nanos;
        let hash = |key: usize| KeyHash::from_bits((key as u64) << 32 | 1);
        let mut keys = MovedKeys::default();
        let mut moves = |key: usize, now, tat| {
            let take_off = |removal: Removal| {
                removal.fits(tat).then_some(TakenOff { units: 10, at: at(now), tat })
            };
            keys.take_off(hash(key), at(now), removal, take_off).is_some()
        };
        assert!((0..MAX_KEYS).all(|key| moves(key, 100, 6_000)));
        assert!(moves(0, 200, 6_000), "it is noted already");
        assert!(!moves(MAX_KEYS, 5_999, 7_000) && moves(MAX_KEYS, 5_999, end));
        assert!(moves(MAX_KEYS, 6_001, 7_000));
        assert!(keys.has_moved(hash(MAX_KEYS), at(6_001)));
        assert!(!keys.has_moved(hash(0), at(0)), "it has drained");
    }
}
