//! How the nodes of a cluster prove that they belong to it.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::secret::Secret;

/// Secrets that are accepted at a time, at most.
pub const MAX_SECRETS: usize = 8;
/// The largest PEM file, in bytes.
const MAX_PEM_BYTES: usize = 1 << 20;
/// Certificates in a PEM file, at most.
const MAX_CERTIFICATES: usize = 64;

/// How a node proves its identity, and which nodes it trusts.
#[derive(Clone, Debug)]
pub struct Trust(pub(crate) TrustKind);

#[derive(Clone, Debug)]
pub(crate) enum TrustKind {
    /// The first one signs this node's certificate; those of all are accepted.
    Secrets(Vec<Secret>),
    Certificates(Arc<Certificates>),
}

impl Trust {
    /// Nodes that know the secret: each issues its own certificate.
    #[must_use]
    pub fn secret(secret: Secret) -> Self {
        Self(TrustKind::Secrets(vec![secret]))
    }

    /// The same while the secret is being changed: this node uses `own`, and accepts nodes that use
    /// any of `others` as well, of which those beyond [`MAX_SECRETS`] in all are left out.
    #[must_use]
    pub fn secrets(own: Secret, others: impl IntoIterator<Item = Secret>) -> Self {
        Self(TrustKind::Secrets(std::iter::once(own).chain(others).take(MAX_SECRETS).collect()))
    }

    /// Whether nodes prove their identity by [`Certificates`] of an authority, and not by a secret.
    #[must_use]
    pub fn is_by_certificates(&self) -> bool {
        matches!(self.0, TrustKind::Certificates(_))
    }
}

impl From<Secret> for Trust {
    fn from(secret: Secret) -> Self {
        Self::secret(secret)
    }
}

impl From<Certificates> for Trust {
    fn from(certificates: Certificates) -> Self {
        Self(TrustKind::Certificates(Arc::new(certificates)))
    }
}

/// Certificates from an authority of the operator's own.
///
/// The node's certificate has `tidegate://CLUSTER/IP:PORT` among its subject alternative names, of
/// type URI, with the address that peers dial, or without the port for any; and, if it limits its
/// use, is for both server and client authentication.
pub struct Certificates {
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Certificates {
    /// Takes PEM: the certificates of the authorities whose nodes are accepted (1 to 64, so that
    /// one can be replaced by another); the node's own certificate, followed by those between it
    /// and the authority, if there are any; and its private key (PKCS #8, PKCS #1 or SEC 1).
    ///
    /// # Errors
    /// When one of them is not there, or not of that form. Whether they fit each other is checked
    /// where they are used: [`Cluster::start`](crate::Cluster::start) and
    /// [`Cluster::rotate`](crate::Cluster::rotate).
    pub fn from_pem(
        authorities: &[u8],
        chain: &[u8],
        key: &[u8],
    ) -> Result<Self, CertificatesError> {
        let refused = |part, problem| CertificatesError { part, problem };
        let certificates = |part, pem: &[u8]| {
            if pem.len() > MAX_PEM_BYTES {
                return Err(refused(part, Problem::TooLarge));
            }
            let all = CertificateDer::pem_slice_iter(pem).take(MAX_CERTIFICATES + 1);
            let all: Vec<_> =
                all.collect::<Result<_, _>>().map_err(|_| refused(part, Problem::NotPem))?;
            match all.len() {
                0 => Err(refused(part, Problem::Missing)),
                1..=MAX_CERTIFICATES => Ok(all),
                _ => Err(refused(part, Problem::TooLarge)),
            }
        };
        let authorities = certificates(CertificatePart::Authorities, authorities)?;
        let chain = certificates(CertificatePart::Chain, chain)?;
        if key.len() > MAX_PEM_BYTES {
            return Err(refused(CertificatePart::Key, Problem::TooLarge));
        }
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|_| refused(CertificatePart::Key, Problem::NotPem))?;
        Ok(Self { authorities, chain, key })
    }

    /// Reads them from files, as [`Certificates::from_pem`] takes them.
    ///
    /// # Errors
    /// When a file cannot be read, or is not of that form.
    pub fn from_files(
        authorities: &Path,
        chain: &Path,
        key: &Path,
    ) -> Result<Self, CertificatesError> {
        let read = |part, path| {
            read(path)
                .map_err(|error| CertificatesError { part, problem: Problem::Unreadable(error) })
        };
        Self::from_pem(
            &read(CertificatePart::Authorities, authorities)?,
            &read(CertificatePart::Chain, chain)?,
            &read(CertificatePart::Key, key)?,
        )
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more than the maximum shows that it is too large.
    std::fs::File::open(path)?.take(MAX_PEM_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl fmt::Debug for Certificates {
    /// Keeps the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates(..)")
    }
}

/// Why there are no certificates.
#[derive(Debug)]
pub struct CertificatesError {
    part: CertificatePart,
    problem: Problem,
}

/// Which of them an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificatePart {
    /// The authorities' certificates.
    Authorities,
    /// The node's certificate and those of its chain.
    Chain,
    /// The node's private key.
    Key,
}

#[derive(Debug)]
enum Problem {
    Missing,
    NotPem,
    TooLarge,
    Unreadable(io::Error),
}

impl CertificatesError {
    /// Which of them it is about.
    #[must_use]
    pub fn part(&self) -> CertificatePart {
        self.part
    }
}

impl fmt::Display for CertificatesError {
    /// One line, without the part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.part == CertificatePart::Key { "private key" } else { "certificate" };
        match &self.problem {
            Problem::Missing => write!(f, "holds no {what} in PEM"),
            Problem::NotPem => write!(f, "is no {what} in PEM"),
            Problem::TooLarge => {
                write!(
                    f,
                    "holds more than {MAX_CERTIFICATES} certificates or {MAX_PEM_BYTES} bytes"
                )
            }
            Problem::Unreadable(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for CertificatesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
