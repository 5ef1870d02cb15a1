//! Mutation testing by hand-written mutations: `.ci/mutations.d` lists single breakages of the
//! product, each with the test or model that must turn red.
//!
//! `.ci/mutations [--fit | --all | --changed] [--record] [--share N] [--workers N] [NAME...]`
//!
//! Without a choice it replays what changed since it was recorded as red, and one in `N` (20) of
//! the rest, others at each commit: those that are built alike, as a first build takes longer than
//! the replays.
#![forbid(unsafe_code)]

mod arguments;
mod cargo;
mod fit;
mod list;
mod lock;
mod narrow;
mod record;
mod replay;
mod sources;
mod target;

use std::env;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Mutex;

use arguments::{Arguments, Choice};
use fit::Fitted;
use record::{Hashes, Recorded, is_due};
use replay::{Outcome, Replayed, Workshop, replay};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the lists fit and what was replayed turned red.
fn run() -> Result<bool, String> {
    let arguments = Arguments::parse(env::args().skip(1))?;
    let root = env::current_dir().map_err(|error| error.to_string())?;
    let fitted = match fit::fit(&root, list::load(&root)?) {
        Ok(fitted) => fitted,
        Err(wrong) => {
            println!("{}", wrong.join("\n"));
            return Ok(false);
        }
    };
    if arguments.choice == Choice::Fit {
        return Ok(true);
    }
    let mut hashes = Hashes::new(&root);
    let all: io::Result<Vec<_>> = fitted.iter().map(|one| Ok((one, hashes.of(one)?))).collect();
    let all = all.map_err(|error| error.to_string())?;
    let mut recorded = Recorded::load(&root).map_err(|error| error.to_string())?;
    recorded.keep(|name| fitted.iter().any(|one| one.mutation.name == name));
    let chosen = choose(&arguments, &all, &recorded, commits(&root))?;
    let skipped = all.iter().filter(|(one, hash)| recorded.is(&one.mutation.name, hash));
    let skipped =
        skipped.filter(|(one, _)| !chosen.iter().any(|(chosen, _)| std::ptr::eq(*chosen, *one)));
    let skipped = skipped.count();
    let record = arguments.record.then_some(recorded);
    let missed = replay_all(&root, &arguments, &chosen, record)?;
    let (replayed, count) = (chosen.len(), missed.len());
    println!("{replayed} replayed, {skipped} skipped (unchanged), {count} missed");
    if !missed.is_empty() {
        println!("missed: {}", missed.join(" "));
    }
    Ok(missed.is_empty())
}

type Hashed<'a> = (&'a Fitted, String);

/// What is replayed, of all.
fn choose<'a>(
    arguments: &Arguments,
    all: &[Hashed<'a>],
    recorded: &Recorded,
    commits: u64,
) -> Result<Vec<Hashed<'a>>, String> {
    let mut places: Vec<_> = (0..all.len()).collect();
    places.sort_by_key(|place| {
        let one = &all[*place].0;
        (&one.target.build, &one.mutation.file, &one.mutation.name)
    });
    let cost = all.iter().map(|(one, _)| one.target.cost()).sum();
    let mut before = 0;
    let chosen = |(one, hash): &Hashed<'a>| {
        let name = one.mutation.name.as_str();
        let has_changed = !recorded.is(name, hash);
        let start = before;
        before += one.target.cost();
        match &arguments.choice {
            Choice::Fit => false,
            Choice::All => true,
            Choice::Changed => has_changed,
            Choice::Share(share) => has_changed || is_due(start, cost, *share, commits),
            Choice::Named(names) => names.contains(name),
        }
        .then(|| (*one, hash.clone()))
    };
    if let Choice::Named(names) = &arguments.choice {
        let is_unknown = |name: &&String| !all.iter().any(|(one, _)| one.mutation.name == **name);
        let unknown: Vec<_> = names.iter().filter(is_unknown).map(String::as_str).collect();
        if !unknown.is_empty() {
            return Err(format!("no mutation is called {}", unknown.join(", ")));
        }
    }
    Ok(places.into_iter().map(|place| &all[place]).filter_map(chosen).collect())
}

/// Replays and says what became of each; those that were missed.
fn replay_all(
    root: &Path,
    arguments: &Arguments,
    chosen: &[Hashed<'_>],
    record: Option<Recorded>,
) -> Result<Vec<String>, String> {
    let failed = |error: io::Error| error.to_string();
    if let Some(recorded) = &record {
        recorded.save(root).map_err(failed)?;
    }
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let state = Mutex::new((Vec::new(), record, Ok(())));
    let report = |fitted: &Fitted, replayed: Replayed| {
        let mut state = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (missed, record, saved) = &mut *state;
        let is_red = say(fitted, &replayed);
        if !is_red {
            missed.push(fitted.mutation.name.clone());
        }
        let hash = chosen.iter().find(|(one, _)| std::ptr::eq(*one, fitted)).map(|(_, hash)| hash);
        if let (Some(recorded), Some(hash)) = (record, hash) {
            recorded.set(&fitted.mutation.name, hash, is_red);
            // At once, so that an interrupted run keeps what it has found.
            *saved = recorded.save(root);
        }
    };
    let workshop = Workshop::open(root).map_err(failed)?;
    let all = chosen.iter().map(|(one, _)| *one).collect();
    replay(root, &workshop, all, arguments.workers, report).map_err(failed)?;
    drop(workshop);
    let (missed, _, saved) = state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    saved.map_err(failed)?;
    Ok(missed)
}

/// One line for what turned red, more for what did not; whether it did.
fn say(fitted: &Fitted, replayed: &Replayed) -> bool {
    let name = &fitted.mutation.name;
    let (build, run) = (replayed.build.as_secs_f64(), replayed.run.as_secs_f64());
    let seconds = format!("{:.1} s: build {build:.1}, run {run:.1}", build + run);
    match &replayed.outcome {
        Outcome::Red(at) => println!("{name}: red in {at} ({seconds})"),
        Outcome::Missed(why) => println!("{name}: MISSED, {why} ({seconds})"),
        Outcome::Broken(why) => println!("{name}: MISSED, the replay failed: {why} ({seconds})"),
    }
    matches!(replayed.outcome, Outcome::Red(_))
}

/// How many commits led here; the same number for all clones with the same history.
fn commits(root: &Path) -> u64 {
    let output =
        Command::new("git").current_dir(root).args(["rev-list", "--count", "HEAD"]).output();
    let count = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
