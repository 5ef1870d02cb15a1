//! What is said of lines about members that the log leaves out.

use std::fmt::{Debug, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event as Line, Metadata, Subscriber};

use super::super::*;
use super::{MemberState, secret};
use crate::config::Config;
use crate::driver::keys::Keys;
use crate::protocol::{Event, NodeId, Options};

/// Members that go down at once.
const DOWN: u16 = 60;

/// Keeps the lines of a thread: each message with the fields, one after the other.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<String>>>, Arc<AtomicBool>);

impl Lines {
    /// From here on each line is a panic.
    pub(super) fn fail(&self) {
        self.1.store(true, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.target() == logging::TARGET
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, line: &Line<'_>) {
        assert!(!self.1.load(Ordering::Relaxed), "the log is broken");
        let mut text = Text(String::new());
        line.record(&mut text);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The driver of a node that reaches no other.
pub(super) fn driver() -> Driver {
    let config = Config::new("127.0.0.1:0".parse().unwrap(), secret("0123456789abcdef"));
    let addr: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let configs = Configs::of(&config.name, addr, &config.trust).unwrap();
    let endpoint = Endpoint::server(configs.server.clone(), config.bind).unwrap();
    let shared = Arc::new(Shared::new(addr, Keys::new([0; 16]), Instant::now()));
    let host = Limiters::new(Arc::clone(&shared));
    let core = Core::new(NodeId::new(addr, 1), Options::default(), host, 0);
    let reports = Reports { events: mpsc::channel(1).0, datagrams: mpsc::channel(1).0 };
    Driver::new(core, shared, endpoint, config.name, configs, reports)
}

/// Members that go down at once, each said or left out.
fn go_down(driver: &mut Driver) {
    for last in 1..=DOWN {
        let id = NodeId::new(SocketAddr::new([10, 0, 0, 1].into(), last), 1);
        let (was, is) = (Some(MemberState::Suspect), MemberState::Down);
        driver.event_log.record(&Event::Member { id, was, is });
    }
}

/// Lines that name a member each, and the numbers that others say were left out.
fn said(lines: &[String]) -> (usize, Vec<String>) {
    let down = lines.iter().filter(|line| line.contains("member down"));
    let (named, others): (Vec<_>, Vec<_>) = down.partition(|line| line.contains("member="));
    let number = |line: &&String| {
        let number = line.split("left_out=").nth(1).and_then(|rest| rest.split(' ').next());
        number.unwrap_or_default().to_owned()
    };
    (named.len(), others.iter().map(number).collect())
}

/// As one of two processes with one address joins in turn with the other.
#[tokio::test(start_paused = true)]
async fn an_address_that_joins_again_and_again_leaves_out_no_other_one() {
    let lines = Lines::default();
    let _kept = tracing::subscriber::set_default(lines.clone());
    let mut driver = driver();
    let mut joins = |port, generation| {
        let id = NodeId::new(SocketAddr::new([10, 0, 0, 1].into(), port), generation);
        driver.event_log.record(&Event::Member { id, was: None, is: MemberState::Alive });
    };
    for turn in 0..2_000 {
        joins(1 + (turn % 2) as u16, turn);
        tokio::time::advance(Duration::from_millis(150)).await;
    }
    lines.take();
    for port in 10..40 {
        joins(port, 1);
    }
    let lines = lines.take();
    for port in 10..40 {
        let name = format!("member=10.0.0.1:{port}/1 ");
        assert!(lines.iter().any(|line| line.contains(&name)), "{name}: {lines:?}");
    }
}

/// Nothing else happens, and no further member goes down.
#[tokio::test(start_paused = true)]
async fn members_that_are_left_out_are_counted_by_a_line_of_their_own() {
    let lines = Lines::default();
    let _kept = tracing::subscriber::set_default(lines.clone());
    let mut driver = driver();
    go_down(&mut driver);
    let first = lines.take();
    assert_eq!(said(&first), (32, Vec::new()), "{first:?}");
    let due = driver.event_log.due().unwrap();
    let just_before = due - Duration::from_millis(1);
    sleep_until(just_before).await;
    driver.act();
    driver.on_time();
    assert_eq!(said(&lines.take()), (0, Vec::new()));
    // What is due of the protocol is done.
    assert_eq!(driver.wake_at(), due);
    sleep_until(due).await;
    driver.on_time();
    let later = lines.take();
    assert_eq!(said(&later), (0, vec!["28".to_owned()]), "{later:?}");
    let named = ["10.0.0.1:53,", "10.0.0.1:60"].map(|addr| later.iter().any(|l| l.contains(addr)));
    assert_eq!(named, [true, true], "{later:?}");
    assert_eq!(driver.event_log.due(), None);
}

/// A caller that waits for a leave may end the process once it is over.
#[tokio::test(start_paused = true)]
async fn members_that_are_left_out_are_counted_at_the_end() {
    let lines = Lines::default();
    let _kept = tracing::subscriber::set_default(lines.clone());
    for leaves in [false, true] {
        let mut driver = driver();
        go_down(&mut driver);
        if leaves {
            driver.finish_leaving(Instant::now()).await;
        } else {
            drop(driver);
        }
        let all = lines.take();
        assert_eq!(said(&all), (32, vec!["28".to_owned()]), "{leaves}: {all:?}");
    }
    assert_eq!(said(&lines.take()), (0, Vec::new()));
}
