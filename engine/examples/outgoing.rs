//! Shaping outgoing calls: a partner's API takes 20 calls per second, shared by several workers. A
//! [`Queue`] gives each call a start time, first come, first served: threads block until then, and
//! tasks await it.
//!
//! Run it with `cargo run -p tidegate-engine --example outgoing`; it ends by itself after about a
//! second.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_engine::{Decision, Queue, Quota, QuotaError};

const WORKERS: usize = 3;
const CALLS_EACH: usize = 4;

/// How long a call may wait for its turn.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<(), QuotaError> {
    let quota = Quota::per_second(20).burst(2);
    println!("threads");
    by_threads(&Queue::new(quota)?);
    println!("tasks");
    by_tasks(&Queue::new(quota)?);
    Ok(())
}

fn by_threads(partner: &Queue) {
    let start = Instant::now();
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                for call in 0..CALLS_EACH {
                    let turn = partner.acquire_blocking(1, PATIENCE);
                    make_call(turn, worker, call, start);
                }
            });
        }
    });
}

/// On tokio here; any other runtime, or none, works the same.
#[tokio::main(flavor = "current_thread")]
async fn by_tasks(partner: &Queue) {
    let start = Instant::now();
    let work = async |worker| {
        for call in 0..CALLS_EACH {
            let turn = partner.acquire(1, PATIENCE).await;
            make_call(turn, worker, call, start);
        }
    };
    tokio::join!(work(0), work(1), work(2));
}

/// Stands in for the call, made if its turn has come.
fn make_call(turn: Decision, worker: usize, call: usize, start: Instant) {
    if turn.is_allowed() {
        println!("{:>4} ms: worker {worker}, call {call}", start.elapsed().as_millis());
    } else {
        println!("worker {worker}, call {call}: given up");
    }
}
