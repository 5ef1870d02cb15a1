//! The table's memory: cache lines of slots, and the lines a key may live in.

use core::ops::Range;

use crate::base::key::{HOME_BITS, KeyHash};
use crate::base::sync::AtomicU64;

use super::bits::{CANDIDATE_BITS, Tag};
use super::homes::Homes;
use super::line::{CacheLine, SLOTS, Slot};
use super::memory::Memory;

/// An odd multiplier (from the square root of 2) that turns a tag into a stride.
const STRIDE: u64 = 0xb504_f333_f9de_6485;

/// Low bits of a 64-bit position below the home bits of a key.
const POSITION_LOW: u32 = u64::BITS - HOME_BITS;

/// Neighbouring lines that are filled as one. Two in models, so that few lines make several blocks.
pub(super) const BLOCK: usize = if cfg!(any(loom, interleave)) { 2 } else { 4 };
/// How many blocks a key may live in, at most.
const BLOCKS: usize = 3;
/// How many lines a key may live in, at most.
pub(super) const CANDIDATES: usize = BLOCKS * BLOCK;

const _: () = assert!(CANDIDATES <= 1 << CANDIDATE_BITS);

/// The lines of a key, the likeliest first: keys go to the first unused slot of a block, in the
/// order of their candidates.
pub(super) const LIKELIEST: [usize; CANDIDATES] = likeliest();
/// This many of the likeliest lines hold all but a few keys of a table that was filled once: at 80
/// % fill 98 %; the home line alone holds 83 %.
pub(super) const LIKELY: usize = 5;

const fn likeliest() -> [usize; CANDIDATES] {
    let mut order = [0; CANDIDATES];
    // The home line is the first; then, alternately, the next of the home block and of each further
    // block.
    let (mut count, mut turn) = (1, 0);
    while turn < BLOCK {
        let mut block = 0;
        while block < BLOCKS {
            let line = if block == 0 { turn + 1 } else { turn };
            if line < BLOCK {
                order[count] = block * BLOCK + line;
                count += 1;
            }
            block += 1;
        }
        turn += 1;
    }
    order
}

/// The lines of one key: the block of its home line, then blocks `stride` further each time,
/// wrapping around.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    home: usize,
    /// The first line of each block; arbitrary for blocks beyond the key's candidates.
    blocks: [usize; BLOCKS],
}

#[derive(Debug)]
pub(super) struct Lines {
    memory: Memory,
    homes: Homes,
}

impl Lines {
    /// `count` zeroed lines, a power of two below a block's or whole blocks; `None` if `count` is 0
    /// or the memory cannot be allocated.
    pub(super) fn new(count: usize) -> Option<Self> {
        debug_assert!(count < BLOCK && count.is_power_of_two() || count % BLOCK == 0);
        if count == 0 {
            return None;
        }
        Some(Self { memory: Memory::zeroed(count)?, homes: Homes::of_table(count)? })
    }

    /// The same, with the home bits of all keys kept next to them.
    #[cfg(all(test, any(loom, interleave)))]
    pub(super) fn with_homes(self) -> Self {
        let homes = Homes::of_slots(self.all().len() * SLOTS).unwrap();
        Self { homes, ..self }
    }

