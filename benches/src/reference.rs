//! The reference of a ratio.

use crate::contenders::Label;
use crate::roster;
use crate::runner::Measured;

/// How many times as fast as its reference `one` is: [`roster::reference`] if it took part, else
/// the best peer compared with the same variant of ours. NaN if no peer took part.
#[must_use]
pub fn ratio(one: &Measured, all: &[Measured]) -> f64 {
    let reference = roster::reference().label;
    if let Some(reference) = all.iter().find(|other| other.label == reference) {
        return one.ratio_to(reference);
    }
    let is_rival = |other: &&Measured| match one.against {
        Some(_) => one.against == other.against,
        None => is_against(&one.label, other.against),
    };
    let peers = all.iter().filter(is_rival);
    let best = peers.max_by(|one, other| one.rates.median.total_cmp(&other.rates.median));
    best.map_or(f64::NAN, |best| one.ratio_to(best))
}

/// Whether a peer compared with `against` is compared with this variant of ours: it, or a form of
/// it.
#[must_use]
pub fn is_against(ours: &Label, against: Option<&str>) -> bool {
    let variant = ours.variant.as_deref().unwrap_or_default();
    against.is_some_and(|against| variant.starts_with(against))
}
