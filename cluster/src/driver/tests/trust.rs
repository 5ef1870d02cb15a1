//! Certificates of an operator's authority, and secrets that change.

use std::time::{Duration, UNIX_EPOCH};

use quinn::Endpoint;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use rustls::pki_types::UnixTime;

use super::{addr, connect, endpoint, secret};
use crate::config::StartError;
use crate::driver::certificate::Identity;
use crate::driver::link::Incomplete;
use crate::driver::tls::{Configs, SERVER_NAME};
use crate::{Certificates, Cluster, ClusterName, Config, Trust};

/// An authority as an operator has one, with ECDSA keys.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = pem("CERTIFICATE", params.self_signed(&key).unwrap().der());
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// One that this one has signed, until the end of the year before.
    fn authority_until(&self, year: i32) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "between");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let pem = pem("CERTIFICATE", params.signed_by(&key, &self.issuer).unwrap().der());
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate with these URIs, as this node's own, and the key, in PEM.
    fn issue(&self, uris: &[&str]) -> (String, String) {
        self.issue_for(uris, &[])
    }

    fn issue_for(&self, uris: &[&str], usages: &[ExtendedKeyUsagePurpose]) -> (String, String) {
        let mut params = CertificateParams::default();
        params.extended_key_usages = usages.to_vec();
        self.sign(uris, params)
    }

    fn issue_expired(&self, uris: &[&str]) -> (String, String) {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        self.sign(uris, params)
    }

    fn sign(&self, uris: &[&str], mut params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        params.subject_alt_names =
            uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()))
    }

    fn trust(&self, (chain, key): &(String, String)) -> Trust {
        let pem = Certificates::from_pem(self.pem.as_bytes(), chain.as_bytes(), key.as_bytes());
        pem.unwrap().into()
    }
}

/// RFC 7468, in one line of base64.
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in der.chunks(3) {
        let at = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            let is_padding = digit > chunk.len();
            text.push(if is_padding { '=' } else { char::from(DIGITS[value as usize]) });
        }
    }
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

fn configs(trust: &Trust) -> Result<Configs, StartError> {
    let cluster: ClusterName = "test".parse().unwrap();
    Configs::of(&cluster, addr(), trust)
}

/// Whether the second one can dial the first, and both accept each other.
async fn links(node: &Trust, other: &Trust) -> bool {
    let (node, other) = (configs(node).unwrap(), configs(other).unwrap());
    let (dialled, accepted) = connect(node.server.clone(), other.client.clone()).await;
    let ends = dialled.zip(accepted);
    if let Some((dialled, accepted)) = &ends {
        let opened = UnixTime::now();
        assert!(other.accepts(dialled, opened) && node.accepts(accepted, opened));
    }
    ends.is_some()
}

const OWN: &str = "tidegate://test/10.0.0.1:7381";

#[tokio::test]
async fn nodes_of_one_authority_accept_each_other() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let one = ours.trust(&ours.issue(&[OWN]));
    let host = ours.trust(&ours.issue(&["https://example.org/", "tidegate://test/10.0.0.1"]));
    assert!(links(&one, &host).await && links(&host, &one).await);
    let foreign = theirs.trust(&theirs.issue(&[OWN]));
    assert!(!links(&one, &foreign).await && !links(&foreign, &one).await);
    let by_secret = secret("0123456789abcdef").into();
    assert!(!links(&one, &by_secret).await && !links(&by_secret, &one).await);
}

#[test]
fn a_certificate_that_others_would_refuse_is_an_error_at_the_start() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let refusal = |trust: &Trust| configs(trust).unwrap_err().to_string();
    for uri in [
        "tidegate://test/10.0.0.1:7382",
        "tidegate://test/10.0.0.2",
        "tidegate://prod/10.0.0.1:7381",
        "https://example.org/",
    ] {
        let line = refusal(&ours.trust(&ours.issue(&[uri])));
        assert_eq!(line, format!("certificate: it does not name {OWN}"));
    }
    let foreign = refusal(&ours.trust(&theirs.issue(&[OWN])));
    assert_eq!(foreign, "certificate: none of the given authorities has signed it");
    let mut early = CertificateParams::default();
    early.not_before = rcgen::date_time_ymd(2_090, 1, 1);
    let early = refusal(&ours.trust(&ours.sign(&[OWN], early)));
    assert_eq!(early, "certificate: it is not valid yet");
    let (chain, _) = ours.issue(&[OWN]);
    let other_key = ours.trust(&(chain, ours.issue(&[OWN]).1));
    let half = [ExtendedKeyUsagePurpose::ServerAuth];
    let server_only = ours.trust(&ours.issue_for(&[OWN], &half));
    for trust in [other_key, server_only] {
        let line = refusal(&trust);
        assert!(line.starts_with("certificate: ") && !line.contains('\n'), "{line}");
    }
}