    #[inline]
    pub(super) fn all(&self) -> &[CacheLine] {
        self.memory.lines()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self.all()) + self.homes.memory_bytes()
    }

    /// How many lines a key may live in.
    #[inline]
    pub(super) fn candidates(&self) -> usize {
        self.all().len().min(CANDIDATES)
    }

    /// The key's first line, where it is in the common case.
    #[inline]
    pub(super) fn home(&self, key: KeyHash) -> &CacheLine {
        let index = self.home_index(key);
        // SAFETY: `scale` returns less than its second argument, here the number of lines, which is
        // never 0 (`Lines::new`).
        unsafe { self.all().get_unchecked(index) }
    }

    #[inline]
    pub(super) fn place(&self, key: KeyHash) -> Placement {
        let home = self.home_index(key);
        let (blocks, stride) = (self.blocks(), stride(key.tag(), self.blocks()));
        // Where there are as many blocks as a key has, strides are less than a third of them, so
        // the key's blocks differ and each sum wraps at most once.
        let block = |number| {
            let block = home / BLOCK + number * stride;
            BLOCK * if block >= blocks { block - blocks } else { block }
        };
        Placement { home, blocks: core::array::from_fn(block) }
    }

    /// The `candidate`-th line of a key; the first is its home, and the first `BLOCK` are its home
    /// block.
    #[inline]
    pub(super) fn line(&self, place: Placement, candidate: usize) -> &CacheLine {
        &self.all()[place.blocks[candidate / BLOCK] + (place.home ^ candidate) % BLOCK]
    }

    /// Those of a key's lines whose positions in [`LIKELIEST`] are in `range`, as far as the table
    /// has them, each with its position.
    #[inline]
    pub(super) fn likeliest(
        &self,
        place: Placement,
        range: Range<usize>,
    ) -> impl Iterator<Item = (usize, &CacheLine)> {
        let candidates = self.candidates();
        let order = range.map(|likely| (likely, LIKELIEST[likely]));
        order
            .filter(move |(_, candidate)| *candidate < candidates)
            .map(move |(likely, candidate)| (likely, self.line(place, candidate)))
    }

    /// Prefetches all lines of a key.
    #[inline]
    pub(super) fn prefetch(&self, place: Placement) {
        for first in place.blocks {
            // Tables of tests may have fewer lines.
            if let Some(block) = self.all().get(first..first + BLOCK) {
                block.iter().for_each(prefetch);
            }
        }
    }

    /// Where a claim of this slot notes the home bits of its key, if they are kept.
    #[inline]
    pub(super) fn home_bits(&self, slot: &Slot) -> Option<&AtomicU64> {
        let first = self.all().as_ptr().addr();
        self.homes.of((core::ptr::from_ref(slot).addr() - first) / size_of::<Slot>())
    }

    #[cfg(all(test, interleave))]
    pub(super) fn all_home_bits(&self) -> impl Iterator<Item = &AtomicU64> {
        self.homes.all()
    }

    /// The key of the `index`-th slot, in which `tag` was read; `None` if the slot has been claimed
    /// since.
    pub(super) fn key_at(&self, index: usize, tag: Tag) -> Option<KeyHash> {
        if self.homes.are_kept() {
            return self.homes.key(index, tag);
        }
        self.key_by_position(index / SLOTS, tag.key_tag(), tag.candidate())
    }

    /// The key that `tag` stands for in the `candidate`-th of its lines, which is `index`.
    ///
    /// With fewer lines than [`homes`](super::homes) states several keys fit.
    fn key_by_position(&self, index: usize, tag: u64, candidate: usize) -> Option<KeyHash> {
        let (lines, blocks) = (self.all().len(), self.blocks());
        let before = candidate / BLOCK * stride(tag, blocks) % blocks;
        let block = (index / BLOCK + blocks - before) % blocks;
        let home = block * BLOCK + (index ^ candidate) % BLOCK;
        let first = ((home as u128) << u64::BITS).div_ceil(lines as u128);
        let low = u128::from(KeyHash::from_parts(0, tag).position());
        let home_bits = first.saturating_sub(low).div_ceil(1 << POSITION_LOW) as u64;
        let key = KeyHash::from_parts(home_bits, tag);
        (home_bits < 1 << HOME_BITS && self.home_index(key) == home).then_some(key)
    }

    #[inline]
    fn home_index(&self, key: KeyHash) -> usize {
        scale(key.position(), self.all().len())
    }

    /// Blocks of lines, at least 1.
    #[inline]
    fn blocks(&self) -> usize {
        self.all().len().div_ceil(BLOCK)
    }
}

/// Prefetches a line.
#[inline]
pub(super) fn prefetch(line: &CacheLine) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction, and it reads nothing that a program can
        // observe.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// The distance between a key's blocks, in blocks.
#[inline]
const fn stride(tag: u64, blocks: usize) -> usize {
    if blocks < 2 * BLOCKS { 1 } else { 1 + scale(tag.wrapping_mul(STRIDE), blocks / BLOCKS - 1) }
}

/// `fraction / 2^64 * below`, rounded down.
#[inline]
const fn scale(fraction: u64, below: usize) -> usize {
    ((fraction as u128 * below as u128) >> u64::BITS) as usize
}
