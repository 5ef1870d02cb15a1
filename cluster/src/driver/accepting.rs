//! Accepts connections of other nodes, each in a task of its own until its handshake is done.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn::{Endpoint, Incoming};
use tokio::sync::mpsc;

use super::handshakes::{Admission, HandshakePlace, Handshakes};
use super::link::{self, LinkEvent};
use super::shared::Shared;
use crate::name::ClusterName;
use crate::seed::canonical;

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
            match accepting.admit(&handshakes, &incoming) {
                Admission::Place(place) => {
                    tokio::spawn(Arc::clone(&accepting).complete(incoming, place));
                }
                Admission::Retry => {
                    accepting.shared.handshakes.count_retried();
                    // An error says that the address is validated, which it is not.
                    let _ = incoming.retry();
                }
                Admission::Refuse => {
                    accepting.shared.handshakes.count_refused(source(&incoming));
                    incoming.refuse();
                }
            }
        }
    }

    pub(super) fn admit(&self, handshakes: &Handshakes, incoming: &Incoming) -> Admission {
        let (host, validated) = (source(incoming).ip(), incoming.remote_address_validated());
        handshakes.admit(host, validated, |host| self.shared.knows_host(host))
    }

    async fn complete(self: Arc<Self>, incoming: Incoming, place: HandshakePlace) {
        let source = source(&incoming);
        match link::accept(incoming, &self.cluster).await {
            // Without a driver the connection is dropped.
            Ok(streams) => drop(self.events.send(LinkEvent::Accepted { streams }).await),
            Err(why) => self.shared.handshakes.count_rejected(source, why),
        }
        drop(place);
    }
}

/// Where it comes from, as members and seeds are written: a socket of both families writes IPv4
/// addresses as IPv6.
fn source(incoming: &Incoming) -> SocketAddr {
    canonical(incoming.remote_address())
}
