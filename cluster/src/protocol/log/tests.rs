use super::*;
use crate::protocol::bounds::VERSION;
use crate::protocol::change::Change;
use crate::protocol::host::Level;
use crate::protocol::id::NodeId;
use crate::protocol::wire::{Shift, decode_as};

fn batch(number: u64) -> Batch {
    Batch::new(number, (0, number), Vec::new(), Agreement::default())
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
    let change = Change::new(1, 1);
    log.push(Batch { deltas: vec![Delta { limit: 1, key: 1, change }], ..batch(2) });
    while log.trim(9).is_some() {}
    assert!(log.had_deltas());
}

#[test]
fn every_batch_is_found_that_is_kept() {
    let mut log = Log::default();
    (1..=4).for_each(|number| log.push(batch(number)));
    while log.trim(3).is_some() {}
    let found: Vec<_> = (0..=5).map(|n| log.get_mut(n).map(|batch| batch.number)).collect();
    assert_eq!(found, [None, None, None, Some(3), Some(4), None]);
}

#[test]
fn a_batch_is_encoded_once_and_keeps_its_moves() {
    let (change, id) = (Change::new(5, 90), NodeId::new(([10, 0, 0, 1], 1).into(), 1));
    let shift = Shift { to: id.origin(), limit: 1, key: 2, by: -4 };
    let level = Level { limit: 1, key: 2, debt: 3 };
    let levels = Agreement { levels: vec![level], shifts: vec![shift], ..Agreement::default() };
    let deltas = vec![Delta { limit: 1, key: 2, change }];
    let mut batch = Batch::new(3, (80, 100), deltas, levels.clone());
    assert!(batch.message_as(VERSION, VERSION).is_none(), "no peer was sent it");
    assert_eq!(batch.encode(VERSION), 0);
    let bytes = batch.message_as(VERSION, VERSION).unwrap();
    let groups = wire::group(&batch.deltas, 100);
    let sent = Message::Batch { number: 3, at: 100, groups, levels };
    assert_eq!(decode_as(VERSION, &bytes).unwrap(), sent);
    assert_eq!(batch.levels, Agreement { shifts: vec![shift], ..Agreement::default() });
    assert_eq!(batch.encode(VERSION), 0);
    assert_eq!(batch.message_as(VERSION, VERSION).unwrap(), bytes);
}
