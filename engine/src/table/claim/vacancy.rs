//! The vacant slot that a newcomer takes: in the home block unless that is nearly full, else in the
//! emptiest block.

use super::met::Met;
use crate::table::lines::BLOCK;

/// A key goes into its home block if at least this many slots there are vacant. A higher number
/// sends keys away from home needlessly; with a lower one, full blocks become so frequent that
/// insertions find no room.
const HOME_VACANCIES: usize = 3;

/// Where a scan has found room for its key.
#[derive(Default)]
pub(super) struct VacancyChoice<'t> {
    /// The block that is being scanned.
    block: Vacancies<'t>,
    /// Of the blocks before it, the first with the most vacancies.
    pub(super) emptiest: Vacancies<'t>,
    /// The key goes into its home block: vacancies that follow do not matter.
    pub(super) is_enough: bool,
}

impl<'t> VacancyChoice<'t> {
    /// Goes on to the next block; 0 is the home block.
    pub(super) fn begin_block(&mut self, block: usize) {
        if !self.is_enough {
            self.end_block();
            self.is_enough = block == 1 && self.emptiest.count >= HOME_VACANCIES;
        }
    }

    pub(super) fn end_block(&mut self) {
        if self.block.count > self.emptiest.count {
            self.emptiest = self.block;
        }
        self.block = Vacancies::default();
    }

    pub(super) fn add(&mut self, vacancy: Vacancy<'t>) {
        if self.is_enough {
            return;
        }
        self.block.add(vacancy);
        // Nothing in the block beats an unused slot.
        self.is_enough = vacancy.met.candidate < BLOCK
            && self.block.count >= HOME_VACANCIES
            && self.block.best.as_ref().is_some_and(Vacancy::is_unused);
    }
}

/// A slot that a newcomer may take without an eviction.
#[derive(Clone, Copy)]
pub(super) struct Vacancy<'t> {
    pub(super) met: Met<'t>,
    /// When the slot became vacant. 0 if it is *unused*: it never had a key, a claim of it was
    /// withdrawn, or its value counts as nothing.
    pub(super) since: u64,
}

impl Vacancy<'_> {
    const fn is_unused(&self) -> bool {
        self.since == 0
    }

    /// Whether a newcomer takes this slot rather than `earlier`, which precedes it in the block.
    ///
    /// An expired slot is still its key's if the key comes back before the slot is reused. So the
    /// first unused slot of a block wins; without one, the slot that has been vacant the longest
    /// in the first line with a vacancy.
    fn beats(&self, earlier: &Self) -> bool {
        let is_same_line = self.met.candidate == earlier.met.candidate;
        !earlier.is_unused() && (self.is_unused() || is_same_line && self.since < earlier.since)
    }
}

/// The vacancies of one block.
#[derive(Clone, Copy, Default)]
pub(super) struct Vacancies<'t> {
    pub(super) count: usize,
    /// The one to take.
    pub(super) best: Option<Vacancy<'t>>,
}

impl<'t> Vacancies<'t> {
    fn add(&mut self, vacancy: Vacancy<'t>) {
        self.count += 1;
        if self.best.as_ref().is_none_or(|best| vacancy.beats(best)) {
            self.best = Some(vacancy);
        }
    }
}
