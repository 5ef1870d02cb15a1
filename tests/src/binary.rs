//! The node's binary, built as the tests were.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where the binary is: next to the folder of the running test, as cargo builds its binaries
/// before its tests.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        // TARGET_DIR/PROFILE/deps/TEST
        let test = std::env::current_exe().expect("the path of this test");
        let profile_dir = test.ancestors().nth(2).expect("the folder of a profile");
        let binary = profile_dir.join(format!("node-under-test{}", std::env::consts::EXE_SUFFIX));
        assert!(binary.is_file(), "{} is built with the tests", binary.display());
        binary
    })
}

/// The folder of the workspace.
///
/// # Panics
/// Never: this package has a parent folder.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent folder")
}
