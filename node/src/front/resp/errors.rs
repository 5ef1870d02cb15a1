//! Errors that repeat a client's input.

use super::command::Command;
use super::reply::Reply;
use crate::telemetry::errors::RespError;

/// How much of a client's input an error repeats, in bytes.
const MAX_ECHO_BYTES: usize = 128;

/// The error for a number of arguments that a command, or one of its subcommands, does not take.
pub fn wrong_arity(name: &str, subcommand: Option<&str>, reply: &mut Reply<'_>) {
    let bar = if subcommand.is_some() { "|" } else { "" };
    let subcommand = subcommand.unwrap_or("");
    let text = format!("ERR wrong number of arguments for '{name}{bar}{subcommand}' command");
    reply.error(text.as_bytes());
}

/// The error for an `EXEC` with arguments, which ends its transaction.
pub fn wrong_exec(reply: &mut Reply<'_>) {
    reply.error(
        b"EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
    );
}

/// The error for a subcommand that a command does not have.
pub fn unknown_subcommand(subcommand: &[u8], reply: &mut Reply<'_>) {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(shortened(subcommand));
    text.push(b'\'');
    reply.error(&text);
}

/// The error for a command that does not exist.
pub fn unknown_command(command: &Command<'_>, reply: &mut Reply<'_>) {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(shortened(command.arg(0)));
    text.extend_from_slice(b"', with args beginning with: ");
    let most = text.len() + MAX_ECHO_BYTES;
    for arg in command.args_from(1) {
        if text.len() >= most {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(&arg[..arg.len().min(most - text.len())]);
        text.extend_from_slice(b"' ");
    }
    reply.error_of(RespError::UnknownCommand, &text);
}

fn shortened(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MAX_ECHO_BYTES)]
}
