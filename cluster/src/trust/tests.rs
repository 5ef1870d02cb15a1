use super::*;

const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

fn refusal(authorities: &[u8], chain: &[u8], key: &[u8]) -> (CertificatePart, String) {
    let error = Certificates::from_pem(authorities, chain, key).unwrap_err();
    (error.part(), error.to_string())
}

#[test]
fn what_is_not_there_is_named() {
    assert!(Certificates::from_pem(PEM, PEM, KEY).is_ok());
    let nothing = |part| (part, "holds no certificate in PEM".to_owned());
    assert_eq!(refusal(b"", PEM, KEY), nothing(CertificatePart::Authorities));
    assert_eq!(refusal(PEM, KEY, KEY), nothing(CertificatePart::Chain));
    let no_key = (CertificatePart::Key, "is no private key in PEM".to_owned());
    assert_eq!(refusal(PEM, PEM, PEM), no_key);
    let cut = (CertificatePart::Chain, "is no certificate in PEM".to_owned());
    assert_eq!(refusal(PEM, &PEM[..40], KEY), cut);
}

#[test]
fn what_is_read_is_bounded() {
    let many = PEM.repeat(MAX_CERTIFICATES + 1);
    assert_eq!(refusal(&many, PEM, KEY).0, CertificatePart::Authorities);
    let large = vec![b'\n'; MAX_PEM_BYTES + 1];
    for (pem, part) in [
        ([&large[..], PEM, KEY], CertificatePart::Authorities),
        ([PEM, &large, KEY], CertificatePart::Chain),
        ([PEM, PEM, &large], CertificatePart::Key),
    ] {
        assert_eq!(refusal(pem[0], pem[1], pem[2]).0, part);
    }
    assert!(Certificates::from_pem(&PEM.repeat(MAX_CERTIFICATES), PEM, KEY).is_ok());
}

#[test]
fn debug_shows_no_key() {
    let certificates = Certificates::from_pem(PEM, PEM, KEY).unwrap();
    assert_eq!(format!("{certificates:?}"), "Certificates(..)");
}

#[test]
fn secrets_are_bounded() {
    let secret = |n: usize| Secret::from_bytes(format!("0123456789abcdef{n}").as_bytes()).unwrap();
    let TrustKind::Secrets(kept) = Trust::secrets(secret(0), (1..20).map(secret)).0 else {
        panic!()
    };
    assert_eq!(kept.len(), MAX_SECRETS);
}

#[test]
fn a_trust_says_by_what_it_is() {
    let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
    assert!(!Trust::from(secret).is_by_certificates());
    let certificates = Certificates::from_pem(PEM, PEM, KEY).unwrap();
    assert!(Trust::from(certificates).is_by_certificates());
}
