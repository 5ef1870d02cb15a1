//! Contenders with their types erased around a whole round, so that the timed code is statically
//! dispatched.

use serde::{Deserialize, Serialize};

use crate::audit::{self, SAMPLED_KEYS, Witness};
use crate::contenders::{Audited, Contender, Label, Remarks};
use crate::failure::Failure;
use crate::memory;
use crate::script::Script;
use crate::timed;
use crate::warm_up::{warm_up, warm_up_audited};
use crate::workloads::{Plan, Workload};

/// A contender and its operations.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name and variant.
    pub label: Label,
    /// The variant of ours to compare it with; none for ours.
    pub against: Option<&'static str>,
    /// Why it is excluded from a workload, if it is.
    pub absence: fn(Workload) -> Option<&'static str>,
    /// Builds it and inserts the keys, in the given order.
    pub enter: Enter,
    /// One round with a new instance that has seen none of the scripts' keys.
    pub first_checks: fn(&Plan, &[Script]) -> Result<Round, Failure>,
    /// Resident bytes of this many live keys, in a process that has run nothing else.
    pub footprint: fn(usize) -> Result<u64, Failure>,
}

/// Builds a contender and inserts the keys of a plan, in an order given as indexes.
pub type Enter = fn(&Plan, &[u32]) -> Result<Box<dyn Entrant>, Failure>;

/// The result of one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Millions of checks per second.
    pub mops: f64,
    /// Remarks to publish with the figure.
    pub remarks: Remarks,
}

impl Entry {
    /// The entry with this label.
    ///
    /// # Errors
    /// When there is none.
    pub fn find<'a>(entries: &'a [Self], label: &str) -> Result<&'a Self, Failure> {
        let entry = entries.iter().find(|entry| entry.label.to_string() == label);
        entry.ok_or_else(|| Failure::SetUp(format!("no limiter is called {label}")))
    }

    /// A peer's limiter.
    #[must_use]
    pub fn peer<C: Contender>() -> Self {
        Self {
            label: C::label(),
            against: Some(C::AGAINST),
            absence: C::absence,
            enter: |plan, order| Ok(Box::new(Peer::<C>::enter(plan, order)?)),
            first_checks: |plan, scripts| first_checks(&C::build(plan)?, plan, scripts),
            footprint: memory::growth::<C>,
        }
    }

    /// The same, compared with another variant of ours.
    #[must_use]
    pub fn set_against(self, variant: &'static str) -> Self {
        Self { against: Some(variant), ..self }
    }

    /// An algorithm of ours, audited like a peer.
    #[must_use]
    pub fn algorithm<C: Contender>() -> Self {
        Self { against: None, ..Self::peer::<C>() }
    }

    /// A variant of ours.
    #[must_use]
    pub fn ours<O: Audited>() -> Self {
        Self {
            label: O::label(),
            against: None,
            absence: O::absence,
            enter: |plan, order| Ok(Box::new(Watched::<O>::enter(plan, order)?)),
            first_checks: |plan, scripts| first_checks_audited(&O::build(plan)?, plan, scripts),
            footprint: memory::growth::<O>,
        }
    }
}

/// A limiter with its keys inserted that runs round after round.
pub trait Entrant {
    /// Runs each script on its own thread; returns millions of checks per second.
    ///
    /// # Errors
    /// When the share of allowed checks is not that of the plan.
    fn round(&self, plan: &Plan, scripts: &[Script]) -> Result<f64, Failure>;

    /// Audits the outcome so far; `tally` holds the number of checks by key index.
    ///
    /// # Errors
    /// When the audit fails.
    fn audit(&self, plan: &Plan, tally: &[u32]) -> Result<(), Failure>;

    /// Remarks to publish with the figures.
    fn remarks(&self) -> Remarks;
}

struct Peer<C>(C);

impl<C: Contender> Peer<C> {
    fn enter(plan: &Plan, order: &[u32]) -> Result<Self, Failure> {
        let contender = C::build(plan)?;
        warm_up(&contender, plan, order)?;
        Ok(Self(contender))
    }
}

impl<C: Contender> Entrant for Peer<C> {
    fn round(&self, plan: &Plan, scripts: &[Script]) -> Result<f64, Failure> {
        timed::round(&self.0, plan, scripts)
    }

    fn audit(&self, plan: &Plan, _: &[u32]) -> Result<(), Failure> {
        audit::live_keys(&self.0, plan)
    }

    fn remarks(&self) -> Remarks {
        Remarks::default()
    }
}

struct Watched<O: Audited> {
    contender: O,
    witnesses: Vec<Witness<O::Key>>,
}

impl<O: Audited> Watched<O> {
    fn enter(plan: &Plan, order: &[u32]) -> Result<Self, Failure> {
        let contender = O::build(plan)?;
        let witnesses = warm_up_audited(&contender, plan, order)?;
        Ok(Self { contender, witnesses })
    }
}

impl<O: Audited> Entrant for Watched<O> {
    fn round(&self, plan: &Plan, scripts: &[Script]) -> Result<f64, Failure> {
        timed::round(&self.contender, plan, scripts)
    }

    fn audit(&self, plan: &Plan, tally: &[u32]) -> Result<(), Failure> {
        for witness in &self.witnesses {
            let admitted = if plan.allowed { tally[witness.index() as usize] } else { 0 };
            witness.testify(&self.contender, plan, admitted)?;
        }
        audit::evicted(&self.contender)?;
        audit::live_keys(&self.contender, plan)
    }

    fn remarks(&self) -> Remarks {
        self.contender.remarks()
    }
}

fn first_checks<C: Contender>(
    contender: &C,
    plan: &Plan,
    scripts: &[Script],
) -> Result<Round, Failure> {
    let mops = timed::round(contender, plan, scripts)?;
    audit::live_keys(contender, plan)?;
    Ok(Round { mops, remarks: Remarks::default() })
}

fn first_checks_audited<O: Audited>(
    contender: &O,
    plan: &Plan,
    scripts: &[Script],
) -> Result<Round, Failure> {
    let not_before = contender.now();
    let round = first_checks(contender, plan, scripts)?;
    let not_after = contender.now();
    audit::evicted(contender)?;
    for script in scripts {
        let step = script.indexes().len().div_ceil(SAMPLED_KEYS).max(1);
        for index in script.indexes().step_by(step) {
            Witness::first_check(index, not_before, not_after).testify(contender, plan, 0)?;
        }
    }
    Ok(Round { remarks: contender.remarks(), ..round })
}
