//! `engine/examples/configured.rs` with governor: a quota, and a trait to hide the type of its
//! clock.

use std::error::Error;
use std::num::NonZero;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};

type Limiter<C> =
    RateLimiter<String, DefaultKeyedStateStore<String>, C, NoOpMiddleware<<C as Clock>::Instant>>;

trait Limit: Send + Sync {
    fn check(&self, key: &str) -> bool;
}

impl<C: Clock + Send + Sync> Limit for Limiter<C>
where
    C::Instant: Send + Sync,
{
    fn check(&self, key: &str) -> bool {
        self.check_key(&key.to_owned()).is_ok()
    }
}

/// Sends mail, to each recipient at most as often as its limit says.
struct Mailer {
    per_recipient: Box<dyn Limit>,
}

impl Mailer {
    fn new(per_recipient: impl Limit + 'static) -> Self {
        Self { per_recipient: Box::new(per_recipient) }
    }

    /// With a quota as text, such as `20/h`.
    fn configured(text: &str) -> Result<Self, Box<dyn Error>> {
        let (count, period) = text.split_once('/').ok_or("no `/`")?;
        let count: NonZero<u32> = count.parse()?;
        let quota = match period {
            "s" => Quota::per_second(count),
            "m" => Quota::per_minute(count),
            "h" => Quota::per_hour(count),
            _ => return Err(format!("`{text}`: unknown unit `{period}`").into()),
        };
        Ok(Self::new(RateLimiter::keyed(quota)))
    }

    /// Whether the mail was sent.
    fn send(&self, recipient: &str) -> bool {
        self.per_recipient.check(recipient)
    }
}

fn main() {
    for rule in ["3/h", "3/fortnight"] {
        match Mailer::configured(rule) {
            Ok(mailer) => {
                let sent = (0..5).filter(|_| mailer.send("ada@example.com")).count();
                println!("{rule}: {sent} of 5 sent");
            }
            Err(error) => println!("{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_recipient_gets_two_a_minute() {
        let clock = FakeRelativeClock::default();
        let quota = Quota::per_minute(NonZero::new(2).unwrap());
        let mailer = Mailer::new(RateLimiter::dashmap_with_clock(quota, clock.clone()));
        assert!(mailer.send("ada@example.com"));
        assert!(mailer.send("ada@example.com"));
        assert!(!mailer.send("ada@example.com"));
        clock.advance(Duration::from_secs(30));
        assert!(mailer.send("ada@example.com"));
    }
}
