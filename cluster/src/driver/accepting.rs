//! Accepts connections of other nodes, each in a task of its own until its handshake is done.

use std::sync::Arc;

use quinn::{Endpoint, Incoming};
use tokio::sync::mpsc;

use super::handshakes::{Admission, HandshakePlace, Handshakes};
use super::link::{self, LinkEvent};
use super::shared::Shared;
use crate::name::ClusterName;

/// What accepting connections takes.
pub(super) struct Accepting {
    pub(super) cluster: ClusterName,
    pub(super) shared: Arc<Shared>,
    pub(super) events: mpsc::Sender<LinkEvent>,
}

impl Accepting {
    /// Runs until the endpoint is closed.
    pub(super) async fn run(self, endpoint: Endpoint) {
        let (accepting, handshakes) = (Arc::new(self), Handshakes::default());
        while let Some(incoming) = endpoint.accept().await {
            let (from, validated) =
                (incoming.remote_address().ip(), incoming.remote_address_validated());
            let knows = |host| accepting.shared.knows_host(host);
            let source = incoming.remote_address();
            match handshakes.admit(from, validated, knows) {
                Admission::Place(place) => {
                    tokio::spawn(Arc::clone(&accepting).complete(incoming, place));
                }
                Admission::Retry => {
                    accepting.shared.handshakes.count_retried();
                    // An error says that the address is validated, which it is not.
                    let _ = incoming.retry();
                }
                Admission::Refuse => {
                    accepting.shared.handshakes.count_refused(source);
                    incoming.refuse();
                }
            }
        }
    }

    async fn complete(self: Arc<Self>, incoming: Incoming, place: HandshakePlace) {
        let source = incoming.remote_address();
        match link::accept(incoming, &self.cluster).await {
            // Without a driver the connection is dropped.
            Ok(streams) => drop(self.events.send(LinkEvent::Accepted { streams }).await),
            Err(why) => self.shared.handshakes.count_rejected(source, why),
        }
        drop(place);
    }
}
