use super::*;

fn batch(number: u64) -> Batch {
    Batch {
        number,
        since: 0,
        at: number,
        deltas: Vec::new(),
        shifts: Vec::new(),
        message: Bytes::new(),
        before: 0,
    }
}

#[test]
fn a_trimmed_log_knows_what_it_lacks() {
    let mut log = Log::default();
    (1..=4).for_each(|number| log.push(batch(number)));
    while log.trim(3).is_some() {}
    assert_eq!(log.base(), 2);
    assert!(log.since(1).is_none());
    let numbers = |number| log.since(number).unwrap().map(|b| b.number).collect::<Vec<_>>();
    assert_eq!(numbers(2), [3, 4]);
    assert_eq!(numbers(4), []);
    assert!(log.since(5).is_none());
}

#[test]
fn a_log_knows_whether_it_ever_had_deltas() {
    let mut log = Log::default();
    log.push(batch(1));
    assert!(!log.had_deltas(), "it is empty");
    let change = super::super::change::Change::new(1, 1);
    log.push(Batch { deltas: vec![Delta { limit: 1, key: 1, change }], ..batch(2) });
    while log.trim(9).is_some() {}
    assert!(log.had_deltas());
}
