//! Header fields as keys, against independent parsers: the list of proxies as one text, the token
//! by its grammar.
#![no_main]

use std::net::{IpAddr, SocketAddr};

use arbitrary::Arbitrary;
use http::{HeaderName, HeaderValue, Request};
use libfuzzer_sys::fuzz_target;
use tidegate_engine::tower::{Head, KeyError, KeyExtractor, keys};
use tidegate_engine::{IpKey, Key, KeyHash, KeyHasher};

/// Above the bound, so that it is reached.
const MAX_HOPS: usize = 20;
const MAX_KEY_BYTES: usize = 16;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    fields: Vec<&'a [u8]>,
    /// Whether the fields begin with a scheme.
    have_scheme: bool,
    hops: u8,
}

fuzz_target!(|input: Input<'_>| {
    let hasher = KeyHasher::rapid(1);
    let name = HeaderName::from_static("x-api-key");
    let names = [&name, &HeaderName::from_static("authorization"), &FORWARDED_FOR];
    let mut request = Request::new(());
    let mut values = Vec::new();
    let scheme: &[u8] = if input.have_scheme { b"Bearer" } else { b"" };
    let fields = input.fields.iter().map(|field| [scheme, field].concat());
    for value in fields.filter_map(|value| HeaderValue::from_bytes(&value).ok()) {
        for name in names {
            request.headers_mut().append(name, value.clone());
        }
        values.push(value);
    }
    let head = Head::of(&request);
    let values: Vec<&[u8]> = values.iter().map(HeaderValue::as_bytes).collect();

    let api_key = keys::api_key().max_bytes(MAX_KEY_BYTES).key(&head, &hasher);
    let expected = only(&values).and_then(|value| bounded(value));
    assert_eq!(api_key, expected.map(|value| value.hash_with(&hasher)));

    let bearer = keys::bearer().max_bytes(MAX_KEY_BYTES).key(&head, &hasher);
    let expected = only(&values).and_then(|value| token(value).ok_or(KeyError::NoKey));
    assert_eq!(bearer, expected.and_then(bounded).map(|token| token.hash_with(&hasher)));

    let hops = usize::from(input.hops) % MAX_HOPS;
    if let Ok(forwarded_for) = keys::forwarded_for(hops) {
        assert_eq!(forwarded_for.key(&head, &hasher), client(&values, hops, &hasher));
    }
});

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

fn only<'a>(values: &[&'a [u8]]) -> Result<&'a [u8], KeyError> {
    match values {
        [] => Err(KeyError::NoKey),
        [value] => Ok(value),
        _ => Err(KeyError::Ambiguous),
    }
}

fn bounded(value: &[u8]) -> Result<&[u8], KeyError> {
    match value.len() {
        0 => Err(KeyError::NoKey),
        1..=MAX_KEY_BYTES => Ok(value),
        _ => Err(KeyError::TooLong),
    }
}

/// `Bearer`, white space, and the rest without any at its ends.
fn token(value: &[u8]) -> Option<&[u8]> {
    let scheme = value.iter().position(u8::is_ascii_whitespace)?;
    let (scheme, rest) = value.split_at(scheme);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| rest.trim_ascii())
}

/// The entry that the outermost trusted proxy appended.
fn client(values: &[&[u8]], hops: usize, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
    let list = values.join(&b',');
    let entries: Vec<_> = list.split(|byte| *byte == b',').collect();
    // Without a field there is no entry; an empty field has one.
    let count = if values.is_empty() { 0 } else { entries.len() };
    let entry = count.checked_sub(hops).map(|index| entries[index]).ok_or(KeyError::NoKey)?;
    let text = std::str::from_utf8(entry).map_err(|_| KeyError::Malformed)?.trim_ascii();
    let address: Option<IpAddr> =
        match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(bare) => bare.parse().ok(),
            None => text.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip())),
        };
    address.map(|address| IpKey::from(address).hash_with(hasher)).ok_or(KeyError::Malformed)
}
