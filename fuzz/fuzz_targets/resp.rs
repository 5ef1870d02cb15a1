//! A client's bytes, in chunks of any size: the same commands however they are split, and a reply
//! to each.
#![no_main]

use std::sync::OnceLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate::fuzzing::{Command, MAX_ARG_BYTES, MAX_ARGS, Node, Parser, ProtocolError};
use tidegate_fuzz::memory;

#[derive(Arbitrary, Debug)]
struct Input {
    /// The lengths of the chunks, repeated.
    chunks: [u8; 4],
    stream: Vec<Part>,
}

#[derive(Arbitrary, Debug)]
enum Part {
    /// A command as clients send it.
    Command(Vec<Word>),
    /// A command as people type it.
    Typed(Vec<Word>),
    Bytes(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
enum Word {
    Known(u8),
    Any(Vec<u8>),
}

/// Inputs that random bytes would rarely reach.
const WORDS: [&str; 20] = [
    "CL.THROTTLE",
    "throttle",
    "key",
    "0",
    "1",
    "15",
    "-1",
    "9223372036854775807",
    "HELLO",
    "3",
    "CLIENT",
    "SETNAME",
    "COMMAND",
    "INFO",
    "LIST",
    "REPLY",
    "MULTI",
    "EXEC",
    "'a \\' b'",
    "\"\\x41\\n\"",
];
/// The longest chunk, in bytes.
const MAX_CHUNK: usize = 48;
/// The memory that the parser may allocate in total: per byte of the stream, and initially.
const PARSER_BYTES: (usize, usize) = (64, 16 * 1024);

static NODE: OnceLock<Node> = OnceLock::new();

fuzz_target!(|input: Input| {
    let stream: Vec<u8> = input.stream.iter().flat_map(bytes_of).collect();
    let whole = outcome(&stream, std::iter::once(stream.len()), |_| {});
    let chunks = input.chunks.iter().map(|length| usize::from(*length) % MAX_CHUNK + 1).cycle();

    let mut session = NODE.get_or_init(Node::alone).session();
    let mut replies = Vec::new();
    let split = outcome(&stream, chunks, |command| {
        session.run(command, &mut replies);
        session.decide(&mut replies);
    });
    assert_eq!(split, whole);
    assert!(
        replies.is_empty() || matches!(replies[0], b'+' | b'-' | b':' | b'$' | b'*' | b'%' | b'_')
    );
});

fn bytes_of(part: &Part) -> Vec<u8> {
    match part {
        Part::Command(words) => {
            let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
            for word in words.iter().map(text_of) {
                bytes.extend(format!("${}\r\n", word.len()).bytes());
                bytes.extend_from_slice(word);
                bytes.extend(b"\r\n");
            }
            bytes
        }
        Part::Typed(words) => {
            let words: Vec<&[u8]> = words.iter().map(text_of).collect();
            [words.join(&b' '), b"\r\n".to_vec()].concat()
        }
        Part::Bytes(bytes) => bytes.clone(),
    }
}

fn text_of(word: &Word) -> &[u8] {
    match word {
        Word::Known(which) => WORDS[usize::from(*which) % WORDS.len()].as_bytes(),
        Word::Any(bytes) => bytes,
    }
}

type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Feeds the stream chunk by chunk, as a connection does: unconsumed bytes are kept.
fn outcome(
    stream: &[u8],
    chunks: impl Iterator<Item = usize>,
    mut run: impl FnMut(&Command<'_>),
) -> Outcome {
    let (mut parser, mut commands) = (Parser::default(), Vec::new());
    let (mut used, mut arrived, mut taken) = (0, 0, 0);
    for chunk in chunks {
        arrived = stream.len().min(arrived + chunk);
        loop {
            let (next, asked) = memory::asked(|| parser.next(&stream[used..arrived]));
            taken += asked;
            match next {
                Ok(None) => break,
                Ok(Some((command, length))) => {
                    assert!(length > 0 && command.len() <= MAX_ARGS);
                    let args: Vec<Vec<u8>> = command.args_from(0).map(<[u8]>::to_vec).collect();
                    assert!(args.iter().all(|arg| arg.len() <= MAX_ARG_BYTES));
                    run(&command);
                    commands.push(args);
                    used += length;
                }
                Err(error) => return (commands, Some(error)),
            }
        }
        if arrived == stream.len() {
            break;
        }
    }
    let (each, first) = PARSER_BYTES;
    assert!(taken <= stream.len() * each + first, "{taken} bytes of memory");
    (commands, None)
}
