//! `engine/examples/adaptive.rs` with governor: the limit a second, by another limiter for each
//! quota, which has forgotten what was used.

use std::error::Error;
use std::num::NonZero;
use std::time::Duration;

use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};

/// An upstream that takes 40 calls a second, and answers 429 to the rest.
fn main() -> Result<(), Box<dyn Error>> {
    const CAPACITY: u32 = 40;
    let (mut rate, clock) = (20, FakeRelativeClock::default());
    let mut calls = RateLimiter::direct_with_clock(quota(rate)?, clock.clone());
    print!("a second:");
    for _ in 0..15 {
        let mut sent = 0;
        for _ in 0..10 {
            clock.advance(Duration::from_millis(100));
            while calls.check().is_ok() {
                sent += 1;
            }
        }
        let answered_429 = u32::saturating_sub(sent, CAPACITY);
        print!(" {sent}");
        rate = if answered_429 > 0 { rate / 2 } else { rate + 5 }.max(1);
        calls = RateLimiter::direct_with_clock(quota(rate)?, clock.clone());
    }
    println!();
    Ok(())
}

/// Evenly spaced: a tenth of a second's calls at once.
fn quota(rate: u32) -> Result<Quota, Box<dyn Error>> {
    let burst = NonZero::new(rate.div_ceil(10)).ok_or("no calls")?;
    Ok(Quota::per_second(NonZero::new(rate).ok_or("no calls")?).allow_burst(burst))
}
