//! One node and simulated peers that send what no honest one does.

use super::harness::Harness;
use super::network::MS;
use super::words::{SHORT, SLOW};
use super::world::addr;
use crate::protocol::bounds::{MAX_BATCH_DELTAS, MAX_LEVELS, MAX_ORIGINS, MAX_SHIFTS};
use crate::protocol::host::Level;
use crate::protocol::wire::{Agreement, Group, Message, Shift};
use crate::protocol::{Event, LinkId, Nanos, NodeId};

const SECOND: Nanos = 1_000 * MS;
/// Of a limit whose burst tolerance is a second.
const KEY: (u64, u64) = (SHORT, 1);
/// What it owes at most for what others send.
const MOST: Nanos = 16 * SECOND;

fn peer() -> NodeId {
    NodeId::new(addr(1), 5)
}

/// A founder, and a link on which the peer has sent `Hello`.
fn greeted() -> (Harness, LinkId) {
    let mut harness = Harness::new();
    let link = harness.greet(peer());
    harness.tick(10 * SECOND);
    (harness, link)
}

/// Changes of the key, each consumed some time before the batch.
fn changes(harness: &Harness, number: u64, changes: &[(Nanos, Nanos)]) -> Message {
    let change = |(debt, ago): &(Nanos, Nanos)| (KEY.1, debt.cast_signed(), ago.cast_signed());
    let groups = vec![Group { limit: KEY.0, changes: changes.iter().map(change).collect() }];
    Message::Batch { number, at: harness.now(), groups, levels: Agreement::default() }
}

fn agreement(harness: &Harness, number: u64, levels: Agreement) -> Message {
    Message::Batch { number, at: harness.now(), groups: Vec::new(), levels }
}

#[test]
fn many_changes_owe_no_more_than_one_may() {
    let (mut harness, link) = greeted();
    for number in 1..=3 {
        harness.deliver(link, &changes(&harness, number, &[(15 * SECOND, 0); 100]));
        assert_eq!(harness.tat(KEY), harness.now() + MOST);
    }
    assert_eq!(harness.core.stats().debts_refused, 299);
    // What a key owes here counts all the same.
    harness.admit(KEY, SECOND);
    harness.deliver(link, &changes(&harness, 4, &[(SECOND, 0)]));
    assert_eq!(harness.tat(KEY), harness.now() + MOST + SECOND);
    // What has drained makes room.
    harness.tick(3 * SECOND);
    harness.deliver(link, &changes(&harness, 5, &[(SECOND, 0)]));
    assert_eq!(harness.tat(KEY), harness.now() + MOST - SECOND);
}

/// As of nodes whose limits differ, for as long as they do.
#[test]
fn that_a_node_reports_more_than_a_key_can_owe_is_reported_once_a_minute() {
    let (mut harness, link) = greeted();
    let reported = |harness: &mut Harness, number, debt| {
        harness.deliver(link, &changes(harness, number, &[(debt, 0)]));
        let events = std::iter::from_fn(|| harness.core.poll_event());
        let refused = Event::DebtRefused { from: peer().addr };
        events.filter(|event| *event == refused).count()
    };
    assert_eq!(reported(&mut harness, 1, SECOND), 0);
    for (number, passed, expected) in [(2, 0, 1), (3, 59, 0), (4, 1, 1), (5, 1, 0)] {
        harness.tick(passed * SECOND);
        assert_eq!(reported(&mut harness, number, 2 * MOST), expected, "{number}");
    }
}

/// What comes late is held back, and applied as one.
#[test]
fn many_late_changes_owe_no_more_than_one_may() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &changes(&harness, 1, &[(MOST, 2 * SECOND); 10]));
    harness.deliver(link, &changes(&harness, 2, &[]));
    assert_eq!(harness.tat(KEY), harness.now() + MOST);
    assert!(harness.core.stats().debts_refused > 0);
}

/// What comes while a node is stale is applied in the order of dates.
#[test]
fn what_is_replayed_owes_no_more_than_one_change_may() {
    let (mut harness, link) = greeted();
    harness.admit(KEY, 12 * SECOND);
    harness.core.flush(harness.now());
    harness.pass(SECOND);
    harness.core.tick(harness.now());
    harness.deliver(link, &changes(&harness, 1, &[(15 * SECOND, 0); 9]));
    assert_eq!(harness.tat(KEY), harness.now() + MOST);
    assert_eq!(harness.core.stats().debts_refused, 1);
}

/// Else what is given back after it would be given back of what is refused.
#[test]
fn a_change_that_is_replayed_is_bounded_by_itself() {
    let (mut harness, link) = greeted();
    harness.pass(SECOND);
    harness.core.tick(harness.now());
    let given_back = -(15 * SECOND).cast_signed();
    let changes = vec![(KEY.1, i64::MAX, 0), (KEY.1, given_back, 0)];
    let groups = vec![Group { limit: KEY.0, changes }];
    let (at, levels) = (harness.now(), Agreement::default());
    harness.deliver(link, &Message::Batch { number: 1, at, groups, levels });
    assert_eq!(harness.tat(KEY), harness.now() + SECOND);
}

/// The sender has moved its own word by all of them.
#[test]
fn shifts_raise_a_word_to_what_it_may_owe_at_most() {
    // Of two nodes the one with the lower address compares.
    let peer = NodeId::new("10.0.0.1:999".parse().unwrap(), 5);
    let mut harness = Harness::new();
    let link = harness.greet(peer);
    let to = harness.core.me().origin();
    let shift = |by| Shift { to, limit: KEY.0, key: KEY.1, by };
    let up = Agreement { shifts: vec![shift(SECOND.cast_signed()); 100], ..Agreement::default() };
    harness.deliver(link, &agreement(&harness, 1, up));
    assert_eq!(harness.tat(KEY), harness.now() + MOST);
    assert_eq!(harness.core.stats().debts_refused, 84);
    // Down is no harm to anyone.
    let down = Agreement { shifts: vec![shift(-SECOND.cast_signed()); 9], ..Agreement::default() };
    harness.deliver(link, &agreement(&harness, 2, down));
    assert_eq!(harness.tat(KEY), harness.now() + MOST - 9 * SECOND);
}

