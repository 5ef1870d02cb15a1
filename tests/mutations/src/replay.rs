//! Replays mutations: builds and runs the test that each names, in a copy of the repository.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::cargo::{Built, Doors, Place, Ran};
use crate::fit::Fitted;

/// What became of a mutation.
#[derive(Debug)]
pub enum Outcome {
    /// Its test failed, here.
    Red(String),
    Missed(String),
    /// The replay itself failed; no verdict.
    Broken(String),
}

/// An outcome with the time it took.
#[derive(Debug)]
pub struct Replayed {
    pub outcome: Outcome,
    pub build: Duration,
    pub run: Duration,
}

/// The working copies and build folders, for one process at a time.
#[derive(Debug)]
pub struct Workshop {
    folder: PathBuf,
    _lock: File,
}

impl Workshop {
    /// Waits for another process to be through.
    pub fn open(root: &Path) -> io::Result<Self> {
        let folder = root.join("target/mutations");
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        if lock.try_lock().is_err() {
            eprintln!("waits for another replay in {}", folder.display());
            lock.lock()?;
        }
        let workshop = Self { folder, _lock: lock };
        // What an interrupted replay left.
        workshop.clear()?;
        Ok(workshop)
    }

    fn worker(&self, number: usize) -> PathBuf {
        self.folder.join(format!("worker-{number}"))
    }

    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let tree = entry?.path().join("tree");
            if tree.is_dir() {
                fs::remove_dir_all(tree)?;
            }
        }
        Ok(())
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            eprintln!("a working copy is left in {}: {error}", self.folder.display());
        }
    }
}

/// Replays all of `fitted` by `workers` threads; `report` is called for each.
///
/// What is built alike lies side by side in the queue. Half of the workers take from its front
/// and half from its back, so that two of them meet in one kind of build and little is built twice.
pub fn replay<'a>(
    root: &Path,
    workshop: &Workshop,
    mut fitted: Vec<&'a Fitted>,
    workers: usize,
    report: impl Fn(&'a Fitted, Replayed) + Sync,
) -> io::Result<()> {
    fitted.sort_by_key(|one| (&one.target.build, &one.mutation.file));
    let workers = workers.min(fitted.len());
    let narrow: BTreeMap<_, _> = fitted
        .iter()
        .filter_map(|one| Some((&one.target.build, one.target.narrow.as_ref()?)))
        .map(|(build, narrow)| ((&*build.package, &*narrow.name), narrow))
        .collect();
    let queue = Mutex::new(VecDeque::from(fitted));
    let doors = Doors::default();
    let next = |number: usize| {
        let mut queue = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if number.is_multiple_of(2) { queue.pop_front() } else { queue.pop_back() }
    };
    let work = |number: usize| -> io::Result<()> {
        let folder = workshop.worker(number);
        let tree = folder.join("tree");
        copy_tree(root, &tree)?;
        narrow.iter().try_for_each(|((package, _), narrow)| narrow.write(&tree, package))?;
        let place = Place::new(root, folder, &doors);
        while let Some(fitted) = next(number) {
            report(fitted, one(&place, fitted));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            (0..workers).map(|number| scope.spawn(move || work(number))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, io::Result<()>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().try_for_each(join)
    })
}

fn one(place: &Place<'_>, fitted: &Fitted) -> Replayed {
    let mut replayed = Replayed {
        outcome: Outcome::Broken(String::new()),
        build: Duration::ZERO,
        run: Duration::ZERO,
    };
    let path = place.tree().join(&fitted.mutation.file);
    let broken = fitted.mutation.apply(&fitted.original).map_err(io::Error::other);
    let outcome = broken
        .and_then(|text| fs::write(&path, text))
        .and_then(|()| judge(place, fitted, &mut replayed));
    // A copy that is still broken would turn whatever follows red.
    let restored = fs::write(&path, &fitted.original);
    replayed.outcome = outcome
        .and_then(|outcome| restored.map(|()| outcome))
        .unwrap_or_else(|error| Outcome::Broken(error.to_string()));
    replayed
}

fn judge(place: &Place<'_>, fitted: &Fitted, replayed: &mut Replayed) -> io::Result<Outcome> {
    let (target, test) = (&fitted.target, &fitted.mutation.test);
    let start = Instant::now();
    let built = place.build(&target.build);
    replayed.build = start.elapsed();
    let binary = match built? {
        Built::Binary(binary) => binary,
        Built::Failed(errors) => {
            return Ok(Outcome::Missed(format!("it does NOT COMPILE\n{errors}")));
        }
    };
    let start = Instant::now();
    let ran = place.run(&binary, target);
    replayed.run = start.elapsed();
    Ok(match ran? {
        Ran::Failed(at) => Outcome::Red(at.unwrap_or_else(|| test.clone())),
        Ran::Passed => Outcome::Missed(format!("{test} stayed green")),
        Ran::Nothing(log) => Outcome::Missed(format!("no test ran\n{log}")),
        Ran::TooLong(limit) => {
            Outcome::Missed(format!("{test} was not through after {} s", limit.as_secs()))
        }
    })
}

/// Copies what git keeps or would keep, with times of modification of its own: cargo must not
/// take a build of other text for fresh.
fn copy_tree(root: &Path, to: &Path) -> io::Result<()> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root).args(list).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let list = String::from_utf8(output.stdout).map_err(io::Error::other)?;
    for file in list.split_terminator('\0').map(Path::new) {
        let (from, to) = (root.join(file), to.join(file));
        // Deleted in the work tree, or a link to a folder.
        if !from.is_file() {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(&to))?;
        fs::write(to, fs::read(from)?)?;
    }
    Ok(())
}
