//! `engine/examples/login.rs` with governor: it logs where it asks, no client is banned, and an
//! attempt that was right counts too.

use std::error::Error;
use std::net::IpAddr;
use std::num::NonZero;
use std::time::Duration;

use governor::clock::{Clock, FakeRelativeClock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{NotUntil, Quota, RateLimiter};

const QUARTER: Duration = Duration::from_mins(15);

type Instant = <FakeRelativeClock as Clock>::Instant;
type Limiter<K> =
    RateLimiter<K, DefaultKeyedStateStore<K>, FakeRelativeClock, NoOpMiddleware<Instant>>;

/// In a service on the default clock, which is another type.
struct Logins {
    per_address: Limiter<IpAddr>,
    per_account: Limiter<String>,
    clock: FakeRelativeClock,
}

impl Logins {
    fn new(clock: &FakeRelativeClock) -> Result<Self, Box<dyn Error>> {
        let quota = |count: u32| {
            let count = NonZero::new(count)?;
            Some(Quota::with_period(QUARTER / count.get())?.allow_burst(count))
        };
        let (address, account) = (quota(5).ok_or("none")?, quota(3).ok_or("none")?);
        Ok(Self {
            per_address: RateLimiter::dashmap_with_clock(address, clock.clone()),
            per_account: RateLimiter::dashmap_with_clock(account, clock.clone()),
            clock: clock.clone(),
        })
    }

    /// Whether the password may be looked at.
    fn attempt(&self, address: IpAddr, account: &str) -> bool {
        let client = client(address);
        if let Err(denied) = self.per_address.check_key(&client) {
            self.log("address", &client.to_string(), &denied);
            return false;
        }
        if let Err(denied) = self.per_account.check_key(&account.to_owned()) {
            self.log("account", account, &denied);
            return false;
        }
        true
    }

    fn log(&self, subject: &str, key: &str, denied: &NotUntil<Instant>) {
        let now = self.clock.now();
        let since = Duration::from(now.duration_since(Instant::default()));
        let until = since + denied.wait_time_from(now);
        println!("denied {subject} {key:?} until {} s", until.as_secs());
    }
}

/// An IPv6 /64 is one client.
fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = FakeRelativeClock::default();
    let logins = Logins::new(&clock)?;
    let (home, guesser) = ("192.0.2.1".parse()?, "2001:db8::1".parse()?);
    for _ in 0..2 {
        logins.attempt(home, "alice");
    }
    if logins.attempt(home, "alice") {
        println!("alice is in");
    }
    for _ in 0..4 {
        logins.attempt(guesser, "bob\nalice is in");
    }
    let neighbour = "2001:db8::2".parse()?;
    for guess in 0..25 {
        clock.advance(Duration::from_secs(1));
        logins.attempt(neighbour, &format!("user{guess}"));
    }
    Ok(())
}
