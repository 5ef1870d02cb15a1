//! A struct with a limit whose kind comes from a configuration, and no type parameter. Its test
//! gives it a limit on a clock that is set by hand.
//!
//! Run it with `cargo run -p tidegate-engine --example configured`, and its test with `cargo test
//! -p tidegate-engine --example configured`.

use std::error::Error;
use std::sync::Arc;

use tidegate_engine::Limit;
use tidegate_engine::rule::AnyRule;

/// Sends mail, to each recipient at most as often as its limit says.
struct Mailer {
    per_recipient: Arc<dyn Limit>,
}

impl Mailer {
    fn new(per_recipient: Arc<dyn Limit>) -> Self {
        Self { per_recipient }
    }

    /// With a rule as text, such as `20/h`, `20/h sliding`, `100/d burst 5` or `1000/month`.
    fn configured(rule: &str) -> Result<Self, Box<dyn Error>> {
        let rule: AnyRule = rule.parse()?; // the text reads
        Ok(Self::new(rule.limiter(100_000)?)) // the rule can be enforced
    }

    /// Whether the mail was sent.
    fn send(&self, recipient: &str) -> bool {
        self.per_recipient.check(recipient).is_allowed()
    }
}

fn main() {
    for rule in ["3/h", "4/h sliding", "3/d fixed", "1000/month", "100/d burst 2", "3/fortnight"] {
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

    use tidegate_engine::{BuildError, Limiter, ManualClock, Quota};

    use super::*;

    #[test]
    fn a_recipient_gets_two_a_minute() -> Result<(), BuildError> {
        let clock = ManualClock::new();
        let limiter = Limiter::builder(Quota::per_minute(2)).clock(clock.clone()).build()?;
        let mailer = Mailer::new(Arc::new(limiter));
        assert!(mailer.send("ada@example.com"));
        assert!(mailer.send("ada@example.com"));
        assert!(!mailer.send("ada@example.com"));
        clock.advance(Duration::from_secs(30));
        assert!(mailer.send("ada@example.com"));
        Ok(())
    }
}
