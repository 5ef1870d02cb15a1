use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_engine::KeyHasher;

use super::*;
use crate::config::file::LimitConfig;
use crate::front::http::check;
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::telemetry::meter::FrontEndName;

fn service() -> Service {
    let limiters =
        Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &KeyHasher::siphash([7; 16]));
    Service::new(limiters.unwrap(), Gossip::alone())
}

fn batch(service: &Service, meter: &Meter, checks: &[String]) -> Result<Vec<Value>, Problem> {
    let body = format!("{{\"checks\":[{}]}}", checks.join(","));
    let results: Value = serde_json::from_slice(&decide(service, meter, body.as_bytes())?).unwrap();
    Ok(results["results"].as_array().unwrap().clone())
}

/// The result that the path of one check gives.
fn alone(service: &Service, meter: &Meter, check: &str) -> Value {
    match check::decide(service, meter, check.as_bytes()) {
        Ok(answer) => {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let body = runtime.block_on(answer.into_body().collect()).unwrap().to_bytes();
            serde_json::from_slice(&body).unwrap()
        }
        Err(Problem { code, text }) => json!({ "error": text, "code": code.name() }),
    }
}

/// A result without the time in which it was decided: times to 10 minutes.
fn coarse(mut result: Value) -> Value {
    for time in ["retry_after_ms", "reset_after_ms"] {
        if let Some(millis) = result.get(time).and_then(Value::as_u64) {
            result[time] = json!((millis + 300_000) / 600_000);
        }
    }
    result
}

