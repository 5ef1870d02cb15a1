//! What a figure is a multiple of.

use crate::contenders::Label;
use crate::roster;
use crate::runner::Measured;

/// The rate that the rate of `one` is divided by: the reference's where it took part; else the best
/// peer's that is set beside a variant of ours, and a peer's own.
#[must_use]
pub fn rate(one: &Measured, all: &[Measured]) -> f64 {
    let reference = roster::reference().label;
    if let Some(reference) = all.iter().find(|other| other.label == reference) {
        return reference.rates.median;
    }
    if one.beside.is_some() {
        return one.rates.median;
    }
    let peers = all.iter().filter(|other| is_beside(&one.label, other.beside));
    peers.map(|peer| peer.rates.median).fold(f64::NAN, f64::max)
}

/// Whether a peer that is set beside `beside` is to be compared with this variant of ours: with it, or with a form of
/// it.
#[must_use]
pub fn is_beside(ours: &Label, beside: Option<&str>) -> bool {
    let variant = ours.variant.as_deref().unwrap_or_default();
    beside.is_some_and(|beside| variant.starts_with(beside))
}
