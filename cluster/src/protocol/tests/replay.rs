//! Levels among what is applied in order at the end of a stop.

use super::harness::Harness;
use super::words::{LARGE, SLOW, SMALL};
use super::world::addr;
use crate::inline;
use crate::protocol::host::Level;
use crate::protocol::wire::{Agreement, Group, Message};
use crate::protocol::{LinkId, Nanos, NodeId, Origin};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
/// A unit of a limit that drains no key in a test.
const UNIT: Nanos = 60 * SECOND;
const KEY: (u64, u64) = (SLOW, 1);

fn peer(place: usize) -> NodeId {
    NodeId::new(addr(place), 5)
}

fn origin(place: usize) -> Origin {
    peer(place).origin()
}

/// A founder that was stopped for a second, with links on which two peers send frames.
fn stopped() -> (Harness, [LinkId; 2]) {
    let mut harness = Harness::new();
    let links = [1, 2].map(|place| harness.greet(peer(place)));
    harness.tick(10 * SECOND);
    harness.pass(SECOND);
    harness.core.tick(harness.now());
    (harness, links)
}

/// A batch that was sealed some time ago, of what was consumed `before` that.
fn batch(
    harness: &Harness,
    number: u64,
    ago: Nanos,
    consumed: &[((u64, u64), Nanos, Nanos)],
    levels: Agreement,
) -> Message {
    let group = |((limit, key), debt, before): &((u64, u64), Nanos, Nanos)| Group {
        limit: *limit,
        changes: vec![(*key, debt.cast_signed(), before.cast_signed())],
    };
    let groups = consumed.iter().map(group).collect();
    Message::Batch { number, at: harness.now() - ago, groups, levels }
}

fn level((limit, key): (u64, u64), debt: Nanos, cut: &[(Origin, u64)]) -> Agreement {
    Agreement {
        cut: cut.to_vec(),
        levels: vec![Level { limit, key, debt }],
        ..Agreement::default()
    }
}

/// The node has caught up with both.
fn end(harness: &mut Harness, links: [(LinkId, u64); 2]) {
    for (link, number) in links {
        let fresh = batch(harness, number, 0, &[], Agreement::default());
        harness.deliver(link, &fresh);
    }
    assert!(harness.core.current_until() > 0);
}

/// Units that a key owes, rounded up.
fn units(harness: &Harness, id: (u64, u64)) -> u64 {
    harness.tat(id).saturating_sub(harness.now()).div_ceil(UNIT)
}

/// A node that has taken over a state knows no quota of its keys, and sends levels under none.
#[test]
fn a_level_is_of_a_word_whatever_quota_came_with_a_check() {
    let (mut harness, links) = stopped();
    let id = (inline::id(10_000 * UNIT, UNIT), 1);
    let consumed = batch(&harness, 1, SECOND / 2, &[(id, 10 * UNIT, 0)], Agreement::default());
    harness.deliver(links[0], &consumed);
    let sent = level((0, id.1), 10 * UNIT, &[(origin(1), 1)]);
    let sent = batch(&harness, 1, SECOND / 4, &[], sent);
    harness.deliver(links[1], &sent);
    end(&mut harness, [(links[0], 2), (links[1], 2)]);
    assert_eq!(units(&harness, id), 10);
}

/// The clock of a node that has just opened a link is read by a round trip that contains a stop.
#[test]
fn a_level_that_is_dated_too_early_contains_what_its_cut_does() {
    let (mut harness, links) = stopped();
    // Two units are of before the stop, and forgotten here.
    let sent = level(KEY, 12 * UNIT, &[(origin(1), 1)]);
    let sent = batch(&harness, 1, SECOND / 2, &[], sent);
    harness.deliver(links[1], &sent);
    let consumed = batch(&harness, 1, SECOND / 4, &[(KEY, 10 * UNIT, 0)], Agreement::default());
    harness.deliver(links[0], &consumed);
    // This is not in the level.
    let more = batch(&harness, 2, SECOND / 5, &[(KEY, UNIT, 0)], Agreement::default());
    harness.deliver(links[0], &more);
    end(&mut harness, [(links[0], 3), (links[1], 2)]);
    assert_eq!(units(&harness, KEY), 13);
}

/// Of what waited to be sent the date is that of the first.
#[test]
fn a_level_from_within_the_span_of_a_change_adds_nothing_to_it() {
    for contained in [0, 4] {
        let (mut harness, links) = stopped();
        let sent = level(KEY, (3 + contained) * UNIT, &[(origin(1), 1)]);
        let sent = batch(&harness, 1, SECOND / 2, &[], sent);
        harness.deliver(links[1], &sent);
        for (number, ago, units, before) in [(1, 700, 3, 0), (2, 100, 10, 600 * MS)] {
            let consumed = [(KEY, units * UNIT, before)];
            let consumed = batch(&harness, number, ago * MS, &consumed, Agreement::default());
            harness.deliver(links[0], &consumed);
        }
        end(&mut harness, [(links[0], 3), (links[1], 2)]);
        assert_eq!(units(&harness, KEY), 13);
    }
}

