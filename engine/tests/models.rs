//! Runs the loom models, which need a build of their own (`--cfg loom`).
#![cfg(not(loom))]

use std::path::Path;
use std::process::Command;

#[test]
fn the_loom_models_hold() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/loom");
    let status = Command::new(env!("CARGO"))
        .args(["test", "--release", "--package", "tidegate-engine", "--lib", "models::"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", "--cfg loom")
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
