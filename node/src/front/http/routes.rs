//! What requests are answered from.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::body::Incoming;

use super::answer::{Answer, Code, error};
use super::body::{self, Missing, Whole};
use super::gate::Gate;
use crate::config::bounds::HttpBounds;
use crate::front::budget::Budget;
use crate::front::turns::Turns;
use crate::service::Service;
use crate::service::readiness::Readiness;
use crate::telemetry::meter::Meter;

#[derive(Debug)]
pub struct Routes {
    pub service: Arc<Service>,
    pub readiness: Arc<Readiness>,
    pub gate: Gate,
    pub bounds: HttpBounds,
    /// Counts the decisions of all connections.
    pub meter: Meter,
    /// The line of connections that have used up their turn, or ask for much.
    pub turns: Turns,
    /// The room for bodies that came in parts, or whose checks wait.
    pub bodies: Arc<Budget>,
}

impl Routes {
    /// Reads a body of at most `max` bytes, and waits until its checks may be decided. It is read
    /// first: what has arrived whole, hyper watches for a client that hangs up.
    ///
    /// # Errors
    /// The answer to a client that sends something else, or to checks that never will be decided.
    pub async fn receive(&self, body: Incoming, max: usize) -> Result<Whole, Answer> {
        let read = body::read(body, max, self.bounds.body_timeout, &self.bodies).await;
        let mut body = read.map_err(|missing| self.refuse(missing, max))?;
        self.ready(&mut body).await?;
        Ok(body)
    }

    /// The answer to a request without a body, which is counted.
    fn refuse(&self, missing: Missing, max: usize) -> Answer {
        let refused = self.service.metrics().http_refused();
        match missing {
            Missing::TooLarge => refused.body_too_large.inc(),
            Missing::NoRoom => refused.no_room.inc(),
            Missing::Late => refused.body_timeout.inc(),
            Missing::Incomplete => 0,
        };
        missing.answer(max)
    }

    /// Waits until checks may be decided; a body that waits takes room.
    ///
    /// # Errors
    /// The answer to a check that never will be.
    async fn ready(&self, body: &mut Whole) -> Result<(), Answer> {
        let mut waiting = pin!(self.wait());
        let ready = std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context)));
        if let Poll::Ready(ready) = ready.await {
            return ready;
        }
        if !body.count_in(&self.bodies) {
            self.service.metrics().http_refused().no_room.inc();
            return Err(error(Code::NoRoom, "too many checks wait"));
        }
        waiting.await
    }

    async fn wait(&self) -> Result<(), Answer> {
        if !self.readiness.joined().await {
            let problem = "this node stops and has never joined its cluster";
            return Err(error(Code::Stopping, problem));
        }
        self.service.gossip().current().await;
        Ok(())
    }
}
