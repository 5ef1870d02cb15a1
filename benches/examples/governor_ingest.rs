//! `engine/examples/ingest.rs` with governor: the batch, one call an item.

use std::error::Error;
use std::num::NonZero;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

fn main() -> Result<(), Box<dyn Error>> {
    let rows = RateLimiter::keyed(Quota::per_hour(NonZero::new(1_000).ok_or("no rows")?));
    batch(&rows, &[("acme", 300), ("globex", 900), ("acme", 200), ("globex", 200)]);
    Ok(())
}

/// Writes those items of a batch that fit as a whole.
fn batch(rows: &DefaultKeyedRateLimiter<String>, items: &[(&str, u32)]) {
    for &(tenant, count) in items {
        let Some(cost) = NonZero::new(count) else { continue };
        match rows.check_key_n(&tenant.to_owned(), cost) {
            Ok(Ok(())) => println!("batch: {count} rows of {tenant} written"),
            Ok(Err(denied)) => {
                let wait = denied.wait_time_from(DefaultClock::default().now());
                println!("batch: {count} rows of {tenant} again in {} s", wait.as_secs() + 1);
            }
            Err(_) => println!("batch: {count} rows of {tenant} never fit, split them"),
        }
    }
}
