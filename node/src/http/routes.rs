//! What requests are answered from.

use std::sync::Arc;

use super::answer::{Answer, Code, error};
use super::gate::Gate;
use crate::budget::Budget;
use crate::meter::Meter;
use crate::readiness::Readiness;
use crate::service::Service;

#[derive(Debug)]
pub struct Routes {
    pub service: Arc<Service>,
    pub readiness: Arc<Readiness>,
    pub gate: Gate,
    /// Counts the decisions of all connections.
    pub meter: Meter,
    /// The room for bodies of which a part has arrived.
    pub bodies: Arc<Budget>,
}

impl Routes {
    /// Waits until checks may be decided.
    ///
    /// # Errors
    /// The answer to a check that never will be.
    pub async fn ready(&self) -> Result<(), Answer> {
        if !self.readiness.joined().await {
            let problem = "this node stops and has never joined its cluster";
            return Err(error(Code::Stopping, problem));
        }
        self.service.gossip().current().await;
        Ok(())
    }
}
