//! What the documentation says limiters without keys take. Its figures are those of x86-64.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use tidegate_engine::{Concurrency, Queue};

#[test]
fn a_queue_is_as_large_as_documented() {
    assert_eq!(size_of::<Queue>(), 640);
}

#[test]
fn a_limit_of_permits_is_as_large_as_documented() {
    assert_eq!(size_of::<Concurrency>(), 512);
}
