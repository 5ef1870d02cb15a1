//! Nodes that prove themselves by certificates of their operator's authority.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};
use rustix::process::Signal;
use tempfile::TempDir;
use tidegate_tests::{Node, Starting, mistake, wait_until};

use super::cluster::{ask, is_in_state, wait_until_together};

const DAY: i64 = 86_400;
const EXPIRY: &str = "tidegate_cluster_certificate_expiry_timestamp_seconds";

/// An authority, and the files of its nodes.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let own = params.self_signed(&key).unwrap();
        let authority = Self { folder: TempDir::new().unwrap(), issuer: Issuer::new(params, key) };
        authority.write("ca.pem", &pem("CERTIFICATE", own.der()));
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Renamed into its place, so that a node reads all of it.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path("next"), text).unwrap();
        std::fs::set_permissions(self.path("next"), Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(self.path("next"), self.path(name)).unwrap();
    }

    /// Gives a node a certificate that ends in this many days, and its key; returns when that is,
    /// in seconds since 1970.
    fn issue(&self, node: &str, days: i64) -> u64 {
        let end = present().strict_add_signed(days * DAY);
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(end);
        let name = "tidegate://tidegate/127.0.0.1";
        params.subject_alt_names = vec![SanType::URI(name.try_into().unwrap())];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{node}.key"), &pem("PRIVATE KEY", &key.serialize_der()));
        self.write(&format!("{node}.pem"), &pem("CERTIFICATE", certificate.der()));
        end
    }

    fn args(&self, node: &str, join: &[&Node]) -> Vec<String> {
        let mut args = ["--cluster", "127.0.0.1:0"].map(str::to_owned).to_vec();
        for (flag, file) in [("cert", format!("{node}.pem")), ("key", format!("{node}.key"))]
            .into_iter()
            .chain([("ca", "ca.pem".to_owned())])
        {
            let path = self.path(&file);
            args.extend([format!("--cluster-{flag}"), path.to_str().unwrap().to_owned()]);
        }
        for node in join {
            args.extend(["--join".to_owned(), node.cluster.unwrap().to_string()]);
        }
        args
    }

    fn start(&self, node: &str, join: &[&Node]) -> Node {
        Node::start(&strs(&self.args(node, join)))
    }
}

/// The present, in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "certificates end at times of the wall clock")]
fn present() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// RFC 7468, in one line.
fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

#[test]
fn nodes_with_certificates_of_one_authority_keep_a_limit_and_say_when_these_end() {
    let authority = Authority::new();
    let ends = [authority.issue("one", 400), authority.issue("other", 2)];
    let one = authority.start("one", &[]);
    let other = authority.start("other", &[&one]);
    wait_until_together(&[&one, &other]);
    assert_eq!(ask(&one, "k", 100), 100);
    wait_until("the other node denies", || ask(&other, "k", 1) == 0);
    for (node, end) in [&one, &other].into_iter().zip(ends) {
        let shown = node.metric(EXPIRY);
        assert!((end..=end + 1).contains(&shown), "{shown}, not {end}");
    }

    // Renewed while it runs.
    let end = authority.issue("other", 90);
    other.signal(Signal::HUP);
    wait_until("the renewed certificate is shown", || other.metric(EXPIRY) >= end);
    wait_until("the other node is a member", || is_in_state(&one, &other, "alive"));
    wait_until("nothing is left", || ask(&other, "k", 1) == 0);
}

#[test]
fn a_certificate_that_ends_soon_is_warned_of_and_one_that_has_ended_is_a_mistake() {
    let authority = Authority::new();
    authority.issue("one", 2);
    let mut node = Starting::start(&strs(&authority.args("one", &[])));
    let line = node.wait_for_error("expires soon");
    let is_soon = ["hours=47", "hours=48"].iter().any(|left| line.contains(left));
    assert!(line.contains("WARN") && is_soon, "{line}");
    node.wait_for_output();
    assert_eq!(node.stop().code, Some(0));

    authority.issue("one", -2);
    let args = authority.args("one", &[]);
    // It binds before it looks: a node at the default addresses is none of its business.
    let serve = ["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let said = mistake(&[&serve[..], strs(&args).as_slice()].concat());
    assert!(said.contains("expired"), "{said}");
}
