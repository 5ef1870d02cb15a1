use std::collections::HashSet;

use super::*;
use crate::first_checks::{self, Amount};
use crate::runner::{self, Settings};
use crate::workloads::Workload;

#[test]
fn labels_differ() {
    let labels: HashSet<_> = all().iter().map(|entry| entry.label.to_string()).collect();
    assert_eq!(labels.len(), all().len());
}

#[test]
fn every_peer_names_a_variant_of_ours_to_be_set_against() {
    let known: Vec<_> = ours().into_iter().filter_map(|entry| entry.label.variant).collect();
    for entry in all() {
        match entry.against {
            None => assert!(entry.label.variant.is_some(), "{}", entry.label),
            Some(variant) => assert!(known.iter().any(|one| one == variant), "{}", entry.label),
        }
    }
}

#[test]
fn variants_are_chosen_by_name_and_refused_if_unknown() {
    let names = |entries: Vec<Entry>| -> Vec<_> {
        entries.into_iter().filter_map(|entry| entry.label.variant).collect()
    };
    let given = ["recent-sip".to_owned(), "precise".to_owned()];
    assert_eq!(names(chosen_of_ours(&given, false).expect("known")), ["precise", "recent-sip"]);
    let quick = names(chosen_of_ours(&[], false).expect("known"));
    assert_eq!(quick, ["precise", "recent", "leased", "batch32", "precise-u64"]);
    assert_eq!(chosen_of_ours(&[], true).expect("known").len(), ours().len());
    assert!(chosen_of_ours(&["hasty".to_owned()], false).is_err());
}

#[cfg(feature = "peers")]
#[test]
fn every_algorithm_is_compared_with_a_peer_and_every_peer_with_an_algorithm() {
    let entries = algorithms().expect("built with the peers");
    let (ours, peers): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry.label.variant.is_some());
    let against =
        |one: &Entry, peer: &Entry| crate::reference::is_against(&one.label, peer.against);
    for one in &ours {
        assert!(peers.iter().any(|peer| against(one, peer)), "{}", one.label);
    }
    for peer in &peers {
        assert!(ours.iter().any(|one| against(one, peer)), "{}", peer.label);
    }
}

#[cfg(feature = "peers")]
#[test]
fn algorithms_are_chosen_with_the_peers_that_have_them() {
    let labels = |variants: &[&str]| -> Vec<String> {
        let variants: Vec<_> = variants.iter().map(|&variant| variant.to_owned()).collect();
        let entries = chosen_algorithms(&variants).expect("known");
        entries.into_iter().map(|entry| entry.label.to_string()).collect()
    };
    assert_eq!(labels(&["single"]), ["ours single", "governor-direct"]);
    assert_eq!(
        labels(&["fixed-window-u64-calendar"]),
        ["ours fixed-window-u64-calendar", "volga-fixed-window"]
    );
    assert_eq!(labels(&[]).len(), algorithms().expect("built with the peers").len());
    assert!(chosen_algorithms(&["precise".to_owned()]).is_err());
}

/// Every claim of every workload holds for all participants.
#[test]
fn every_contender_can_do_what_it_takes_part_in() {
    let named = |workload| {
        let mut present = all();
        present.retain(|entry| (entry.absence)(workload).is_none());
        assert!(present.iter().any(|entry| entry.label == reference().label), "{workload:?}");
        present
    };
    run_all(&Workload::ALL, named);
}

#[cfg(feature = "peers")]
#[test]
fn every_algorithm_can_do_what_it_takes_part_in() {
    let mut workloads = Workload::ALL.to_vec();
    workloads.retain(|workload| workload.is_repeated());
    run_all(&workloads, |workload| {
        let mut present = algorithms().expect("built with the peers");
        present.retain(|entry| (entry.absence)(workload).is_none());
        present
    });
}

fn run_all(workloads: &[Workload], present_in: impl Fn(Workload) -> Vec<Entry>) {
    for &workload in workloads {
        let present = present_in(workload);
        if workload == Workload::NewKey {
            for (entry, threads) in present.iter().flat_map(|entry| [(entry, 1), (entry, 2)]) {
                first_checks::measure(entry, Amount { threads, checks: 2_000 })
                    .unwrap_or_else(|error| panic!("{}: {error}", entry.label));
            }
        } else {
            let keys = if workload.is_hot() { 1 } else { 2_000 };
            let settings = Settings { threads: vec![1, 2], runs: 2, checks: 640, keys, seed: 3 };
            runner::run(workload, &settings, &present, |_, measured| {
                assert_eq!(measured.len(), present.len());
            })
            .unwrap_or_else(|error| panic!("{workload:?}: {error}"));
        }
    }
}
