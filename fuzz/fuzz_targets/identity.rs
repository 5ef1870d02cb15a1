//! A node's identity, and its seeds: secrets, certificates and the names in them, the name of a
//! cluster, seeds and files of seeds. Each is taken whole, or refused in one short line.
#![no_main]

use std::net::SocketAddr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_cluster::{
    Certificates, ClusterName, MAX_SEEDS_IN_FILE, Secret, SecretError, Seed, fuzzing,
};

/// Above what an error may take: its words, and what it shows of a text with each character
/// escaped.
const MAX_ERROR_BYTES: usize = 1_024;
/// What a secret may have, with a newline at its end.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=64 * 1024 + 2;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Seed(&'a str),
    SeedFile(&'a str),
    Cluster { name: &'a str, node: SocketAddr, uris: Vec<&'a str> },
    Secret(&'a [u8]),
    Certificates { authorities: &'a [u8], chain: &'a [u8], key: &'a [u8] },
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Seed(text) => seed(text),
    Input::SeedFile(text) => seed_file(text),
    Input::Cluster { name, node, uris } => cluster(name, node, &uris),
    Input::Secret(bytes) => secret(bytes),
    Input::Certificates { authorities, chain, key } => {
        if let Err(error) = Certificates::from_pem(authorities, chain, key) {
            is_short(&error.to_string());
        }
    }
});

fn seed(text: &str) {
    match text.parse::<Seed>() {
        Ok(seed) => assert_eq!(seed.to_string().parse().as_ref(), Ok(&seed), "{seed}"),
        Err(error) => is_short(&error.to_string()),
    }
}

fn seed_file(text: &str) {
    match fuzzing::seeds_of_file(text) {
        Ok(seeds) => {
            assert!(seeds.len() <= MAX_SEEDS_IN_FILE);
            let lines: Vec<_> = seeds.iter().map(|seed| format!("  {seed} # one\n")).collect();
            assert_eq!(fuzzing::seeds_of_file(&lines.join("\n")), Ok(seeds));
        }
        Err(error) => is_short(&error),
    }
}

/// A certificate speaks for what its URIs name, in this cluster alone.
fn cluster(name: &str, node: SocketAddr, uris: &[&str]) {
    let name: ClusterName = match name.parse() {
        Ok(name) => name,
        Err(error) => return is_short(&format!("{error}")),
    };
    assert_eq!(name.as_str().parse().as_ref(), Ok(&name));
    let subject = fuzzing::subject_of(&name, uris.iter().copied());
    let is_named = |uri: &&str| uri.starts_with(&format!("tidegate://{name}/"));
    assert!(subject.is_none() || uris.iter().any(is_named), "{uris:?}");
    let own = fuzzing::uri_of(&name, node);
    let subject = fuzzing::subject_of(&name, std::iter::once(&*own));
    assert!(subject.is_some_and(|subject| subject.covers(node)), "{own}");
    let other: ClusterName = format!("{}x", &name.as_str()[1..]).parse().expect("a name");
    if other != name {
        assert_eq!(fuzzing::subject_of(&other, std::iter::once(&*own)), None);
    }
}

fn secret(bytes: &[u8]) {
    match Secret::from_bytes(bytes) {
        Ok(secret) => {
            assert!(SECRET_BYTES.contains(&bytes.len()));
            assert!(!format!("{secret:?}").contains(char::is_control), "it is kept");
        }
        Err(error @ (SecretError::TooShort | SecretError::TooUniform | SecretError::TooLong)) => {
            is_short(&error.to_string());
        }
        Err(error) => panic!("{error}"),
    }
}

fn is_short(error: &str) {
    assert!(error.len() <= MAX_ERROR_BYTES && !error.contains(char::is_control), "{error:?}");
}
