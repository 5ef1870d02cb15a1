//! `engine/examples/outgoing.rs` with governor: waits for one limit after another, and what it has
//! taken stays taken when it gives up.

use std::error::Error;
use std::num::NonZero;
use std::time::{Duration, Instant};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::time::timeout;

const ACCOUNTS: [&str; 3] = ["red", "green", "blue"];
const CALLS_EACH: usize = 4;
const PATIENCE: Duration = Duration::from_secs(2);

struct Client {
    hosts: DefaultKeyedRateLimiter<String>,
    accounts: DefaultKeyedRateLimiter<String>,
    in_all: DefaultDirectRateLimiter,
    start: Instant,
}

impl Client {
    fn new() -> Result<Self, Box<dyn Error>> {
        let (one, two) = (NonZero::<u32>::MIN, units(2)?);
        Ok(Self {
            hosts: RateLimiter::keyed(Quota::per_second(units(20)?).allow_burst(two)),
            accounts: RateLimiter::keyed(Quota::per_second(units(10)?).allow_burst(one)),
            in_all: RateLimiter::direct(Quota::per_hour(units(1_000)?)),
            start: Instant::now(),
        })
    }

    /// A call that moves this many kilobytes, made if it is admitted in time.
    async fn call(&self, account: &str, kilobytes: NonZero<u32>) {
        let admitted = async {
            self.hosts.until_key_ready(&"api.example".to_owned()).await;
            self.accounts.until_key_ready(&account.to_owned()).await;
            self.in_all.until_n_ready(kilobytes).await
        };
        match timeout(PATIENCE, admitted).await {
            Ok(Ok(())) => println!("{:>4} ms: call of {account}", self.start.elapsed().as_millis()),
            Ok(Err(_)) => println!("{account} gives up: it never fits"),
            Err(_) => println!("{account} gives up"),
        }
    }
}

fn units(count: u32) -> Result<NonZero<u32>, Box<dyn Error>> {
    NonZero::new(count).ok_or_else(|| "no units".into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client, size) = (Client::new()?, units(10)?);
    let work = async |account| {
        for _ in 0..CALLS_EACH {
            client.call(account, size).await;
        }
    };
    tokio::join!(work(ACCOUNTS[0]), work(ACCOUNTS[1]), work(ACCOUNTS[2]));
    client.call("red", units(900)?).await;
    Ok(())
}
