//! The certificate of this node, and the authorities whose certificates it accepts.
//!
//! They come from the operator's authority, or from a secret. A secret yields an Ed25519 key that
//! acts as the cluster's certificate authority; so every node can issue its own certificate and
//! verify the others'. A party that knows the secret can act as any node.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, SanType,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::name::ClusterName;
use crate::secret::Secret;
use crate::trust::{Certificates, Trust, TrustKind};

/// Why there is no certificate.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// RFC 8410: an Ed25519 private key in PKCS #8, up to the 32 bytes of the seed.
const PKCS8_ED25519: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// What a node shows, and which nodes it accepts.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// What the node at `addr` shows and accepts under this trust.
    pub(super) fn new(
        cluster: &ClusterName,
        addr: SocketAddr,
        trust: &Trust,
    ) -> Result<Self, Failure> {
        match &trust.0 {
            TrustKind::Secrets(secrets) => Self::issue(cluster, addr, secrets),
            TrustKind::Certificates(certificates) => Self::from_operator(certificates),
        }
    }

    fn from_operator(certificates: &Certificates) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        for authority in &certificates.authorities {
            roots.add(authority.clone())?;
        }
        let (chain, key) = (certificates.chain.clone(), certificates.key.clone_key());
        Ok(Self { roots: Arc::new(roots), chain, key })
    }

    /// A certificate signed by the first secret's authority; those of all are accepted.
    fn issue(cluster: &ClusterName, addr: SocketAddr, secrets: &[Secret]) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        let mut issuers = Vec::new();
        for secret in secrets {
            let (root, issuer) = authority(secret)?;
            roots.add(root.der().clone())?;
            issuers.push(issuer);
        }
        let issuer = issuers.first().ok_or("no secret is given")?;

        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut params = CertificateParams::default();
        // A wall clock that was never set shows the epoch, and a secret does not expire.
        params.not_before = rcgen::date_time_ymd(1970, 1, 1);
        let uri = Ia5String::try_from(cluster.uri_of(addr))?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.distinguished_name.push(DnType::CommonName, "tidegate node");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = params.signed_by(&key, issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Self { roots: Arc::new(roots), chain: vec![leaf.der().clone()], key })
    }
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
