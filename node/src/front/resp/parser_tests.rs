use proptest::prelude::*;

use super::{MAX_ARG_BYTES, MAX_ARGS, MAX_INLINE_BYTES, Parser, ProtocolError};

type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Feeds the pieces one after another as a connection does: what is not used yet is kept.
fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut parser = Parser::default();
    let (mut kept, mut commands) = (Vec::new(), Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece);
        loop {
            match parser.next(&kept) {
                Ok(None) => break,
                Ok(Some((command, used))) => {
                    commands.push(command.args_from(0).map(<[u8]>::to_vec).collect());
                    kept.drain(..used);
                }
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

fn one(input: &[u8]) -> Vec<Vec<u8>> {
    let (mut commands, error) = feed([input]);
    assert_eq!(error, None);
    assert_eq!(commands.len(), 1);
    commands.remove(0)
}

fn error(input: &[u8]) -> ProtocolError {
    feed([input]).1.expect("a protocol error")
}

fn encode(args: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend(arg);
        bytes.extend(b"\r\n");
    }
    bytes
}

#[test]
fn a_command_is_an_array_of_strings() {
    assert_eq!(one(b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n"), [b"ECHO".to_vec(), b"\r\n".to_vec()]);
    assert_eq!(one(b"*1\r\n$0\r\n\r\n"), [b""]);
}

#[test]
fn empty_commands_ask_for_nothing() {
    for input in [&b"*0\r\n"[..], b"*-1\r\n", b"\r\n", b"\n", b"   \r\n"] {
        assert!(one(input).is_empty());
    }
}

#[test]
fn inline_commands_are_split_at_spaces() {
    assert_eq!(one(b"PING\r\n"), [b"PING"]);
    assert_eq!(one(b"  a \t b\n"), [b"a", b"b"]);
}

#[test]
fn inline_words_may_be_quoted() {
    assert_eq!(one(b"echo \"a b\\n\\x41\\q\"\r\n"), [b"echo".to_vec(), b"a b\nAq".to_vec()]);
    assert_eq!(one(b"echo 'a \\' \\n'\r\n"), [b"echo".to_vec(), b"a ' \\n".to_vec()]);
    assert_eq!(one(b"echo \"\"\r\n"), [b"echo".to_vec(), Vec::new()]);
    for line in [&b"echo \"a\r\n"[..], b"echo 'a\n", b"echo \"a\"b\n", b"echo \"a\\\n"] {
        assert_eq!(error(line), ProtocolError::UnbalancedQuotes);
    }
}

#[test]
fn arguments_are_bounded() {
    let full = vec![vec![b'x'; MAX_ARG_BYTES]; 2];
    assert_eq!(one(&encode(&full)), full);
    let many = vec![b"x".to_vec(); MAX_ARGS];
    assert_eq!(one(&encode(&many)), many);

    let longer = encode(&[vec![b'x'; MAX_ARG_BYTES + 1]]);
    assert_eq!(error(&longer), ProtocolError::ArgumentTooLong);
    let more = encode(&vec![b"x".to_vec(); MAX_ARGS + 1]);
    assert_eq!(error(&more), ProtocolError::TooManyArguments);
    assert_eq!(error(b"*65\r\n"), ProtocolError::TooManyArguments);
    assert_eq!(error(b"*1\r\n$65537\r\n"), ProtocolError::ArgumentTooLong);
    assert_eq!(error(b"*999999999999999999999\r\n"), ProtocolError::ArgumentCount);
    let words = [b"x ".repeat(MAX_ARGS + 1), b"\r\n".to_vec()].concat();
    assert_eq!(error(&words), ProtocolError::TooManyArguments);
}

/// As the Redis server has it, so that strangers hold little.
#[test]
fn commands_are_short_before_a_password_is_given() {
    let guarded = |input: &[u8]| {
        let mut parser = Parser { is_guarded: true, ..Parser::default() };
        parser.next(input).map(|command| command.map(|(command, _)| command.len()))
    };
    let arg = |length| vec![b'x'; length];
    assert_eq!(guarded(&encode(&vec![arg(16_384); 10])), Ok(Some(10)));
    assert_eq!(guarded(&encode(&vec![arg(1); 11])), Err(ProtocolError::GuardedArguments));
    assert_eq!(guarded(&encode(&[arg(16_385)])), Err(ProtocolError::GuardedArgument));
    assert_eq!(guarded(&[arg(16_384), b"\r\n".to_vec()].concat()), Ok(Some(1)));
    assert_eq!(
        guarded(&[arg(16_385), b"\r\n".to_vec()].concat()),
        Err(ProtocolError::InlineTooLong)
    );
    assert_eq!(guarded(&arg(16_386)), Err(ProtocolError::InlineTooLong));
}

#[test]
fn lines_are_bounded() {
    let longest = [vec![b'x'; MAX_INLINE_BYTES], b"\r\n".to_vec()].concat();
    assert_eq!(one(&longest)[0].len(), MAX_INLINE_BYTES);
    let longer = [b"x", longest.as_slice()].concat();
    assert_eq!(error(&longer), ProtocolError::InlineTooLong);
    assert_eq!(error(&vec![b'x'; MAX_INLINE_BYTES + 2]), ProtocolError::InlineTooLong);
    assert_eq!(error(&[b'*'; 32]), ProtocolError::HeaderTooLong);
}

#[test]
fn what_is_not_the_protocol_is_an_error() {
    assert_eq!(error(b"*x\r\n"), ProtocolError::ArgumentCount);
    assert_eq!(error(b"*\r\n"), ProtocolError::ArgumentCount);
    assert_eq!(error(b"*+1\r\n"), ProtocolError::ArgumentCount);
    assert_eq!(error(b"*1\r\n:1\r\n"), ProtocolError::ExpectedArgument);
    assert_eq!(error(b"*1\r\n$-1\r\n"), ProtocolError::ArgumentLength);
    assert_eq!(error(b"*1\r\n$1\r\nxx\r\n"), ProtocolError::ArgumentEnd);
}

/// Scanning an unfinished line again for each byte that arrives would take 2 * 10^9 steps here.
#[test]
fn a_line_that_trickles_in_is_scanned_once() {
    let mut parser = Parser::default();
    let line = vec![b'x'; MAX_INLINE_BYTES];
    for end in 1..line.len() {
        assert!(parser.next(&line[..end]).unwrap().is_none());
        assert_eq!(parser.at, end);
    }
}

fn commands() -> impl Strategy<Value = Vec<u8>> {
    let arg = prop::collection::vec(any::<u8>(), 0..40);
    let array = prop::collection::vec(arg, 0..8).prop_map(|args| encode(&args));
    let inline = "[a-z]{1,8}( [a-z0-9]{1,8}){0,5}\r?\n".prop_map(String::into_bytes);
    prop::collection::vec(prop_oneof![array, inline], 1..8).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_answered(input in prop::collection::vec(any::<u8>(), 0..300)) {
        feed([input.as_slice()]);
    }

    #[test]
    fn bytes_that_look_right_are_answered(
        input in "[*$]{0,2}[0-9-]{0,3}(\r\n)?[*$\"' \\\\a-z0-9\r\n]{0,60}",
    ) {
        feed([input.as_bytes()]);
    }

    #[test]
    fn any_split_parses_the_same(
        input in commands(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([input.len()]) {
            pieces.push(&input[from..cut]);
            from = cut;
        }
        prop_assert_eq!(feed(pieces), feed([input.as_slice()]));
    }

    #[test]
    fn what_is_encoded_is_what_is_read(
        args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..20),
    ) {
        prop_assert_eq!(one(&encode(&args)), args);
    }
}
