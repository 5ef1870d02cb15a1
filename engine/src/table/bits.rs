//! The layout of a slot's two integers.
//!
//! ```text
//! word, settled   value (59)            | generation, low 4 bits | 0
//! word, claimed   key tag (47) | 0 (5) | generation (11)         | 1
//! tag             key tag (47) | candidate (4) | strikes (2) | generation (11)
//! home bits       0 (41) | home bits (12) | generation (11), in small tables (`homes.rs`)
//! ```
//!
//! A *generation* counts how often the slot has been claimed. A claimed word whose key tag is 0
//! names no key: its claim was withdrawn and the slot is free. *Strikes* count denials of the key
//! since the slot got its label (`strikes.rs`).

use crate::base::key::{KeyHash, TAG_BITS};
use crate::base::word::VALUE_BITS;

const TAG_SHIFT: u32 = u64::BITS - TAG_BITS;
const GENERATION_BITS: u32 = 11;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;
const LOW_BITS: u32 = 4;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;
const VALUE_SHIFT: u32 = 1 + LOW_BITS;
const CLAIMED: u64 = 1;
const STRIKE_SHIFT: u32 = GENERATION_BITS;
const STRIKE_BITS: u32 = 2;
const CANDIDATE_SHIFT: u32 = STRIKE_SHIFT + STRIKE_BITS;

/// Which of its key's lines a slot is in.
pub(super) const CANDIDATE_BITS: u32 = 4;
const CANDIDATE_MASK: u64 = (1 << CANDIDATE_BITS) - 1;

/// The most strikes a tag holds.
pub(super) const STRIKES_MAX: u32 = (1 << STRIKE_BITS) - 1;

const _: () = assert!(TAG_SHIFT == CANDIDATE_SHIFT + CANDIDATE_BITS);
const _: () = assert!(VALUE_BITS == u64::BITS - VALUE_SHIFT);

/// How often a slot has been claimed, modulo 2^11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation(u64);

impl Generation {
    pub(super) const fn next(self) -> Self {
        Self((self.0 + 1) & GENERATION_MASK)
    }

    #[inline]
    const fn low(self) -> u64 {
        self.0 & LOW_MASK
    }
}

/// A slot's word as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    #[inline]
    pub(super) const fn is_claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// The value of a settled word.
    #[inline]
    pub(super) const fn value(self) -> u64 {
        self.0 >> VALUE_SHIFT
    }

    /// The settled word with another value, in the same generation.
    #[inline]
    pub(super) const fn with_value(self, value: u64) -> Self {
        Self((value << VALUE_SHIFT) | (self.0 & (LOW_MASK << 1)))
    }

    /// The word of a slot that `key` is claiming.
    pub(super) const fn intent(key: KeyHash, generation: Generation) -> Self {
        Self(key.high_tag() | (generation.0 << 1) | CLAIMED)
    }

    /// A claimed word with its claim withdrawn; never the word from before the claim.
    pub(super) const fn withdrawn(self) -> Self {
        Self(self.0 & ((GENERATION_MASK << 1) | CLAIMED))
    }

    /// A claimed word with its claim confirmed.
    pub(super) const fn settled(self, value: u64) -> Self {
        Self((value << VALUE_SHIFT) | (self.generation().low() << 1))
    }

    /// The generation of a claimed word.
    pub(super) const fn generation(self) -> Generation {
        Generation((self.0 >> 1) & GENERATION_MASK)
    }

    pub(super) const fn is_free(self) -> bool {
        self.is_claimed() && self.0 >> TAG_SHIFT == 0
    }

    /// Whether this is a claim for `key`.
    pub(super) const fn is_intent_of(self, key: KeyHash) -> bool {
        self.is_claimed() && self.0 ^ key.high_tag() < 1 << TAG_SHIFT
    }
}

/// A slot's tag as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(pub(super) u64);

impl Tag {
    /// The tag of a slot that belongs to `key` and is in the `candidate`-th of its lines.
    pub(super) const fn new(key: KeyHash, candidate: usize, generation: Generation) -> Self {
        Self(key.high_tag() | ((candidate as u64) << CANDIDATE_SHIFT) | generation.0)
    }

    #[inline]
    pub(super) const fn names(self, key: KeyHash) -> bool {
        // Only bits below the key's tag may differ.
        self.0 ^ key.high_tag() < 1 << TAG_SHIFT
    }

    pub(super) const fn generation(self) -> Generation {
        Generation(self.0 & GENERATION_MASK)
    }

    /// The key's tag; 0 when the slot has never had a key.
    pub(super) const fn key_tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    pub(super) const fn candidate(self) -> usize {
        ((self.0 >> CANDIDATE_SHIFT) & CANDIDATE_MASK) as usize
    }

    /// The key's strikes; 0 in a new label.
    pub(super) const fn strikes(self) -> u32 {
        (self.0 >> STRIKE_SHIFT) as u32 & STRIKES_MAX
    }

    /// The tag with one strike more; `strikes` is below `STRIKES_MAX`.
    pub(super) const fn struck(self) -> Self {
        Self(self.0 + (1 << STRIKE_SHIFT))
    }

    /// The order of eviction of a live slot with this tag, the lowest first; `rank` is that of its
    /// value.
    pub(super) const fn rank(self, rank: u64) -> u64 {
        ((self.strikes() as u64) << VALUE_BITS) | rank
    }
}

/// The home bits of a slot's key, and the claim that noted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HomeBits(pub(super) u64);

impl HomeBits {
    pub(super) const fn new(key: KeyHash, generation: Generation) -> Self {
        Self(key.home_bits() << GENERATION_BITS | generation.0)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0 >> GENERATION_BITS
    }

    pub(super) const fn generation(self) -> Generation {
        Generation(self.0 & GENERATION_MASK)
    }
}
