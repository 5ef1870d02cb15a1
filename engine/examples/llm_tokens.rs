//! Token budgets of a language model: the cost of a call is known only after its answer.
//!
//! The maximum cost is reserved before the call, so that concurrent calls stay within the budget;
//! on commit the unused part is given back, and any excess is charged as debt. If the longest
//! answer does not fit, a shorter one is requested. Run it with `cargo run -p tidegate-engine
//! --example llm_tokens`; it ends by itself.

use tidegate_engine::{BuildError, Decision, Limiter, Quota};

/// The longest answer requested, and the shortest that is worth a call, in tokens.
const MOST_ANSWERED: u64 = 1_500;
const LEAST_ANSWERED: u64 = 200;

/// A model's answer, and the tokens used by the call.
struct Answer {
    text: String,
    used: u64,
}

fn main() -> Result<(), BuildError> {
    // 10 000 tokens per hour and user, of which 5 000 may be used at once.
    let budget =
        Limiter::builder(Quota::per_hour(10_000).burst(5_000)).capacity(100_000).build()?;
    let prompts =
        ["Why is the sky blue?", "And at dusk?", "Write a long poem.", "Shorter.", "And another."];
    for prompt in prompts {
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

/// Calls the model if the user's budget has room for an answer.
fn complete(budget: &Limiter, user: &str, prompt: &str) -> Result<String, Decision> {
    let prompt_tokens = tokens(prompt);
    let longest = budget.reserve(user, prompt_tokens + MOST_ANSWERED);
    let (reserved, answer_tokens) = match longest {
        Ok(reserved) => (reserved, MOST_ANSWERED),
        Err(denied) => {
            // What is left. Another call may take it meanwhile: then this one is denied.
            let left = denied.remaining().saturating_sub(prompt_tokens).max(LEAST_ANSWERED);
            (budget.reserve(user, prompt_tokens + left)?, left)
        }
    };
    // An error or a panic here would give everything back.
    let answer = ask_model(prompt, answer_tokens);
    let left = reserved.commit(answer.used);
    println!("  {} tokens used, {} left", answer.used, left.remaining());
    Ok(answer.text)
}

/// A rough number of tokens of a prompt.
fn tokens(prompt: &str) -> u64 {
    (prompt.len() as u64).div_ceil(4)
}

/// Stands in for a model, which does not always keep to the requested length.
fn ask_model(prompt: &str, most: u64) -> Answer {
    let (text, answered) = match prompt {
        "Why is the sky blue?" => ("Air scatters blue light most.", 900),
        "And at dusk?" => ("The way through the air is longer, so the blue is gone.", most + 100),
        _ => ("Once upon a midnight dreary ...", most),
    };
    Answer { text: text.to_owned(), used: tokens(prompt) + answered }
}
