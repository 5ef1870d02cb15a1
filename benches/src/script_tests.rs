use super::*;

const KEYS: usize = 20_000;
const CHECKS: u32 = 10_000;
const SEED: u64 = 5;

fn script(workload: Workload) -> Script {
    let mut scripts = Script::of_threads(workload, KEYS, CHECKS, SEED, 2).expect("keys");
    let mut script = scripts.swap_remove(1);
    script.redraw(|_, _| ());
    script
}

#[test]
fn scattered_keys_are_the_same_ones_in_the_same_order() {
    let scripts = [Workload::Zipf1M, Workload::Zipf1MScattered].map(script);
    let indexes = scripts.each_ref().map(|script| script.indexes().collect::<Vec<_>>());
    assert_eq!(indexes[0], indexes[1]);
    let Some(Scattered { pool, places }) = &scripts[1].scattered else { panic!("scattered") };
    let numbers = places.iter().map(|place| pool.numbers()[*place as usize]);
    assert_eq!(numbers.collect::<Vec<_>>(), scripts[0].numbers);
}

#[test]
fn a_pool_has_each_key_once() {
    let pool = Pool::new(KEYS, SEED);
    for index in 0..KEYS as u32 {
        let place = pool.place(index) as usize;
        assert_eq!(pool.strings()[place], key_of(index));
        assert_eq!(pool.numbers()[place], u64::from(index));
    }
}
