//! Which denials count as strikes, and how strikes protect a key.

use crate::base::key::{KeyHash, KeyHasher};
use crate::base::word::Update;
use crate::rule::gcra::Tat;
use crate::table::Table;
use crate::table::bits::{Generation, Word};
use crate::table::overflow::OverflowPolicy;

use super::*;

const NOW: u64 = 1_000;

fn keys(count: u64) -> impl Iterator<Item = KeyHash> {
    let hasher = KeyHasher::rapid(11);
    (0..count).map(move |key| hasher.hash_u64(key))
}

fn set(table: &Table<Tat>, key: KeyHash, value: u64) -> Update {
    table.home(key).update(NOW, || NOW, |_, _| Some(value))
}

fn strikes(table: &Table<Tat>, key: KeyHash) -> u32 {
    let slots = table.lines.all().iter().flat_map(|line| &line.slots);
    let mut tags = slots.map(|slot| Tag(slot.tag.load(Ordering::Relaxed)));
    tags.find(|tag| tag.names(key)).map_or(0, Tag::strikes)
}

#[test]
fn three_strikes_take_some_hundred_denials() {
    const KEYS: u64 = 400;
    let mut denials = [0; STRIKES_MAX as usize];
    for (index, key) in keys(KEYS).enumerate() {
        let table = Table::with_lines(1, Tat).unwrap();
        set(&table, key, NOW);
        for now in (0..).map(|step| NOW + index as u64 + step * 1_000_000) {
            let before = strikes(&table, key);
            if before == STRIKES_MAX {
                break;
            }
            denials[before as usize] += 1;
            table.home(key).strike(now);
            assert!(strikes(&table, key) - before <= 1);
        }
    }
    assert_eq!(denials[0], KEYS, "the first denial is one");
    let [_, second, third] = denials.map(|denials| denials / KEYS);
    assert!((13..20).contains(&second), "{second} denials for the second strike");
    assert!((210..310).contains(&third), "{third} denials for the third strike");
}

#[test]
fn keys_that_were_denied_more_give_way_later() {
    let table = Table::with_lines(1, Tat).unwrap();
    let all: Vec<_> = keys(6).collect();
    for (key, debt) in all.iter().zip([10, 20, 30, 40]) {
        set(&table, *key, NOW + debt);
    }
    table.home(all[0]).strike(NOW);
    set(&table, all[4], NOW + 50);
    set(&table, all[5], NOW + 60);
    let values = [0, 1, 2, 3].map(|index| table.home(all[index]).update(NOW, || NOW, |_, _| None));
    let found = [NOW + 10, 0, 0, NOW + 40];
    assert_eq!(values, found.map(|found| Update::Unchanged { found, now: NOW }));
    assert_eq!(strikes(&table, all[4]), 0, "a label begins without strikes");
}

#[test]
fn only_a_crowded_table_is_pressed() {
    let table = Table::new(400_000, Tat).unwrap();
    let half = table.capacity() as u64 / 2;
    for key in keys(half) {
        set(&table, key, NOW + 1);
    }
    assert!(!table.is_pressed());
    for key in keys(3 * half) {
        set(&table, key, NOW + 1);
    }
    assert!(table.is_pressed());
}

#[test]
fn a_delayed_thread_sees_the_place_that_has_become_free() {
    for policy in [OverflowPolicy::Deny, OverflowPolicy::Allow] {
        let table = Table::with_lines(1, Tat).unwrap().with_policy(policy);
        let all: Vec<_> = keys(5).collect();
        for (key, debt) in all.iter().zip([40, 10, 30, 20]) {
            set(&table, *key, NOW + debt);
        }
        let update = |reread| table.home(all[4]).update(NOW, || reread, |_, now| Some(now + 1));
        let admitted = policy == OverflowPolicy::Allow;
        let full = Update::Full { fresh_from: NOW + 10, now: NOW + 9, admitted };
        assert_eq!(update(NOW + 9), full);
        assert_eq!(update(NOW + 10), Update::Written { before: 0, now: NOW + 10 });
        assert_eq!(table.evicted(), 0);
    }
}

#[test]
fn a_table_is_pressed_before_it_evicts() {
    let table = Table::with_lines(4, Tat).unwrap();
    let mut pressed = false;
    for key in keys(17) {
        assert_eq!(table.evicted(), 0);
        pressed = table.is_pressed();
        set(&table, key, NOW + 1);
    }
    assert_eq!(table.evicted(), 1, "the last key found no room");
    assert!(pressed, "denials were counted when it came");
}

/// A withdrawn claim leaves its label, here in front of the key's own slot.
#[test]
fn a_label_left_behind_takes_no_strike() {
    let table = Table::with_lines(1, Tat).unwrap();
    let all: Vec<_> = keys(2).collect();
    set(&table, all[0], NOW + 1);
    set(&table, all[1], NOW + 2);
    let [stale, own, ..] = &table.lines.line(table.lines.place(all[1]), 0).slots;
    assert!(Tag(own.tag.load(Ordering::Relaxed)).names(all[1]));
    let left = Tag::new(all[1], 0, Generation::default().next());
    stale.tag.store(left.0, Ordering::Relaxed);
    let free = Word::intent(all[1], Generation::default().next()).withdrawn();
    stale.word.store(free.0, Ordering::Relaxed);
    table.home(all[1]).strike(NOW);
    assert_eq!(Tag(stale.tag.load(Ordering::Relaxed)).strikes(), 0);
    assert_eq!(Tag(own.tag.load(Ordering::Relaxed)).strikes(), 1);
    assert_eq!(
        table.home(all[1]).update(NOW, || NOW, |_, _| None),
        Update::Unchanged { found: NOW + 2, now: NOW }
    );
}
