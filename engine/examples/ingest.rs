//! Batch ingestion: rows of many tenants, each with a limit of rows an hour.
//!
//! A batch is checked in one call, an upload is taken in parts, and a backfill leaves half of each
//! limit to live traffic. Run it with `cargo run -p tidegate-engine --example ingest`; it ends by
//! itself.

use tidegate_engine::{BuildError, Limiter, Quota};

/// What a backfill leaves to live traffic, in rows.
const LEFT_TO_LIVE: u64 = 500;

fn main() -> Result<(), BuildError> {
    // 1,000 rows an hour and tenant, all of them at once if need be.
    let rows = Limiter::builder(Quota::per_hour(1_000)).capacity(100_000).build()?;
    batch(&rows, &[("acme", 300), ("globex", 900), ("acme", 200), ("globex", 200)]);
    upload(&rows, "initech", 2_500);
    for tenant in ["acme", "globex", "umbrella"] {
        backfill(&rows, tenant);
    }
    Ok(())
}

/// Writes those items of a batch that fit as a whole. The costs are rows; each is decided on its
/// own.
fn batch(rows: &Limiter, items: &[(&str, u64)]) {
    let mut decisions = Vec::new(); // of a service that reuses it, allocated once
    rows.check_many_n(items, &mut decisions);
    for (&(tenant, count), decision) in items.iter().zip(&decisions) {
        match decision.retry_after() {
            _ if decision.is_allowed() => println!("batch: {count} rows of {tenant} written"),
            Some(wait) => {
                println!("batch: {count} rows of {tenant} again in {} s", wait.as_secs() + 1);
            }
            None => println!("batch: {count} rows of {tenant} never fit, split them"),
        }
    }
}

/// Writes as many of the rows as the limit has room for; the client sends the rest later.
fn upload(rows: &Limiter, tenant: &str, count: u64) {
    let mut written = 0;
    while written < count {
        let granted = rows.check_up_to(tenant, (count - written).min(400)); // a block of the store
        if granted.units() == 0 {
            break;
        }
        written += granted.units();
    }
    println!("upload: {written} of {count} rows of {tenant} written");
}

/// Writes old rows in blocks of 100, as long as enough is left.
fn backfill(rows: &Limiter, tenant: &str) {
    let mut blocks = 0;
    while rows.check_with_headroom(tenant, 100, LEFT_TO_LIVE).is_allowed() {
        blocks += 1;
    }
    let left = rows.peek(tenant).remaining();
    println!("backfill: {blocks} blocks of {tenant} written, {left} rows left to live traffic");
}
