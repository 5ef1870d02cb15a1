//! A client of other services under three limits: for each host, for each account, and in all. A
//! call waits until all of them admit it and is charged to all, or gives up and is charged to none.
//!
//! Run it with `cargo run -p tidegate-engine --example outgoing`; it ends by itself after about a
//! second.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_engine::set::{Ask, SetDecision};
use tidegate_engine::{DirectLimiter, LimitSet, Limiter, Quota};

const ACCOUNTS: [&str; 3] = ["red", "green", "blue"];
const CALLS_EACH: usize = 4;

/// How long a call may wait. A point in time, `Wait::until`, would do as well.
const PATIENCE: Duration = Duration::from_secs(2);

struct Client {
    hosts: Limiter,
    accounts: Limiter,
    in_all: DirectLimiter,
    start: Instant,
}

impl Client {
    fn new() -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            hosts: Limiter::new(Quota::per_second(20).burst(2))?,
            accounts: Limiter::new(Quota::per_second(10).burst(1))?,
            in_all: DirectLimiter::new(Quota::per_hour(1_000))?,
            start: Instant::now(),
        })
    }

    /// What a call that moves `kilobytes` asks of the limits.
    fn asks<'l>(&'l self, account: &str, kilobytes: u64) -> LimitSet<'l, [Ask<'l>; 3]> {
        LimitSet::new([
            self.hosts.ask("api.example", 1).named("host"),
            self.accounts.ask(account, 1).named("account"),
            self.in_all.ask(kilobytes).named("in all"),
        ])
    }

    /// Stands in for the call, made if all limits have admitted it.
    fn call(&self, account: &str, admitted: &SetDecision<'_, [Ask<'_>; 3]>) {
        match admitted.blocked() {
            None => println!("{:>4} ms: call of {account}", self.start.elapsed().as_millis()),
            Some(limit) => println!("{account} gives up: {}", limit.name()),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("threads");
    by_threads(&Client::new()?);
    println!("tasks");
    by_tasks(&Client::new()?);
    Ok(())
}

fn by_threads(client: &Client) {
    thread::scope(|scope| {
        for account in ACCOUNTS {
            scope.spawn(move || {
                for _ in 0..CALLS_EACH {
                    client.call(account, &client.asks(account, 10).acquire_blocking(PATIENCE));
                }
            });
        }
    });
}

/// On tokio here; any other runtime, or none, works the same.
#[tokio::main(flavor = "current_thread")]
async fn by_tasks(client: &Client) {
    let work = async |account| {
        for _ in 0..CALLS_EACH {
            client.call(account, &client.asks(account, 10).acquire(PATIENCE).await);
        }
    };
    tokio::join!(work(ACCOUNTS[0]), work(ACCOUNTS[1]), work(ACCOUNTS[2]));
    // Denied at once: 880 of the 1,000 kilobytes are left, and 20 more take 72 s.
    client.call("red", &client.asks("red", 900).acquire(PATIENCE).await);
}
