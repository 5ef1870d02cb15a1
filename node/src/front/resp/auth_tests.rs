use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::testing::{guarded_session, session, talk};
use super::{MAX_GUESSES, NOT_CONFIGURED, REQUIRED, WRONG};
use crate::config::password::{InForce, Password};

fn error(text: &[u8]) -> String {
    format!("-{}", String::from_utf8_lossy(text))
}

fn password() -> InForce {
    InForce::new(password_of("secret"))
}

fn password_of(text: &str) -> Password {
    static FILES: AtomicU64 = AtomicU64::new(0);
    // Relaxed: a number of its own, which orders nothing.
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("tidegate-password-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    let password = Password::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    password
}

#[test]
fn without_a_password_none_is_accepted_and_none_is_needed() {
    for command in ["AUTH x", "AUTH default x", "HELLO 3 AUTH default x"] {
        let mut session = session();
        assert_eq!(talk(&mut session, &[command]), error(NOT_CONFIGURED.1), "{command}");
        assert_eq!(talk(&mut session, &["PING"]), "+PONG");
    }
    assert_eq!(talk(&mut session(), &["AUTH other x"]), error(WRONG.1));
}

#[test]
fn with_a_password_nothing_is_run_before_it_is_given() {
    let password = password();
    let required = error(REQUIRED);
    let mut session = guarded_session(password.clone());
    for command in ["PING", "CL.THROTTLE guarded 1 2 60", "MULTI", "INFO", "CLIENT LIST", "EXEC"] {
        assert_eq!(talk(&mut session, &[command]), required, "{command}");
    }
    let hello = talk(&mut session, &["HELLO 3"]);
    assert!(hello.starts_with("-NOAUTH HELLO must be called with"), "{hello}");
    for wrong in ["AUTH secre", "AUTH other secret", "HELLO 3 AUTH default x"] {
        assert_eq!(
            talk(&mut session, &[wrong, "PING"]),
            format!("{}\r\n{required}", error(WRONG.1))
        );
    }
    // No command before it has taken effect.
    assert_eq!(talk(&mut session, &["AUTH secret", "PING"]), "+OK\r\n+PONG");
    assert_eq!(talk(&mut session, &["AUTH x", "PING"]), format!("{}\r\n+PONG", error(WRONG.1)));
    assert!(talk(&mut session, &["CL.THROTTLE guarded 1 2 60 0"]).contains(":2\r\n:2\r\n"));
    assert_eq!(talk(&mut session, &["RESET", "PING"]), format!("+RESET\r\n{required}"));
    let mut other = guarded_session(password.clone());
    let hello = talk(&mut other, &["HELLO 3 SETNAME \"a b\" AUTH default secret", "PING"]);
    assert!(hello.ends_with(&required), "a client that names itself wrongly is let in: {hello}");
    assert!(talk(&mut other, &["HELLO 3 AUTH default secret"]).starts_with("%7"));
    assert_eq!(talk(&mut guarded_session(password), &["QUIT"]), "+OK");
}

#[test]
fn a_password_is_replaced_for_new_connections() {
    let password = password();
    let (mut inside, mut outside) =
        (guarded_session(password.clone()), guarded_session(password.clone()));
    assert_eq!(talk(&mut inside, &["AUTH secret"]), "+OK");
    password.replace(password_of("renewed"));
    assert_eq!(talk(&mut inside, &["PING"]), "+PONG");
    assert_eq!(talk(&mut outside, &["AUTH secret"]), error(WRONG.1));
    assert_eq!(talk(&mut outside, &["AUTH renewed", "PING"]), "+OK\r\n+PONG");
    // A client that begins anew is asked anew.
    let replies = talk(&mut inside, &["RESET", "AUTH secret", "AUTH renewed"]);
    assert_eq!(replies, format!("+RESET\r\n{}\r\n+OK", error(WRONG.1)));
}

#[test]
fn guesses_are_counted_and_few_in_a_connection() {
    let mut session = guarded_session(password());
    let before = session.service().metrics().guesses();
    for _ in 1..MAX_GUESSES {
        talk(&mut session, &["AUTH guess"]);
        assert!(!session.closing);
    }
    assert_eq!(talk(&mut session, &["AUTH other secret"]), error(WRONG.1));
    assert!(session.closing);
    assert!(session.service().metrics().guesses() >= before + u64::from(MAX_GUESSES));
}
