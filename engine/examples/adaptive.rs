//! Limits that find out what an upstream can take: raised by a little while it answers, halved
//! when it does not (AIMD, as TCP does). One is on calls in flight, the other on calls per second.
//!
//! Run it with `cargo run -p tidegate-engine --example adaptive`; it ends by itself. Its clock is
//! set by hand, so that it need not wait.

use std::error::Error;
use std::time::Duration;

use tidegate_engine::rule::Inheritance;
use tidegate_engine::{Concurrency, DirectLimiter, LiveQuota, ManualClock, Quota};

fn main() -> Result<(), Box<dyn Error>> {
    in_flight();
    per_second()
}

/// An upstream that fails with more than 12 calls in flight, and from round 10 on with more than 6.
fn in_flight() {
    let calls = Concurrency::new(8);
    print!("in flight:");
    for round in 0..20 {
        // As many calls as may start; their permits come back when they are dropped.
        let mut permits = Vec::new();
        while let Ok(permit) = calls.try_acquire(1) {
            permits.push(permit);
        }
        let capacity = if round < 10 { 12 } else { 6 };
        let failed = permits.len() > capacity;
        print!(" {}", permits.len());
        // Calls that are in flight go on, also if they are more than the new limit.
        calls.set_limit(if failed { calls.limit() / 2 } else { calls.limit() + 1 }.max(1));
    }
    println!();
}

/// An upstream that takes 40 calls a second, and answers 429 to the rest.
fn per_second() -> Result<(), Box<dyn Error>> {
    const CAPACITY: u64 = 40;
    let (mut rate, clock) = (20, ManualClock::new());
    let rule = LiveQuota::new(quota(rate));
    let calls = DirectLimiter::builder(rule).clock(clock.clone()).build()?;
    print!("a second:");
    for _ in 0..15 {
        let mut sent = 0;
        for _ in 0..10 {
            clock.advance(Duration::from_millis(100));
            sent += calls.check_up_to(rate).units(); // there is always more to send
        }
        let answered_429 = sent.saturating_sub(CAPACITY);
        print!(" {sent}");
        rate = if answered_429 > 0 { rate / 2 } else { rate + 5 }.max(1);
        // Used units stay used, in proportion; checks go on meanwhile.
        calls.set_quota(quota(rate), Inheritance::Proportional)?;
    }
    println!();
    Ok(())
}

/// Evenly spaced: a tenth of a second's calls at once.
fn quota(rate: u64) -> Quota {
    Quota::per_second(rate).burst(rate.div_ceil(10))
}
