//! The node's binary, built as the tests were.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the binary is. The first call in a process builds it, in the profile and the folder of
/// the running test.
///
/// # Panics
/// When it can not be built.
#[must_use]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(build)
}

/// The folder of the workspace.
///
/// # Panics
/// Never: this package has a parent folder.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent folder")
}

fn build() -> PathBuf {
    // TARGET_DIR/PROFILE/deps/TEST
    let test = std::env::current_exe().expect("the path of this test");
    let profile_dir = test.ancestors().nth(2).expect("the folder of a profile");
    let target_dir = profile_dir.parent().expect("a target folder");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    // The cargo that runs this test, so nothing is built anew for another one.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .current_dir(repository())
        .args(["build", "--quiet", "--package", "tidegate", "--profile", profile, "--target-dir"])
        .arg(target_dir)
        .output()
        .expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the node does not build:\n{errors}");
    profile_dir.join(format!("tidegate{}", std::env::consts::EXE_SUFFIX))
}