/// A peer is silent for as long as a node waits; what it has sent comes after that.
#[test]
fn a_level_waits_for_what_it_contains_or_counts_for_nothing() {
    let (mut harness, links) = stopped();
    let sent = level(KEY, 10 * UNIT, &[(origin(1), 1)]);
    let sent = batch(&harness, 1, SECOND / 2, &[], sent);
    harness.deliver(links[1], &sent);
    harness.tick(1_001 * MS);
    assert!(harness.core.current_until() > 0);
    let link = harness.greet(peer(1));
    let consumed = batch(&harness, 1, 2 * SECOND, &[(KEY, 10 * UNIT, 0)], Agreement::default());
    harness.deliver(link, &consumed);
    assert_eq!(units(&harness, KEY), 10);
}

/// Of the batches that it is of, the other node may have had the first ones.
#[test]
fn a_level_may_contain_a_part_of_a_backlog() {
    let (mut harness, links) = stopped();
    let sent = level(KEY, 10 * UNIT, &[(origin(1), 3)]);
    let sent = batch(&harness, 1, SECOND / 2, &[], sent);
    harness.deliver(links[1], &sent);
    let part = harness.part(9, KEY, (10 * UNIT).cast_signed());
    harness.deliver(links[0], &part);
    end(&mut harness, [(links[0], 10), (links[1], 2)]);
    assert_eq!(units(&harness, KEY), 10);
}

/// Of more keys than are kept, a batch is applied as a whole: after its first keys a level that
/// contains it would count, and then what it consumed would come on top.
#[test]
fn a_level_does_not_count_within_a_batch_that_it_contains() {
    let (mut harness, links) = stopped();
    let of =
        |keys: std::ops::Range<u64>| keys.map(|key| ((SLOW, key), UNIT, 0)).collect::<Vec<_>>();
    for (number, keys) in [(1, 10_000..10_500), (2, 11_000..11_500)] {
        let consumed = batch(&harness, number, SECOND / 2, &of(keys), Agreement::default());
        harness.deliver(links[0], &consumed);
    }
    let sent = level(KEY, 10 * UNIT, &[(origin(1), 3)]);
    let sent = batch(&harness, 1, SECOND / 4, &[], sent);
    harness.deliver(links[1], &sent);
    let mut last = of(12_000..12_050);
    last.push((KEY, 10 * UNIT, 0));
    let last = batch(&harness, 3, SECOND / 3, &last, Agreement::default());
    harness.deliver(links[0], &last);
    end(&mut harness, [(links[0], 4), (links[1], 2)]);
    assert_eq!(units(&harness, KEY), 10);
}

/// The next level of the same node contains it.
#[test]
fn what_is_given_back_stays_so_whatever_a_node_sends_that_does_not_know_of_it() {
    let given_back = [(KEY, 10 * UNIT, 0)];
    for known in [false, true] {
        let (mut harness, links) = stopped();
        let consumed = batch(&harness, 1, 600 * MS, &given_back, Agreement::default());
        harness.deliver(links[0], &consumed);
        let mut reset = batch(&harness, 2, 300 * MS, &given_back, Agreement::default());
        let Message::Batch { groups, .. } = &mut reset else { unreachable!() };
        groups[0].changes[0].1 *= -1;
        harness.deliver(links[0], &reset);
        let sent = level(KEY, 10 * UNIT, &[(origin(1), 1 + u64::from(known))]);
        let sent = batch(&harness, 1, 250 * MS, &[], sent);
        harness.deliver(links[1], &sent);
        end(&mut harness, [(links[0], 3), (links[1], 2)]);
        assert_eq!(units(&harness, KEY), if known { 10 } else { 0 });
    }
}

