use std::ops::Range;

use tidegate_engine::KeyHasher;

use super::*;
use crate::config::file::LimitConfig;
use crate::telemetry::exposition::Format;

fn service() -> Service {
    let limiters =
        Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &KeyHasher::siphash([7; 16]));
    Service::new(limiters.unwrap(), Gossip::alone())
}

/// nginx: a key beyond the longest one was not limited.
#[test]
fn trap_over_long_key_silently_unlimited() {
    let service = service();
    let meter = service.meter(FrontEndName::Http);
    let limit = LimitSelector::Inline(&Quota::per_day(1));
    let inline = |key: &[u8]| {
        let verdict = service.check(&Request { limit, key, cost: 1 }, &meter);
        verdict.map(|verdict| verdict.decision.is_allowed())
    };
    let mut longest = [b'k'; MAX_KEY_BYTES];
    assert_eq!([inline(&longest), inline(&longest)], [Ok(true), Ok(false)]);
    longest[MAX_KEY_BYTES - 1] = b'l';
    assert_eq!(inline(&longest), Ok(true));
    for length in [0, MAX_KEY_BYTES + 1, 1 << 16] {
        let key = vec![b'k'; length];
        assert_eq!(inline(&key), Err(CheckError::Key), "{length}");
        let request = Request { limit: LimitSelector::Named("default"), key: &key, cost: 1 };
        let named = service.check(&request, &meter);
        assert_eq!(named.unwrap_err(), CheckError::Key, "{length}");
    }
}

/// envoyproxy/ratelimit: a sample for each key.
#[test]
fn trap_metric_cardinality_grows_with_keys() {
    let service = service();
    let meter = service.meter(FrontEndName::Http);
    let samples_after = |keys: Range<u32>| {
        for key in keys {
            let key = key.to_be_bytes();
            for limit in
                [LimitSelector::Named("default"), LimitSelector::Inline(&Quota::per_day(1))]
            {
                let request = Request { limit, key: &key, cost: 1 };
                let _ = service.check(&request, &meter).unwrap();
            }
        }
        service.metrics().render(Format::Classic).lines().count()
    };
    let few = samples_after(0..1);
    assert_eq!(samples_after(1..100), few);
}
