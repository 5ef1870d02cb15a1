//! Mutual TLS 1.3 from one shared secret.
//!
//! The secret yields an Ed25519 key that acts as the cluster's certificate authority; so every node
//! can issue its own certificate and verify the others'. All certificates carry the same name: any
//! node that holds one is a member.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, version::TLS13};

use crate::secret::Secret;

type Failure = Box<dyn Error + Send + Sync>;

/// The name in every node's certificate.
pub(super) const SERVER_NAME: &str = "node.tidegate.internal";
const ALPN: &[u8] = b"tidegate/1";
/// RFC 8410: an Ed25519 private key in PKCS #8, up to the 32 bytes of the seed.
const PKCS8_ED25519: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// Bytes of a UDP datagram that every QUIC path supports.
const INITIAL_MTU: u16 = 1_200;
/// Idle timeout of a connection.
const IDLE_MS: u32 = 5_000;
/// How often a silent connection sends a keep-alive.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Memory for datagrams, each way.
const DATAGRAM_BYTES: usize = 64 * 1024;
/// Memory for unread bytes of a stream.
const STREAM_BYTES: u32 = 1 << 20;

/// The configurations for accepting and for dialling.
pub(super) fn configs(secret: &Secret) -> Result<(ServerConfig, ClientConfig), Failure> {
    let identity = issue(secret)?;
    Ok((server(&identity)?, client(&identity)?))
}

fn server(identity: &Identity) -> Result<ServerConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::clone(&identity.roots);
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport()));
    config.migration(false);
    Ok(config)
}

fn client(identity: &Identity) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(Arc::clone(&identity.roots))
        .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport()));
    Ok(config)
}

pub(super) fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .initial_mtu(INITIAL_MTU)
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

struct Identity {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// A certificate of its own for this node, signed by the cluster's authority.
fn issue(secret: &Secret) -> Result<Identity, Failure> {
    let (root, issuer) = authority(secret)?;
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone())?;

    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let mut params = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "tidegate node");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let leaf = params.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(Identity { roots: Arc::new(roots), chain: vec![leaf.der().clone()], key })
}

/// The authority: every node derives the same key and name.
fn authority(secret: &Secret) -> Result<(Certificate, Issuer<'static, KeyPair>), Failure> {
    let der = [PKCS8_ED25519.as_slice(), &secret.authority_seed()].concat();
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(der), &PKCS_ED25519)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "tidegate cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root = params.self_signed(&key)?;
    Ok((root, Issuer::new(params, key)))
}

/// A dialler that trusts the nodes of one secret and holds a certificate of another.
#[cfg(test)]
pub(super) fn impostor(trusted: &Secret, held: &Secret) -> ClientConfig {
    let roots = issue(trusted).unwrap().roots;
    client(&Identity { roots, ..issue(held).unwrap() }).unwrap()
}
