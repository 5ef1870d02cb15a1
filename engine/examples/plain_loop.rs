//! A limiter in a plain loop: no runtime, no server.
//!
//! A log shipper reads lines and forwards at most a few per second of each service, so that a noisy
//! one does not drown the others. Run it with `cargo run -p tidegate-engine --example plain_loop`;
//! it ends by itself.

use tidegate_engine::{BuildError, Limiter, Quota};

/// The input: a noisy service, and a quiet one.
const LINES: [(&str, &str); 8] = [
    ("billing", "connection refused"),
    ("billing", "connection refused"),
    ("login", "user 42 has logged in"),
    ("billing", "connection refused"),
    ("billing", "connection refused"),
    ("billing", "connection refused"),
    ("login", "user 43 has logged in"),
    ("billing", "connection refused"),
];

fn main() -> Result<(), BuildError> {
    // One line per second and service, three at once. Threads can share the limiter by reference.
    let limiter = Limiter::builder(Quota::per_second(1).burst(3)).capacity(10_000).build()?;
    let mut dropped = 0;
    for (service, line) in LINES {
        let decision = limiter.check(service);
        if decision.is_allowed() {
            println!("{service}: {line} ({} more at once)", decision.remaining());
        } else {
            dropped += 1;
        }
    }
    println!("{dropped} lines dropped");
    Ok(())
}