/// Of whatever ends first: the node's certificate, or one between it and the authority.
#[test]
fn it_is_known_until_when_a_certificate_is_accepted() {
    let ours = Authority::new("ours");
    let until = |params: CertificateParams| {
        let trust = ours.trust(&ours.sign(&[OWN], params));
        configs(&trust).unwrap().validity.map(|validity| validity.until)
    };
    let mut ends = CertificateParams::default();
    ends.not_after = rcgen::date_time_ymd(2099, 1, 1);
    assert_eq!(until(ends), Some(4_070_908_800));
    assert_eq!(until(CertificateParams::default()), None, "in the year 4096");
    let by_secret: Trust = secret("0123456789abcdef").into();
    assert!(configs(&by_secret).unwrap().validity.is_none());
    // The certificate between the node's and the authority ends first.
    let between = ours.authority_until(2_090);
    let mut ends = CertificateParams::default();
    ends.not_after = rcgen::date_time_ymd(2099, 1, 1);
    let (chain, key) = between.sign(&[OWN], ends);
    let trust = ours.trust(&(chain + &between.pem, key));
    let validity = configs(&trust).unwrap().validity;
    assert_eq!(validity.map(|validity| validity.until), Some(3_786_912_000));
}

#[tokio::test]
async fn a_node_knows_the_end_of_the_certificate_that_it_shows() {
    let ours = Authority::new("ours");
    let until = |year| {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        ours.trust(&ours.sign(&["tidegate://tidegate/127.0.0.1"], params))
    };
    let expiry = |node: &Cluster| {
        let at = node.certificate_expiry();
        at.map(|at| at.duration_since(UNIX_EPOCH).unwrap().as_secs())
    };
    let config = Config::new("127.0.0.1:0".parse().unwrap(), until(2_090));
    let node = Cluster::start(config).await.unwrap();
    assert_eq!(expiry(&node), Some(3_786_912_000));
    node.rotate(until(2_099)).await.unwrap();
    assert_eq!(expiry(&node), Some(4_070_908_800));
    node.rotate(Trust::secret(secret("0123456789abcdef"))).await.unwrap();
    assert_eq!(expiry(&node), None);
}

/// The side that refuses the handshake knows whose certificate it is, and so does the other.
#[tokio::test]
async fn an_expired_certificate_is_named_as_the_reason() {
    let ours = Authority::new("ours");
    let [valid, expired] =
        [ours.issue(&[OWN]), ours.issue_expired(&[OWN])].map(|it| ours.trust(&it));
    assert_eq!(configs(&expired).unwrap_err().to_string(), "certificate: it has expired");
    let unchecked = |trust: &Trust| {
        let cluster: ClusterName = "test".parse().unwrap();
        let identity = Identity::new(&cluster, addr(), trust).unwrap();
        Configs::new(&cluster, &identity).unwrap()
    };
    for (server, client, expected) in
        [(&valid, &expired, Incomplete::Expired), (&expired, &valid, Incomplete::ExpiredHere)]
    {
        let (accepting, at) = endpoint(unchecked(server).server);
        let dialling = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let dialled = dialling.connect_with(unchecked(client).client, at, SERVER_NAME).unwrap();
        let accepted = async { accepting.accept().await.unwrap().await };
        let (dialled, accepted) = tokio::join!(dialled, accepted);
        let error = match accepted {
            Err(error) => error,
            Ok(connection) => connection.closed().await,
        };
        drop(dialled);
        assert_eq!(Incomplete::from(error), expected);
    }
}

#[tokio::test]
async fn each_round_of_a_rotation_accepts_the_one_before() {
    let [old, new] = ["0123456789abcdef", "fedcba9876543210"].map(secret);
    let rounds = [
        Trust::secret(old.clone()),
        Trust::secrets(old.clone(), [new.clone()]),
        Trust::secrets(new.clone(), [old]),
        Trust::secret(new),
    ];
    for (number, round) in rounds.iter().enumerate() {
        for (other, trust) in rounds.iter().enumerate() {
            let expected = number.abs_diff(other) <= 1;
            assert_eq!(links(round, trust).await, expected, "rounds {number} and {other}");
        }
    }
}