/// A check that is well formed. Of half a day a unit: nothing drains meanwhile.
fn well_formed() -> impl Strategy<Value = Vec<String>> {
    let key = prop::sample::select(vec!["a", "b", "\\u0061", "c\\n"]).prop_map(str::to_owned);
    let long = prop::sample::select(vec![0, 1_024, 1_025]).prop_map(|bytes| "k".repeat(bytes));
    let key = prop_oneof![9 => key, 1 => long];
    let terms = prop::sample::select(vec![
        r#""rate":"2/d""#,
        r#""rate":"2/d","burst":3"#,
        r#""rate":"2/d strict burst 4""#,
        r#""rate":"\u0032/d""#,
        r#""rate":"unlimited""#,
        r#""rate":"blocked""#,
        r#""rate":"2/d","burst":0"#,
        r#""rate":"1000000001/s""#,
        r#""limit":"nope""#,
        r#""limit":"inline""#,
    ]);
    let cost = prop::sample::select(vec!["", r#","cost":0"#, r#","cost":2"#]);
    let times = 1..4_usize;
    (key, cost, terms, times).prop_map(|(key, cost, terms, times)| {
        vec![format!(r#"{{"key":"{key}"{cost},{terms}}}"#); times]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Also where a key comes several times, and where checks are decided together.
    #[test]
    fn a_batch_decides_as_its_checks_one_by_one(
        checks in prop::collection::vec(well_formed(), 1..40),
    ) {
        let checks = checks.concat();
        let (together, apart) = (service(), service());
        let meters = [&together, &apart].map(|service| service.meter(FrontEndName::Http));
        let results = batch(&together, &meters[0], &checks).unwrap();
        prop_assert_eq!(results.len(), checks.len());
        for (result, check) in results.into_iter().zip(&checks) {
            let expected = alone(&apart, &meters[1], check);
            prop_assert_eq!(coarse(result), coarse(expected), "{}", check);
        }
        prop_assert_eq!(meters[0].decisions(), meters[1].decisions());
    }
}

/// What is wrong with a body, where it is refused and nothing is charged.
fn refused(body: &str) -> Problem {
    let service = service();
    let meter = service.meter(FrontEndName::Http);
    let decided = decide(&service, &meter, body.as_bytes());
    let problem = decided.map(|results| results.len()).expect_err("a refusal");
    assert_eq!(meter.decisions(), (0, 0));
    problem
}

#[test]
fn one_malformed_check_refuses_all_and_is_named() {
    let good = r#"{"key":"k","limit":"default"}"#;
    for (bad, expected) in [
        (r#"{"key":"k","limit":"default","cost":-1}"#, "checks[1].cost: expected an integer"),
        (r#"{"key":7,"limit":"default"}"#, "checks[1].key: expected a string"),
        (r#"{"key":"k\q","limit":"default"}"#, "checks[1]: invalid escape"),
        (r#"{"key":"k","limit":"\ud800"}"#, "checks[1]: unexpected end of hex escape"),
        (r#"{"limit":"default"}"#, "checks[1]: missing field `key`"),
        (r#"{"key":"k","limit":"default","colour":1}"#, "checks[1]: unknown field `colour`"),
        (r#"{"key":"k"}"#, "checks[1]: give either limit or rate"),
        (r#"{"key":"k","rate":"1/15x"}"#, "checks[1].rate: `1/15x`: unknown unit"),
        (r#"{"key":"k","rate":"1/s burst 2","burst":2}"#, "checks[1].burst: the rate has a burst"),
        (r#"["k",1,"default",null,null]"#, "checks[1]: invalid type: sequence, expected an object"),
        ("null", "checks[1]: invalid type: null, expected an object"),
    ] {
        let Problem { code, text } = refused(&format!(r#"{{"checks":[{good},{bad},{good}]}}"#));
        assert_eq!(code, Code::InvalidRequest, "{bad}");
        assert!(text.starts_with(expected), "{bad}: {text}");
        assert!(text.contains(" at line 1 column "), "{bad}: {text}");
        assert_eq!(text.matches(" at line ").count(), 1, "{bad}: {text}");
    }
}

#[test]
fn a_body_is_one_object_with_1_to_1000_checks() {
    let good = r#"{"key":"k","limit":"default"}"#;
    for (body, expected) in [
        ("", "EOF"),
        ("[]", "expected a JSON object"),
        ("{}", "missing field `checks`"),
        (r#"{"checks":[]}"#, "checks: expected 1 to 1000"),
        (r#"{"checks":{}}"#, "expected an array of checks"),
        (r#"{"check":[]}"#, "unknown field `check`, expected `checks`"),
        (&format!(r#"{{"checks":[{good}],"checks":[{good}]}}"#), "duplicate field `checks`"),
        (&format!(r#"{{"checks":[{good}],"more":1}}"#), "unknown field `more`"),
        (&format!(r#"{{"checks":[{good}]}} {{}}"#), "trailing"),
        (&format!(r#"{{"checks":[{good}"#), "EOF"),
    ] {
        let Problem { code, text } = refused(body);
        assert_eq!(code, Code::InvalidRequest, "{body}");
        assert!(text.contains(expected), "{body}: {text}");
    }
    let of = |checks| format!(r#"{{"checks":[{}]}}"#, vec![good; checks].join(","));
    let Problem { code, text } = refused(&of(MAX_CHECKS + 1));
    assert_eq!((code, text.as_str()), (Code::TooManyChecks, "checks: more than 1000"));
    let service = service();
    let meter = service.meter(FrontEndName::Http);
    decide(&service, &meter, of(MAX_CHECKS).as_bytes()).unwrap();
    // The built-in limit admits 200.
    assert_eq!(meter.decisions().0 + meter.decisions().1, 1_000);
}

#[test]
fn the_nearest_limit_is_looked_for_once() {
    let service = service();
    let meter = service.meter(FrontEndName::Http);
    let checks = ["defualt", "defualt", "Default"];
    let checks = checks.map(|limit| format!(r#"{{"key":"k","limit":"{limit}"}}"#));
    let results = batch(&service, &meter, &checks).unwrap();
    let near = "limit: there is no limit `defualt`, did you mean `default`?";
    let errors: Vec<_> = results.iter().map(|result| result["error"].as_str().unwrap()).collect();
    assert_eq!(errors, [near, near, "limit: there is no limit `Default`"]);
}
