//! What is measured.

mod even;
mod fault;
mod heal;
mod network;
mod round;
mod sparse;
mod spray;

use crate::figure::Figures;
use crate::options::Kind;

pub use round::Round;

/// Measures, and reports figures.
///
/// # Errors
/// In one line, when it cannot be measured.
pub fn run(round: &Round<'_>, kind: Kind, figures: &mut Figures) -> Result<(), String> {
    match kind {
        Kind::Even => even::run(round, figures),
        Kind::Heal => heal::run(round, figures),
        Kind::Join | Kind::Cut | Kind::Stop | Kind::Kill | Kind::Leave | Kind::Founder => {
            fault::run(round, kind, figures)
        }
        Kind::Network => network::run(round, figures),
        Kind::Sparse => sparse::run(round, figures),
        Kind::Spray => spray::run(round, figures),
    }
}
