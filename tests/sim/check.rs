//! What must hold in every run, each property in its own file.

mod convergence;
mod exactly_once;
mod false_denial;
mod memory;
mod nothing_invented;
mod over_admission;
mod property;
mod share;
mod step;

use crate::calm::Calm;
use crate::report::Failure;
use crate::truth::Seen;
use crate::world::Watch;
use property::Findings;

pub use property::Check;

/// All checkers that are turned on.
pub struct Checks {
    all: Vec<Box<dyn Check>>,
}

impl Checks {
    /// All but those of these names; an unknown name is an error.
    pub fn without(names: &[String]) -> Result<Self, String> {
        let mut all: Vec<Box<dyn Check>> = vec![
            Box::new(exactly_once::ExactlyOnce::default()),
            Box::new(nothing_invented::NothingInvented::default()),
            Box::new(over_admission::OverAdmission::default()),
            Box::new(false_denial::FalseDenial::default()),
            Box::new(share::Share::default()),
            Box::new(step::Step::default()),
            Box::new(memory::Memory::default()),
            Box::new(convergence::Convergence::default()),
        ];
        let known: Vec<_> = all.iter().map(|check| check.name()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("no checker is named {name}: there are {}", known.join(", ")));
        }
        all.retain(|check| !names.iter().any(|name| name == check.name()));
        Ok(Self { all })
    }

    pub fn each(&mut self, mut call: impl FnMut(&mut dyn Check)) {
        for check in &mut self.all {
            call(check.as_mut());
        }
    }

    pub fn failures(&self) -> Vec<Failure> {
        let failure = |check: &dyn Check| {
            let Findings { first, count } = check.findings();
            let text = format!("{} ({count} in all)", first.as_ref()?);
            Some(Failure { check: check.name(), text })
        };
        self.all.iter().filter_map(|check| failure(check.as_ref())).collect()
    }
}

impl Watch for Checks {
    fn saw(&mut self, seen: &Seen, calm: &Calm) {
        for check in &mut self.all {
            check.saw(seen, calm);
        }
    }
}
