//! Where the keys of workloads lie in memory: alone in its process, as other tests take and free
//! memory meanwhile.

use core::num::NonZeroU32;
use std::collections::HashMap;

use tidegate_benches::contenders::Contender;
use tidegate_benches::failure::Failure;
use tidegate_benches::pool::Pool;
use tidegate_benches::script::Script;
use tidegate_benches::timed::check_all;
use tidegate_benches::workloads::{Plan, Workload};

const KEYS: usize = 20_000;
const CHECKS: u32 = 10_000;
const SEED: u64 = 5;

fn script(workload: Workload) -> Script {
    let mut scripts = Script::of_threads(workload, KEYS, CHECKS, SEED, 2).expect("keys");
    let mut script = scripts.swap_remove(1);
    script.redraw(|_, _| ());
    script
}

/// Allows all, and notes the texts and where they lie.
#[derive(Default)]
struct Witness(std::sync::Mutex<Vec<(String, usize)>>);

impl Contender for Witness {
    const NAME: &'static str = "witness";
    type Key = String;

    fn build(_: &Plan) -> Result<Self, Failure> {
        Ok(Self::default())
    }

    fn check(&self, key: &String) -> bool {
        self.0.lock().expect("no panic").push((key.clone(), key.as_ptr().addr()));
        true
    }

    fn admit(&self, _: &String, _: NonZeroU32) -> bool {
        true
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}

fn checked(workload: Workload) -> Vec<(String, usize)> {
    let (script, witness) = (script(workload), Witness::default());
    assert_eq!(check_all(&witness, &script), u64::from(CHECKS));
    witness.0.into_inner().expect("no panic")
}

/// The share of keys that lie within a page of the key before, and the share of keys that lie where
/// an equal one lay before.
fn nearness(checked: &[(String, usize)]) -> (f64, f64) {
    const PAGE: usize = 4_096;
    let near = checked.windows(2).filter(|pair| pair[0].1.abs_diff(pair[1].1) < PAGE).count();
    let mut places = HashMap::new();
    let again = checked
        .iter()
        .filter(|(key, place)| places.insert(key, *place).is_some_and(|other| other == *place));
    (near as f64 / checked.len() as f64, again.count() as f64 / checked.len() as f64)
}

#[test]
fn scattered_keys_lie_far_apart_and_the_others_in_their_order() {
    let [in_order, scattered] = [Workload::Zipf1M, Workload::Zipf1MScattered].map(checked);
    let texts = |checked: &[(String, usize)]| -> Vec<String> {
        checked.iter().map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(texts(&in_order), texts(&scattered));
    let (near, again) = nearness(&in_order);
    assert!(near > 0.9, "{near}");
    assert_eq!(again.to_bits(), 0_f64.to_bits(), "each check has a string of its own");
    let (near, again) = nearness(&scattered);
    assert!(near < 0.1, "{near}");
    assert!(again > 0.4, "{again}: a key has one string");

    let pool = Pool::new(KEYS, SEED);
    let string = |index| &pool.strings()[pool.place(index) as usize];
    // Frequent keys have low indexes.
    let keys = (0..KEYS as u32).map(|index| (string(index).clone(), string(index).as_ptr().addr()));
    let (near, _) = nearness(&keys.collect::<Vec<_>>());
    assert!(near < 0.1, "{near}");
}
