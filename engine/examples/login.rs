//! A login throttle, for each address and for each account. It logs which keys were denied and
//! until when, and bans addresses that keep hammering.
//!
//! Run it with `cargo run -p tidegate-engine --example login`; it ends by itself. Its clock is set
//! by hand, so that it need not wait.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::clock::{SharedClock, Timestamp};
use tidegate_engine::{
    BuildError, Decision, IpKey, Limiter, ManualClock, Observer, Quota, observer,
};

const QUARTER: Duration = Duration::from_secs(900);

type Log = Box<dyn Observer + Send + Sync>;

struct Logins {
    per_address: Limiter<Quota, SharedClock, Log>,
    per_account: Limiter<Quota, SharedClock, Log>,
}

impl Logins {
    fn new(clock: &SharedClock) -> Result<Self, BuildError> {
        let limiter = |quota, subject| {
            Limiter::builder(quota).clock(Arc::clone(clock)).observer(log_denied(subject, clock))
        };
        let (address, account) = (Quota::new(5, QUARTER), Quota::new(3, QUARTER));
        Ok(Self {
            // A denied attempt is charged too, up to four bursts: a ban of 63 minutes.
            per_address: limiter(address, "address").charge_denied(4).build()?,
            // Not here: a stranger that knows a name could lock out its owner.
            per_account: limiter(account, "account").build()?,
        })
    }

    /// Whether the password may be looked at. The address pays also where the account denies. That
    /// is why this is no `LimitSet`; and of a set an observer learns only the hashes of keys.
    fn attempt(&self, address: IpAddr, account: &str) -> Result<(), Decision> {
        self.per_address.check(IpKey::from(address)).into_result()?;
        self.per_account.check(account).into_result()?;
        Ok(())
    }

    /// Called when the password was right: only wrong ones count.
    fn succeeded(&self, address: IpAddr, account: &str) {
        self.per_address.refund(IpKey::from(address), 1);
        self.per_account.reset(account);
    }
}

/// An observer that gets the key as it was given, and prints it escaped.
fn log_denied(subject: &'static str, clock: &SharedClock) -> Log {
    let clock = Arc::clone(clock);
    Box::new(observer::from_fn(move |key, _, decision| {
        if let (false, Some(wait)) = (decision.is_allowed(), decision.retry_after()) {
            // In a service the time of day plus `wait`; this clock begins with the program.
            let until = clock.now().saturating_add(wait).since(Timestamp::ORIGIN);
            println!("denied {subject} {key:?} until {} s", until.as_secs());
        }
    }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new(); // in a service `TscClock::new()`
    let shared: SharedClock = Arc::new(clock.clone());
    let logins = Logins::new(&shared)?;
    let (home, guesser) = ("192.0.2.1".parse()?, "2001:db8::1".parse()?);

    // Someone mistypes, and is then right.
    for _ in 0..2 {
        let _ = logins.attempt(home, "alice");
    }
    if logins.attempt(home, "alice").is_ok() {
        logins.succeeded(home, "alice");
        println!("alice is in");
    }

    // Guesses at an account, by a name that would forge a line of the log; then at others, from
    // another address of the same /64, which is the same client.
    for _ in 0..4 {
        let _ = logins.attempt(guesser, "bob\nalice is in");
    }
    let neighbour = "2001:db8::2".parse()?;
    for guess in 0..25 {
        clock.advance(Duration::from_secs(1));
        let _ = logins.attempt(neighbour, &format!("user{guess}"));
    }
    clock.advance(Duration::from_secs(63 * 60));
    let admitted = logins.attempt(guesser, "bob").is_ok();
    println!("{}", if admitted { "the ban is over" } else { "still banned" });
    Ok(())
}
