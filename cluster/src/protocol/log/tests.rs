use super::*;

#[test]
fn a_trimmed_log_knows_what_it_lacks() {
    let mut log = Log::default();
    for at in 1..=4 {
        log.push(at, vec![Delta { limit: 0, key: at, debt: 1 }]);
    }
    log.trim(3);
    assert!(log.since(1).is_none());
    assert_eq!(log.since(2).unwrap().count(), 2);
    assert_eq!(log.since(4).unwrap().count(), 0);
    assert!(log.since(5).is_none());
}
