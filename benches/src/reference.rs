//! What a figure is a multiple of.

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
    let variant = one.label.variant.as_deref();
    let peers = all.iter().filter(|other| other.beside.is_some() && other.beside == variant);
    peers.map(|peer| peer.rates.median).fold(f64::NAN, f64::max)
}
