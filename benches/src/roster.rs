//! The participants.

use crate::contenders::{
    Batch32, GovernorString, Hashing as _, Leased, Ours, Precise, Recent, Sip,
};
use crate::entrant::Entry;
use crate::failure::Failure;

/// Whether a variant of ours uses `SipHash`.
#[must_use]
pub fn is_sip(variant: &str) -> bool {
    variant.ends_with(Sip::SUFFIX)
}

/// All variants of ours.
#[must_use]
pub fn ours() -> Vec<Entry> {
    vec![
        Entry::ours::<Ours<Precise>>(),
        Entry::ours::<Ours<Recent>>(),
        Entry::ours::<Ours<Leased>>(),
        Entry::ours::<Ours<Batch32>>(),
        Entry::ours::<Ours<Precise, u64>>(),
        Entry::ours::<Ours<Precise, String, Sip>>(),
        Entry::ours::<Ours<Recent, String, Sip>>(),
        Entry::ours::<Ours<Leased, String, Sip>>(),
        Entry::ours::<Ours<Batch32, String, Sip>>(),
        Entry::ours::<Ours<Precise, u64, Sip>>(),
    ]
}

/// The limiter that ratios refer to.
#[must_use]
pub fn reference() -> Entry {
    Entry::peer::<GovernorString>()
}

/// All peers.
///
/// # Errors
/// When this program is built without them.
pub fn peers() -> Result<Vec<Entry>, Failure> {
    #[cfg(not(feature = "peers"))]
    return Err(Failure::SetUp("the peers need `--features peers` at build time".to_owned()));
    #[cfg(feature = "peers")]
    {
        use crate::contenders::{
            Bare, GovernorDirect, GovernorPresized, GovernorU64, GovernorUpkeep, LeakyBucket,
            PapayaU64, PingoraLimits, Quota, Ratelimit, SccU64, Throttlecrab,
        };
        Ok(vec![
            Entry::peer::<GovernorUpkeep>(),
            Entry::peer::<GovernorPresized>(),
            Entry::peer::<GovernorU64>(),
            Entry::peer::<GovernorDirect>(),
            Entry::peer::<PapayaU64>(),
            Entry::peer::<SccU64>(),
            Entry::peer::<Quota>(),
            Entry::peer::<Throttlecrab>(),
            Entry::peer::<PingoraLimits>(),
            Entry::peer::<LeakyBucket>(),
            Entry::peer::<Ratelimit>(),
            Entry::peer::<Bare<Precise>>(),
            Entry::peer::<Bare<Recent>>(),
            Entry::peer::<Bare<Batch32>>(),
        ])
    }
}

/// Ours, and the same limit in a cluster of one node.
///
/// # Errors
/// When this program is built without clusters.
pub fn clustered() -> Result<Vec<Entry>, Failure> {
    #[cfg(not(feature = "cluster"))]
    return Err(Failure::SetUp("a cluster needs `--features cluster` at build time".to_owned()));
    #[cfg(feature = "cluster")]
    Ok(vec![
        Entry::ours::<Ours<Precise, String, Sip>>(),
        Entry::peer::<crate::contenders::Clustered>(),
    ])
}

/// All algorithms except the usual quota for many keys, ours before the peers that have them.
///
/// # Errors
/// When this program is built without the peers.
pub fn algorithms() -> Result<Vec<Entry>, Failure> {
    #[cfg(not(feature = "peers"))]
    return Err(Failure::SetUp("the peers need `--features peers` at build time".to_owned()));
    #[cfg(feature = "peers")]
    {
        use crate::contenders::{
            Alone, GovernorDirect, GovernorU64, LeakyBucketQueue, RateGuard, Single as _,
            ThrottleNetLog, TokioSemaphore, VolgaFixedWindow, VolgaSlidingWindow, Window as _,
            Windowed,
        };
        use tidegate_engine::counter::{ShardedCounter, SlidingLog, SubWindowCounter};
        use tidegate_engine::{
            CalendarWindow, Concurrency, DirectLimiter, FixedWindow, Queue, Quota, SlidingWindow,
        };

        Ok(vec![
            Entry::algorithm::<Windowed<Quota>>(),
            Entry::peer::<GovernorU64>().set_against(Quota::NAME),
            Entry::algorithm::<Alone<DirectLimiter>>(),
            Entry::peer::<GovernorDirect>().set_against(<DirectLimiter>::NAME),
            Entry::algorithm::<Windowed<FixedWindow>>(),
            Entry::algorithm::<Windowed<CalendarWindow>>(),
            Entry::peer::<VolgaFixedWindow>(),
            Entry::algorithm::<Windowed<SlidingWindow>>(),
            Entry::peer::<VolgaSlidingWindow>(),
            Entry::algorithm::<Alone<SubWindowCounter>>(),
            Entry::algorithm::<Alone<ShardedCounter>>(),
            Entry::peer::<RateGuard>(),
            Entry::algorithm::<Alone<SlidingLog>>(),
            Entry::peer::<ThrottleNetLog>(),
            Entry::algorithm::<Alone<Queue>>(),
            Entry::peer::<LeakyBucketQueue>(),
            Entry::algorithm::<Alone<Concurrency>>(),
            Entry::peer::<TokioSemaphore>(),
        ])
    }
}

/// All participants this program is built with.
#[must_use]
pub fn all() -> Vec<Entry> {
    let mut entries = ours();
    entries.push(reference());
    entries.extend(peers().unwrap_or_default());
    entries
}

/// The variants of ours named in `variants`; if it is empty, all, or only those with the default
/// hash.
///
/// # Errors
/// When there is no such variant.
pub fn chosen_of_ours(variants: &[String], also_sip: bool) -> Result<Vec<Entry>, Failure> {
    let mut entries = ours();
    refuse_unknown(variants, &entries)?;
    entries.retain(|entry| {
        let name = entry.label.variant.as_deref().unwrap_or_default();
        if variants.is_empty() { also_sip || !is_sip(name) } else { is_named(variants, entry) }
    });
    Ok(entries)
}

/// The algorithms named in `variants` and the peers that have them; all if it is empty.
///
/// # Errors
/// When there is no such algorithm, or this program is built without the peers.
pub fn chosen_algorithms(variants: &[String]) -> Result<Vec<Entry>, Failure> {
    let mut entries = algorithms()?;
    refuse_unknown(variants, &entries)?;
    if !variants.is_empty() {
        entries.retain(|entry| match entry.against {
            // Forms of an algorithm begin with its name.
            Some(against) => variants.iter().any(|variant| variant.starts_with(against)),
            None => is_named(variants, entry),
        });
    }
    Ok(entries)
}

fn is_named(variants: &[String], entry: &Entry) -> bool {
    variants.iter().any(|variant| entry.label.variant.as_ref() == Some(variant))
}

fn refuse_unknown(variants: &[String], entries: &[Entry]) -> Result<(), Failure> {
    let known = || entries.iter().filter_map(|entry| entry.label.variant.as_deref());
    match variants.iter().find(|variant| known().all(|one| one != *variant)) {
        Some(unknown) => {
            let known = known().collect::<Vec<_>>().join(", ");
            Err(Failure::SetUp(format!("no variant is called {unknown}; there are {known}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
