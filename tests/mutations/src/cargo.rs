//! Builds and runs tests in a worker's copy of the repository.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::target::{Build, Kind, Target, is_meant};

/// Beyond this, a test counts as one that does not notice.
const MAX_RUN: Duration = Duration::from_mins(5);
/// A first build has to compile all dependencies.
const MAX_BUILD: Duration = Duration::from_mins(30);
/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(5);
const LOG_LINES: usize = 20;

/// A worker's folder: a copy of the repository, and a target folder for each kind of build. cargo
/// would take one worker's mutated build for another's.
#[derive(Debug)]
pub struct Place<'a> {
    /// Of the repository; its `target` folder may have dependencies of the models.
    root: &'a Path,
    folder: PathBuf,
    doors: &'a Doors,
}

/// For each kind of build, a lock: read while a worker builds, written while one starts a target
/// folder. So no folder is copied during a build, and the dependencies are built once.
#[derive(Debug, Default)]
pub struct Doors {
    std: RwLock<()>,
    interleave: RwLock<()>,
    loom: RwLock<()>,
}

impl Doors {
    fn of(&self, kind: Kind) -> &RwLock<()> {
        match kind {
            Kind::Std => &self.std,
            Kind::Interleave => &self.interleave,
            Kind::Loom => &self.loom,
        }
    }
}

#[derive(Debug)]
pub enum Built {
    Binary(PathBuf),
    /// With the end of what the compiler said.
    Failed(String),
}

#[derive(Debug)]
pub enum Ran {
    /// With where it panicked, and why.
    Failed(Option<String>),
    Passed,
    /// With the end of what was printed.
    Nothing(String),
    TooLong(Duration),
}

impl<'a> Place<'a> {
    pub fn new(root: &'a Path, folder: PathBuf, doors: &'a Doors) -> Self {
        Self { root, folder, doors }
    }

    /// The copy of the repository.
    pub fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The test binary.
    pub fn build(&self, build: &Build) -> io::Result<Built> {
        let target = self.folder.join(build.kind.name());
        let door = self.doors.of(build.kind);
        if target.exists() {
            let _others = door.read().unwrap_or_else(PoisonError::into_inner);
            return self.build_in(&target, build);
        }
        let _alone = door.write().unwrap_or_else(PoisonError::into_inner);
        self.seed(build.kind, &target)?;
        self.build_in(&target, build)
    }

    /// Copies the dependencies that another worker, or the engine's test of its models, has built.
    fn seed(&self, kind: Kind, target: &Path) -> io::Result<()> {
        let workers = fs::read_dir(self.folder.parent().unwrap_or(self.root))?;
        let mut seeds: Vec<_> =
            workers.flatten().map(|worker| worker.path().join(kind.name())).collect();
        seeds.push(self.root.join("target").join(kind.name()));
        let Some(seed) = seeds.into_iter().find(|seed| seed.is_dir()) else {
            return Ok(());
        };
        let new = target.with_extension("new");
        remove(&new)?;
        // cargo goes by times of modification, which `cp -a` keeps.
        let status = Command::new("cp").arg("-a").args([&seed, &new]).status()?;
        if status.success() {
            // All sources are newer than what was built of another worker's.
            touch(&self.tree())?;
            fs::rename(&new, target)
        } else {
            remove(&new)
        }
    }

    fn build_in(&self, target: &Path, build: &Build) -> io::Result<Built> {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.tree().join(&build.package));
        command.args(["test", "--no-run", "--message-format", "json-render-diagnostics"]);
        match &build.binary {
            Some(binary) => command.args(["--test", binary]),
            None => command.arg("--lib"),
        };
        if build.has_tower {
            command.args(["--features", "tower"]);
        }
        settings(&mut command, build.kind, build.binary.is_none());
        command.env("CARGO_TARGET_DIR", target);
        let (messages, log) = (self.folder.join("messages"), self.folder.join("log"));
        let status = within(MAX_BUILD, &mut command, &messages, &log)?;
        if !status.is_some_and(|status| status.success()) {
            return Ok(Built::Failed(end_of(&fs::read_to_string(log)?)));
        }
        let messages = fs::read_to_string(messages)?;
        let binary = messages.lines().rev().find_map(executable);
        binary.map(Built::Binary).ok_or_else(|| io::Error::other("cargo names no test binary"))
    }

    pub fn run(&self, binary: &Path, target: &Target) -> io::Result<Ran> {
        let folder = self.tree().join(&target.build.package);
        let mut command = Command::new(binary);
        command.current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder).env("RUST_BACKTRACE", "0");
        // That a case fails is enough; the smallest one is not wanted.
        command.env("PROPTEST_MAX_SHRINK_ITERS", "0");
        // What a mutation breaks may show only within the bounds that the model states.
        command.env("TIDEGATE_MODELS", "full");
        match &target.module {
            Some(module) => {
                let listed = Command::new(binary).args(["--list", "--format", "terse"]).output()?;
                let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
                let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
                let meant = tests.filter(|test| is_meant(test, &target.filter, Some(module)));
                let meant: Vec<_> = meant.collect();
                if meant.is_empty() {
                    return Ok(Ran::Nothing(String::new()));
                }
                command.arg("--exact").args(meant);
            }
            None => {
                command.arg(&target.filter);
            }
        }
        let (printed, errors) = (self.folder.join("printed"), self.folder.join("log"));
        let status = within(MAX_RUN, &mut command, &printed, &errors)?;
        let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let log = read(printed)? + &read(errors)?;
        Ok(match status {
            None => Ran::TooLong(MAX_RUN),
            Some(_) if !has_run(&log) => Ran::Nothing(end_of(&log)),
            Some(status) if status.success() => Ran::Passed,
            Some(_) => Ran::Failed(panic_in(&log)),
        })
    }
}