/// Both halves of a move that is cut off are the same.
#[test]
fn a_level_moves_a_word_to_what_it_may_owe_at_most() {
    let (mut harness, inbound) = greeted();
    let link = harness.welcome(peer());
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    harness.admit(KEY, SECOND);
    harness.core.flush(harness.now());
    let before = harness.tat(KEY);
    let mut asked = 0;
    for number in 1..=40 {
        let levels = vec![Level { limit: KEY.0, key: KEY.1, debt: 1_000 * SECOND }];
        let cut = vec![(harness.core.me().origin(), 1)];
        let levels = Agreement { cut, levels, ..Agreement::default() };
        harness.deliver(inbound, &agreement(&harness, number, levels));
        harness.tick(20 * MS);
        for message in harness.answers(link) {
            if let Message::Batch { levels, .. } = message {
                asked += levels.shifts.iter().map(|shift| shift.by).sum::<i64>();
            }
        }
    }
    assert!(harness.tat(KEY) <= harness.now() + MOST);
    assert!(harness.core.stats().debts_refused > 0);
    assert_eq!(asked, before.cast_signed() - harness.tat(KEY).cast_signed());
}

/// Messages with some more elements than a node sends of one kind.
fn oversized(harness: &Harness, more: usize) -> Vec<(&'static str, Message)> {
    let (origin, now) = (peer().origin(), harness.now());
    let changes = vec![(1, 1, 0); MAX_BATCH_DELTAS + more];
    let one = vec![Group { limit: SHORT, changes }];
    let many = vec![Group { limit: SHORT, changes: Vec::new() }; MAX_BATCH_DELTAS + more];
    let level = Level { limit: SHORT, key: 1, debt: 1 };
    let shift = Shift { to: origin, limit: SHORT, key: 1, by: 1 };
    let [mut cut, mut levels, mut shifts] = [(); 3].map(|()| Agreement::default());
    cut.cut = vec![(origin, 0); MAX_ORIGINS + more];
    levels.levels = vec![level; MAX_LEVELS + more];
    shifts.shifts = vec![shift; MAX_SHIFTS + more];
    let batch = |groups, levels| Message::Batch { number: 1, at: now, groups, levels };
    let missed = |groups| Message::Missed { to: 9, at: now, upto: None, groups };
    vec![
        ("changes", batch(one.clone(), Agreement::default())),
        ("groups", batch(many.clone(), Agreement::default())),
        ("cut", batch(Vec::new(), cut)),
        ("levels", batch(Vec::new(), levels)),
        ("shifts", batch(Vec::new(), shifts)),
        ("changes of a part", missed(one)),
        ("groups of a part", missed(many)),
    ]
}

#[test]
fn more_than_a_node_sends_in_a_message_is_a_violation() {
    for more in [0, 1] {
        for (kind, message) in oversized(&Harness::new(), more) {
            let (mut harness, link) = greeted();
            harness.deliver(link, &message);
            assert_eq!(harness.core.stats().violations, more as u64, "{kind}");
        }
        let state = Message::State { request: 1, vector: vec![(peer().origin(), 1); 513 + more] };
        let entries = vec![Level { limit: SHORT, key: 1, debt: 1 }; MAX_BATCH_DELTAS + more];
        for message in [state, Message::StateChunk { last: false, entries }] {
            let (mut harness, _) = greeted();
            let link = harness.welcome(peer());
            harness.deliver(link, &message);
            assert_eq!(harness.core.stats().violations, more as u64, "{message:?}");
        }
    }
}

/// Levels of a key in debt, with the cut that says how much of this node's they contain.
fn levels(harness: &Harness, number: u64, contained: u64, times: usize) -> Message {
    let level = Level { limit: SLOW, key: 1, debt: 900 * SECOND };
    let cut = vec![(harness.core.me().origin(), contained)];
    let levels = Agreement { cut, levels: vec![level; times], ..Agreement::default() };
    agreement(harness, number, levels)
}

/// A node that compares the levels of a peer, and how many it has.
fn compared() -> (Harness, LinkId, u64) {
    let (mut harness, inbound) = greeted();
    let link = harness.welcome(peer());
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    harness.admit((SLOW, 1), 900 * SECOND);
    harness.core.flush(harness.now());
    for number in 1..=3 {
        harness.deliver(inbound, &levels(&harness, number, 1, 1));
        harness.tick(20 * MS);
    }
    let compared = harness.core.stats().levels_compared;
    assert!(compared > 0);
    (harness, inbound, compared)
}

#[test]
fn of_several_levels_of_a_key_one_is_compared() {
    let (mut harness, link, before) = compared();
    harness.deliver(link, &levels(&harness, 4, 1, 100));
    harness.tick(20 * MS);
    assert_eq!(harness.core.stats().levels_compared, before + 1);
}

/// All that this node has sent since would be looked through.
#[test]
fn no_level_is_compared_at_an_old_cut() {
    for (passed, is_compared) in [(SECOND, true), (3 * SECOND, false)] {
        let (mut harness, link, before) = compared();
        harness.admit((SLOW, 1), SECOND);
        harness.core.flush(harness.now());
        harness.tick(passed);
        harness.deliver(link, &levels(&harness, 4, 1, 1));
        harness.tick(20 * MS);
        assert_eq!(harness.core.stats().levels_compared, before + u64::from(is_compared));
    }
}