/// The level was under way to this node as it was stopped, for longer than batches are kept.
#[test]
fn what_was_given_back_before_a_stop_stays_so() {
    for known in [false, true] {
        let mut harness = Harness::new();
        let links = [1, 2].map(|place| harness.greet(peer(place)));
        harness.tick(10 * SECOND);
        let change = |harness: &mut Harness, number, debt: Nanos, sign: i64| {
            let consumed = [(KEY, debt, 0)];
            let mut message = batch(harness, number, 0, &consumed, Agreement::default());
            let Message::Batch { groups, .. } = &mut message else { unreachable!() };
            groups[0].changes[0].1 *= sign;
            harness.deliver(links[0], &message);
            harness.tick(20 * MS);
        };
        change(&mut harness, 1, 10 * UNIT, 1);
        change(&mut harness, 2, 10 * UNIT, -1);
        harness.pass(3 * SECOND);
        harness.core.tick(harness.now());
        let sent = level(KEY, 10 * UNIT, &[(origin(1), 1 + u64::from(known))]);
        let sent = batch(&harness, 1, 3_020 * MS, &[], sent);
        harness.deliver(links[1], &sent);
        end(&mut harness, [(links[0], 3), (links[1], 2)]);
        assert_eq!(units(&harness, KEY), if known { 10 } else { 0 });
    }
}

/// It was under way when this node was stopped, or waited to be sent; to a node that lags longer
/// than usual.
#[test]
fn what_this_node_gives_back_stays_so_whatever_a_node_sends_that_does_not_know_of_it() {
    for (known, before_the_stop) in [(false, 0), (true, 0), (false, 3 * SECOND)] {
        let mut harness = Harness::new();
        let links = [1, 2].map(|place| harness.greet(peer(place)));
        harness.tick(10 * SECOND);
        harness.admit(KEY, 10 * UNIT);
        harness.core.recorded(harness.now());
        harness.tick(SECOND);
        harness.use_after_drain(KEY, -(10 * UNIT).cast_signed());
        for _ in 0..2 {
            harness.core.recorded(harness.now());
            harness.tick(100 * MS);
        }
        assert_eq!(units(&harness, KEY), 0);
        harness.tick(before_the_stop);
        harness.pass(SECOND);
        harness.core.tick(harness.now());
        let me = harness.core.me().origin();
        let sent = level(KEY, 10 * UNIT, &[(me, if known { 9 } else { 1 })]);
        let sent = batch(&harness, 1, 250 * MS, &[], sent);
        harness.deliver(links[1], &sent);
        end(&mut harness, [(links[0], 1), (links[1], 2)]);
        assert_eq!(units(&harness, KEY), if known { 10 } else { 0 });
    }
}

/// What of it such a level contains cannot be known.
#[test]
fn what_waits_is_sent_with_a_level_of_its_word_under_another_quota() {
    let mut harness = Harness::new();
    let (link, inbound) = {
        let inbound = harness.greet(peer(1));
        (harness.welcome(peer(1)), inbound)
    };
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    harness.tick(10 * SECOND);
    harness.admit((LARGE, 1), UNIT);
    harness.core.recorded(harness.now());
    harness.tick(300 * MS);
    let has_sent = |harness: &mut Harness| {
        let batches = harness.answers(link).into_iter().filter_map(|message| match message {
            Message::Batch { groups, levels, .. } => Some((groups, levels.levels)),
            _ => None,
        });
        let (groups, levels): (Vec<_>, Vec<_>) = batches.unzip();
        let is_sent = groups.iter().flatten().any(|group| group.limit == LARGE);
        (is_sent, levels.iter().flatten().any(|level| level.limit == SMALL))
    };
    assert_eq!(has_sent(&mut harness), (false, false), "it waits");
    let consumed = batch(&harness, 1, 0, &[((SMALL, 1), MS, 0)], Agreement::default());
    harness.deliver(inbound, &consumed);
    harness.tick(300 * MS);
    assert_eq!(has_sent(&mut harness), (true, true));
}

/// Others know of the whole word then, and of what the urgent quota lets it admit.
#[test]
fn what_waits_is_sent_with_what_is_urgent_of_its_word_under_another_quota() {
    let mut harness = Harness::new();
    harness.greet(peer(1));
    let link = harness.welcome(peer(1));
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    harness.tick(10 * SECOND);
    harness.admit((LARGE, 1), UNIT);
    harness.core.recorded(harness.now());
    harness.tick(50 * MS);
    let sent = |harness: &mut Harness| {
        let groups = harness.answers(link).into_iter().filter_map(|message| match message {
            Message::Batch { groups, .. } => Some(groups),
            _ => None,
        });
        groups.flatten().map(|group| group.limit).collect::<Vec<_>>()
    };
    assert_eq!(sent(&mut harness), [], "it waits");
    let mut both = [LARGE, SMALL];
    both.sort_unstable();
    // What waited, and then what the same flush has.
    for _ in 0..2 {
        harness.admit((SMALL, 1), MS);
        harness.core.recorded(harness.now());
        harness.tick(50 * MS);
        let mut sent = sent(&mut harness);
        sent.sort_unstable();
        assert_eq!(sent, both);
        harness.admit((LARGE, 1), UNIT);
    }
}