/// As little to compile as will do: building what is broken takes longer than running the test. As
/// in a release build, what is to turn red is a test's assertion and none of the engine's own.
fn settings(command: &mut Command, kind: Kind, is_unit: bool) {
    // What cargo said of the build of this program is not this build's.
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_BIN_"))
        {
            command.env_remove(name);
        }
    }
    for name in
        ["CARGO_ENCODED_RUSTFLAGS", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "RUSTFLAGS"]
    {
        command.env_remove(name);
    }
    command.env("CARGO_INCREMENTAL", "1");
    if kind == Kind::Std {
        for profile in ["DEV", "TEST"] {
            for setting in ["DEBUG", "OVERFLOW_CHECKS", "DEBUG_ASSERTIONS"] {
                command.env(format!("CARGO_PROFILE_{profile}_{setting}"), "false");
            }
        }
        // Optimized, it takes three times as long to build, and few tests take as long to run.
        engine_setting(command, "dev", "opt-level=0");
        engine_setting(command, "test", "opt-level=0");
        // Not the simulator, which runs for longer than it takes to build.
        if is_unit {
            setting(command, "test", "tidegate-cluster", "opt-level=0");
            // As many units as there may be: few of them are built again.
            setting(command, "test", "tidegate-cluster", "codegen-units=256");
        }
        return;
    }
    command.env("RUSTFLAGS", format!("--cfg {}", kind.name()));
    // As the engine's test of its models builds their dependencies.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off");
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    // The search is the engine's own code and has to be fast; loom is a dependency.
    let level = u8::from(kind == Kind::Interleave);
    command.arg("--release");
    engine_setting(command, "release", &format!("opt-level={level}"));
    engine_setting(command, "release", "debug=false");
}

/// For the engine alone, in front of what the workspace says of it.
fn engine_setting(command: &mut Command, profile: &str, value: &str) {
    setting(command, profile, "tidegate-engine", value);
}

fn setting(command: &mut Command, profile: &str, package: &str, value: &str) {
    command.args(["--config", &format!("profile.{profile}.package.{package}.{value}")]);
}

fn remove(folder: &Path) -> io::Result<()> {
    if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) }
}

/// Makes every file below the folder one that was just written.
fn touch(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            touch(&path)?;
        } else {
            fs::write(&path, fs::read(&path)?)?;
        }
    }
    Ok(())
}

/// Runs the command with what it prints in two files; `None` when it took too long.
fn within(
    limit: Duration,
    command: &mut Command,
    printed: &Path,
    errors: &Path,
) -> io::Result<Option<ExitStatus>> {
    command.stdin(Stdio::null()).stdout(File::create(printed)?).stderr(File::create(errors)?);
    let mut child = command.spawn()?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// The test binary, if a message of cargo's names it.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    message.get("executable")?.as_str().map(PathBuf::from)
}

/// Whether at least one test was started.
fn has_run(log: &str) -> bool {
    let counts = log.lines().filter_map(|line| line.strip_prefix("running "));
    counts.into_iter().any(|count| !count.starts_with('0'))
}

/// Where the first panic was, and with what words.
fn panic_in(log: &str) -> Option<String> {
    let mut lines = log.lines();
    let is_panic = |line: &&str| line.contains("panicked at") || line.contains("has overflowed");
    let at = lines.find(is_panic)?.trim();
    Some(format!("{at} {}", lines.next().unwrap_or("").trim()).trim_end().to_owned())
}

fn end_of(log: &str) -> String {
    let lines: Vec<_> = log.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

#[cfg(test)]
#[path = "cargo_tests.rs"]
mod tests;