#[tokio::test]
async fn a_link_is_verified_again_under_the_new_trust() {
    let [old, new] = ["0123456789abcdef", "fedcba9876543210"].map(secret);
    let before = configs(&old.clone().into()).unwrap();
    let (dialled, accepted) = connect(before.server.clone(), before.client.clone()).await;
    let (dialled, accepted) = (dialled.unwrap(), accepted.unwrap());
    let both = configs(&Trust::secrets(new.clone(), [old])).unwrap();
    let after = configs(&new.into()).unwrap();
    for connection in [dialled, accepted] {
        let accept = |configs: &Configs| configs.accepts(&connection, UnixTime::now());
        assert!(accept(&both) && !accept(&after));
    }
}

/// By its certificate, which says since when: a wall clock that was never set shows 1970.
#[tokio::test]
async fn a_certificate_that_is_made_from_a_secret_is_valid_at_any_time() {
    let configs = configs(&secret("0123456789abcdef").into()).unwrap();
    let (dialled, accepted) = connect(configs.server.clone(), configs.client.clone()).await;
    for connection in [dialled.unwrap(), accepted.unwrap()] {
        for year in [0, 1, 80] {
            let at = UnixTime::since_unix_epoch(Duration::from_secs(year * 365 * 86_400));
            assert!(configs.accepts(&connection, at), "{year} years after 1970");
        }
    }
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    assert!(waited.is_ok(), "never: {what}");
}

/// One node's certificate is renewed, while another's has expired.
#[tokio::test]
async fn links_to_a_node_whose_certificate_has_expired_outlast_a_renewal() {
    let ours = Authority::new("ours");
    let until = |at: UnixTime| {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(at.as_secs());
        ours.trust(&ours.sign(&["tidegate://tidegate/127.0.0.1"], params))
    };
    let after = |seconds| {
        let at = UnixTime::now().as_secs() + seconds;
        UnixTime::since_unix_epoch(Duration::from_secs(at))
    };
    let expires = after(3);
    let start = async |trust, join| {
        let mut config = Config::new("127.0.0.1:0".parse().unwrap(), trust);
        config.join = join;
        Cluster::start(config).await.unwrap()
    };
    let one = start(until(after(3_600)), Vec::new()).await;
    let other = start(until(expires), vec![one.local_addr()]).await;
    let links = |node: &Cluster| (node.stats().links_out, node.stats().links_in);
    let linked = || links(&one) == (1, 1) && links(&other) == (1, 1);
    eventually("links both ways", linked).await;
    eventually("it has expired", || UnixTime::now().as_secs() > expires.as_secs()).await;
    one.rotate(until(after(3_600))).await.unwrap();
    // What a node sees of its links is up to 50 ms old, and a link that ended could not open again.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(linked());
    // The new trust ends them as ever.
    one.rotate(secret("0123456789abcdef")).await.unwrap();
    eventually("the links have ended", || links(&one) == (0, 0)).await;
}

#[tokio::test]
async fn a_node_that_would_be_refused_loses_its_links() {
    let [old, new] = ["0123456789abcdef", "fedcba9876543210"].map(secret);
    let start = async |join| {
        let mut config = Config::new("127.0.0.1:0".parse().unwrap(), old.clone());
        config.join = join;
        Cluster::start(config).await.unwrap()
    };
    let one = start(Vec::new()).await;
    let other = start(vec![one.local_addr()]).await;
    let links = |node: &Cluster| (node.stats().links_out, node.stats().links_in);
    let linked = || links(&one) == (1, 1) && links(&other) == (1, 1);
    eventually("links both ways", linked).await;
    one.rotate(new.clone()).await.unwrap();
    eventually("the links have ended", || links(&one) == (0, 0)).await;
    eventually("and no other is accepted", || one.stats().handshakes_rejected > 0).await;
    other.rotate(new.clone()).await.unwrap();
    eventually("links both ways", linked).await;
    // With what does not fit nothing changes.
    let foreign = Authority::new("foreign");
    let unnamed = foreign.trust(&foreign.issue(&["tidegate://tidegate/10.0.0.1:7381"]));
    assert!(matches!(one.rotate(unnamed).await, Err(StartError::Certificate(_))));
    assert!(linked());
}
