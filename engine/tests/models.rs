//! Runs the models, which need builds of their own: with loom's atomics
//! (`--cfg loom`), and with those of the exhaustive search (`--cfg interleave`).
//!
//! Each model is a process of its own, with as many in parallel as there are processors: they share
//! nothing, and one that is stuck or runs out of memory is distinguished from the others.
#![allow(clippy::incompatible_msrv, reason = "tests are built with the workspace's Rust")]
#![cfg(not(any(loom, interleave)))]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

#[test]
fn the_models_hold_under_weak_memory() {
    run_models("loom");
}

#[test]
fn the_models_hold_in_every_interleaving() {
    run_models("interleave");
}

fn run_models(cfg: &str) {
    let binary = build(cfg);
    let models = models_of(&binary);
    assert!(!models.is_empty(), "there are no models");
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !holds(&binary, cfg, model) {
                failed.lock().unwrap().push(model);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "models fail, with the output above: {failed:?}");
}

/// What is run very often is optimized, and nothing else: the engine, loom, its threads and what
/// loom calls at each step. In one unit loom takes two thirds of the time.
const SETTINGS: [&str; 9] = [
    "profile.release.debug=false",
    "profile.release.build-override.opt-level=0",
    r#"profile.release.package."*".opt-level=0"#,
    "profile.release.package.loom.opt-level=3",
    "profile.release.package.loom.codegen-units=1",
    "profile.release.package.scoped-tls.opt-level=3",
    "profile.release.package.tracing.opt-level=3",
    "profile.release.package.tracing-core.opt-level=3",
    "profile.release.package.generator.opt-level=3",
];

const OPTIMIZED_LITTLE: &str = "profile.release.package.tidegate-engine.opt-level=1";

/// Builds the engine's unit tests and says where they are.
fn build(cfg: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(cfg);
    let output = Command::new(env!("CARGO"))
        .args(["test", "--release", "--package", "tidegate-engine", "--lib"])
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .args(SETTINGS.iter().flat_map(|setting| ["--config", *setting]))
        // Most of a run is loom's own: the engine is built in two thirds of the time, and no run is
        // slower. The exhaustive search runs little else than the engine.
        .args((cfg == "loom").then_some(["--config", OPTIMIZED_LITTLE]).into_iter().flatten())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", format!("--cfg {cfg}"))
        .env("CARGO_TARGET_DIR", target)
        // Models are small programs: inlining across crates does not matter.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "the models are not built; the errors are above");
    let messages = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let (_, binary) = messages.rsplit_once(r#""executable":""#).expect("tests are executable");
    let (binary, _) = binary.split_once('"').expect("strings end");
    PathBuf::from(binary)
}

fn models_of(binary: &Path) -> Vec<String> {
    let arguments = ["models::", "--list", "--format", "terse"];
    let output = Command::new(binary).args(arguments).output().expect("the models start");
    let list = String::from_utf8(output.stdout).expect("names are UTF-8");
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Runs one model, then says how long it took and what it printed.
fn holds(binary: &Path, cfg: &str, model: &str) -> bool {
    let start = Instant::now();
    let run = Command::new(binary).args([model, "--exact", "--nocapture"]).output();
    let run = run.expect("the model starts");
    let printed = String::from_utf8_lossy(&run.stdout);
    // Each exploration reports the bound within which it ended.
    let bounds: Vec<_> = printed.lines().filter(|line| line.contains(" after ")).collect();
    let holds = run.status.success() && printed.contains("1 passed") && !bounds.is_empty();
    let verdict = if holds { "holds" } else { "FAILED" };
    let mut said = format!("{cfg} {model}: {verdict}, {:.1} s\n", start.elapsed().as_secs_f64());
    for line in bounds {
        said.extend(["    ", line, "\n"]);
    }
    if !holds {
        said.extend([&*printed, &*String::from_utf8_lossy(&run.stderr)]);
    }
    // Bypasses the test harness, which would hold it until the last model has finished.
    std::io::stdout().write_all(said.as_bytes()).expect("it can be printed");
    holds
}
