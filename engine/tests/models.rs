//! Runs the models of the table, which need builds of their own: with loom's atomics
//! (`--cfg loom`), and with those of the exhaustive search (`--cfg interleave`).
#![cfg(not(any(loom, interleave)))]

use std::path::Path;
use std::process::Command;

#[test]
fn the_models_hold_under_weak_memory() {
    run_models("loom");
}

#[test]
fn the_models_hold_in_every_interleaving() {
    run_models("interleave");
}

fn run_models(cfg: &str) {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(cfg);
    let status = Command::new(env!("CARGO"))
        .args(["test", "--release", "--package", "tidegate-engine", "--lib", "models::"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", format!("--cfg {cfg}"))
        .env("CARGO_TARGET_DIR", target)
        // The models are small programs run very often: optimized code matters, inlining across
        // crates does not.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .expect("cargo starts");
    assert!(status.success(), "a model fails; its output is above");
}
