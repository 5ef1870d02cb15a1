//! `engine/examples/llm_tokens.rs` with governor: the maximum is charged, and nothing of it comes
//! back.

use std::error::Error;
use std::num::NonZero;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// The longest answer requested, in tokens.
const MOST_ANSWERED: u32 = 1_500;

fn main() -> Result<(), Box<dyn Error>> {
    let quota = Quota::per_hour(NonZero::new(10_000).ok_or("no tokens")?);
    let quota = quota.allow_burst(NonZero::new(5_000).ok_or("no tokens")?);
    let budget = RateLimiter::keyed(quota);
    for prompt in ["Why is the sky blue?", "And at dusk?", "Write a long poem.", "And another."] {
        match complete(&budget, "user:42", prompt) {
            Ok(text) => println!("{prompt} {text}"),
            Err(denied) => println!("{prompt} {denied}"),
        }
    }
    Ok(())
}

/// Calls the model if the user's budget has room for the longest answer.
fn complete(
    budget: &DefaultKeyedRateLimiter<String>,
    user: &str,
    prompt: &str,
) -> Result<String, Box<dyn Error>> {
    let most = NonZero::new(tokens(prompt) + MOST_ANSWERED).ok_or("no tokens")?;
    match budget.check_key_n(&user.to_owned(), most) {
        Ok(Ok(())) => Ok(ask_model(prompt)),
        Ok(Err(denied)) => {
            let wait = denied.wait_time_from(DefaultClock::default().now());
            Err(format!("Ask again in {} s.", wait.as_secs() + 1).into())
        }
        Err(_) => Err("That is more than the budget ever holds.".into()),
    }
}

/// A rough number of tokens of a prompt.
fn tokens(prompt: &str) -> u32 {
    u32::try_from(prompt.len().div_ceil(4)).unwrap_or(u32::MAX / 2)
}

/// Stands in for a model.
fn ask_model(prompt: &str) -> String {
    match prompt {
        "Why is the sky blue?" => "Air scatters blue light most.".to_owned(),
        "And at dusk?" => "The way through the air is longer, so the blue is gone.".to_owned(),
        _ => "Once upon a midnight dreary ...".to_owned(),
    }
}
