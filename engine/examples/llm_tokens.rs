//! Token budgets of a language model: what a call costs is known only when it has been answered.
//!
//! The most it can cost is reserved before the call, so that many calls at once stay within the budget; what was
//! not used is given back when the call is committed, and what was used beyond is charged as debt. Run it with `cargo run -p
//! tidegate-engine --example llm_tokens`; it ends by itself.

use tidegate_engine::{BuildError, Decision, Limiter, Quota};

/// The longest answer that is asked for, in tokens.
const MOST_ANSWERED: u64 = 1_500;

/// What a model says, and the tokens that the call has used.
struct Answer {
    text: String,
    used: u64,
}

fn main() -> Result<(), BuildError> {
    // 10 000 tokens an hour for each user, of which 5 000 may be used at once.
    let budget =
        Limiter::builder(Quota::per_hour(10_000).burst(5_000)).capacity(100_000).build()?;
    for prompt in ["Why is the sky blue?", "And at dusk?", "Write a long poem.", "And another."] {
        match complete(&budget, "user:42", prompt) {
            Ok(text) => println!("{prompt} {text}"),
            Err(denied) => match denied.retry_after() {
                Some(wait) => println!("{prompt} Ask again in {} s.", wait.as_secs() + 1),
                None => println!("{prompt} That is more than the budget ever holds."),
            },
        }
    }
    Ok(())
}

/// Asks the model if the user's budget has room for the longest answer.
fn complete(budget: &Limiter, user: &str, prompt: &str) -> Result<String, Decision> {
    let reserved = budget.reserve(user, tokens(prompt) + MOST_ANSWERED)?;
    // An error or a panic here would give everything back.
    let answer = ask_model(prompt);
    let left = reserved.commit(answer.used);
    println!("  {} tokens used, {} left", answer.used, left.remaining());
    Ok(answer.text)
}

/// About as many tokens as a prompt has.
fn tokens(prompt: &str) -> u64 {
    (prompt.len() as u64).div_ceil(4)
}

/// Stands for a model that takes its time and does not always keep to the length it was asked for.
fn ask_model(prompt: &str) -> Answer {
    let (text, answered) = match prompt {
        "Why is the sky blue?" => ("Air scatters blue light most.", 900),
        "And at dusk?" => ("The way through the air is longer, so the blue is gone.", 1_600),
        _ => ("Once upon a midnight dreary ...", 1_500),
    };
    Answer { text: text.to_owned(), used: tokens(prompt) + answered }
}
