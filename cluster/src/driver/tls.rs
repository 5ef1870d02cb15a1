//! Mutual TLS 1.3: which certificate this node shows, and which it accepts.
//!
//! A certificate is accepted if an authority of this cluster has signed it and it names nodes of
//! this cluster; for which of them the other side may speak is up to the protocol
//! ([`Subject::covers`]). Links are not resumed: each one proves both sides anew.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, PeerIncompatible, SignatureScheme,
};

use super::certificate::{Failure, Identity};
use super::congestion::congestion;
use super::expiry::Validity;
use crate::config::StartError;
use crate::name::ClusterName;
use crate::protocol::Subject;
use crate::trust::Trust;

/// The server name that diallers state, which no node looks at: nodes are named by address.
pub(super) const SERVER_NAME: &str = "node.tidegate.internal";
const ALPN: &[u8] = b"tidegate/1";
/// Bytes of a UDP datagram that every QUIC path supports.
const INITIAL_MTU: u16 = 1_200;
/// Idle timeout of a connection.
const IDLE_MS: u32 = 5_000;
/// What a round trip is taken for until one was measured. A packet of a handshake that is lost is
/// sent again after three times this: a node that restarts receives what all others send later by
/// that time.
const INITIAL_RTT: Duration = Duration::from_millis(50);
/// After how long a silent connection sends a keep-alive: later than the protocol sends its clock
/// on most links that carry frames, so that few of them do.
const KEEP_ALIVE: Duration = Duration::from_millis(2_200);
/// Memory for datagrams, each way.
const DATAGRAM_BYTES: usize = 64 * 1024;
/// Memory for unread bytes of a stream.
const STREAM_BYTES: u32 = 1 << 20;

/// For accepting, for dialling, and for links that are open already.
pub(crate) struct Configs {
    pub(super) server: ServerConfig,
    pub(super) client: ClientConfig,
    /// When this node's certificate is accepted, if that ends; known once it is checked.
    pub(super) validity: Option<Validity>,
    verifier: Arc<Verifier>,
}

impl Configs {
    /// What the node at `addr` shows and accepts.
    ///
    /// # Errors
    /// It would not accept itself.
    pub(super) fn of(
        cluster: &ClusterName,
        addr: SocketAddr,
        trust: &Trust,
    ) -> Result<Self, StartError> {
        let made = Identity::new(cluster, addr, trust).and_then(|identity| {
            let mut configs = Self::new(cluster, &identity)?;
            configs.check(&identity, addr)?;
            Ok(configs)
        });
        made.map_err(StartError::Certificate)
    }

    pub(super) fn new(cluster: &ClusterName, identity: &Identity) -> Result<Self, Failure> {
        let verifier = Verifier::new(cluster, identity)?;
        Ok(Self {
            server: server(&verifier, identity)?,
            client: client(&verifier, identity)?,
            validity: None,
            verifier,
        })
    }

    /// Checks what the others would: that they accept this node, as the one at `addr`; and finds
    /// when they do.
    fn check(&mut self, identity: &Identity, addr: SocketAddr) -> Result<(), Failure> {
        match self.verifier.verify(&identity.chain, UnixTime::now()) {
            Err(rustls::Error::InvalidCertificate(error)) => match error {
                CertificateError::ApplicationVerificationFailure => {}
                CertificateError::UnknownIssuer => {
                    return Err("none of the given authorities has signed it".into());
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    return Err("it has expired".into());
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    return Err("it is not valid yet".into());
                }
                _ => return Err(rustls::Error::InvalidCertificate(error).into()),
            },
            verified => verified?,
        }
        let subject = identity.chain.first().and_then(|own| named(own, &self.verifier.cluster));
        if !subject.is_some_and(|subject| subject.covers(addr)) {
            return Err(format!("it does not name {}", self.verifier.cluster.uri_of(addr)).into());
        }
        self.validity = self.verifier.validity(&identity.chain);
        Ok(())
    }

    /// Whether the other side of a connection that was opened at a time would have been accepted
    /// then: a certificate that expires ends no link.
    pub(super) fn accepts(&self, connection: &Connection, opened: UnixTime) -> bool {
        chain_of(connection).is_some_and(|chain| self.verifier.verify(&chain, opened).is_ok())
    }
}

impl fmt::Debug for Configs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Configs(..)")
    }
}

/// The nodes of this cluster that the certificate at the other end of a connection names.
pub(super) fn subject_of(connection: &Connection, cluster: &ClusterName) -> Option<Subject> {
    named(chain_of(connection)?.first()?, cluster)
}

fn chain_of(connection: &Connection) -> Option<Vec<CertificateDer<'static>>> {
    connection.peer_identity()?.downcast().ok().map(|chain| *chain)
}

fn named(certificate: &CertificateDer<'_>, cluster: &ClusterName) -> Option<Subject> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    cluster.subject_of(certificate.valid_uri_names())
}

fn server(verifier: &Arc<Verifier>, identity: &Identity) -> Result<ServerConfig, Failure> {
    let verifier = Arc::clone(verifier);
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&verifier.provider))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    tls.send_tls13_tickets = 0;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport()));
    config.migration(false);
    Ok(config)
}

fn client(verifier: &Arc<Verifier>, identity: &Identity) -> Result<ClientConfig, Failure> {
    let verifier = Arc::clone(verifier);
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&verifier.provider))
        .with_protocol_versions(&[&TLS13])?
        // It accepts less than the usual verifier, which looks at no URI.
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.resumption = Resumption::disabled();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport()));
    Ok(config)
}

pub(super) fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(congestion())
        .initial_mtu(INITIAL_MTU)
        .initial_rtt(INITIAL_RTT)
        .max_concurrent_bidi_streams(VarInt::from_u32(2))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MS))))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .stream_receive_window(VarInt::from_u32(STREAM_BYTES))
        .receive_window(VarInt::from_u32(2 * STREAM_BYTES))
        .datagram_receive_buffer_size(Some(DATAGRAM_BYTES))
        .datagram_send_buffer_size(DATAGRAM_BYTES);
    transport
}

/// Verifies the chain as for any certificate, and then that it is one of this cluster's.
#[derive(Debug)]
struct Verifier {
    cluster: ClusterName,
    provider: Arc<CryptoProvider>,
    roots: Arc<rustls::RootCertStore>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Verifier {
    fn new(cluster: &ClusterName, identity: &Identity) -> Result<Arc<Self>, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::clone(&identity.roots);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        Ok(Arc::new(Self {
            cluster: cluster.clone(),
            provider,
            roots: Arc::clone(&identity.roots),
            clients: clients.build()?,
        }))
    }

    /// Verifies a chain, as of a time, as both sides' of a link. A node's certificate is for
    /// dialling and for accepting.
    fn verify(&self, chain: &[CertificateDer<'_>], at: UnixTime) -> Result<(), rustls::Error> {
        self.verify_as_servers(chain, at)?;
        let (end_entity, intermediates) =
            chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.verify_client_cert(end_entity, intermediates, at).map(drop)
    }

    /// When a chain is accepted that is at present: as a server's and as a client's at the same
    /// times.
    fn validity(&self, chain: &[CertificateDer<'_>]) -> Option<Validity> {
        Validity::around(UnixTime::now(), |at| self.verify_as_servers(chain, at).is_ok())
    }

    fn verify_as_servers(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let (end_entity, intermediates) =
            chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        let name = ServerName::try_from(SERVER_NAME);
        let name = name.map_err(|_| rustls::Error::UnsupportedNameType)?;
        self.verify_server_cert(end_entity, intermediates, &name, &[], now).map(drop)
    }

    fn is_named(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let missing = CertificateError::ApplicationVerificationFailure;
        named(certificate, &self.cluster).map(drop).ok_or_else(|| missing.into())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        self.is_named(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.clients.verify_client_cert(end_entity, intermediates, now)?;
        self.is_named(end_entity)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.clients.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.clients.supported_verify_schemes()
    }
}
