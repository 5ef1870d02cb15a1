//! A node that fails, and nodes that end as they are asked to.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::super::start::{Handle, begin};
use super::super::{Command, Waiting};
use super::left_out::Lines;
use super::secret;
use crate::Config;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs a node that founds a cluster until it ends. Once it has begun, the caller has the runtime
/// of its links, and a handle. What it has logged is what it said of a failure.
fn end_of(meanwhile: impl FnOnce(Runtime, &Handle)) -> (Arc<super::Shared>, Waiting, Vec<String>) {
    end_with(&Lines::default(), meanwhile)
}

fn end_with(
    log: &Lines,
    meanwhile: impl FnOnce(Runtime, &Handle),
) -> (Arc<super::Shared>, Waiting, Vec<String>) {
    let _kept = tracing::subscriber::set_default(log.clone());
    let (own, links) = (runtime(), runtime());
    let config = Config::new("127.0.0.1:0".parse().unwrap(), secret("0123456789abcdef"));
    let begun = {
        let _in_links = links.enter();
        begin(config)
    };
    let (handle, running) = begun.unwrap();
    assert!(!handle.1.is_closed());
    meanwhile(links, &handle);
    let (shared, commands) = handle;
    drop(commands);
    let running = async { tokio::time::timeout(Duration::from_mins(1), running).await };
    let waiting = own.block_on(running).expect("it ends");
    let mut said = log.take();
    said.retain(|line| line.contains("has ended by a failure"));
    (shared, waiting, said)
}

/// Its task is gone, as after a panic, or where the socket has failed.
#[test]
fn a_node_that_accepts_no_links_any_more_ends_and_decides_alone() {
    let mut kept = None;
    let (shared, _, said) = end_of(|links, (_, commands)| {
        kept = Some(commands.clone());
        drop(links);
    });
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(kept.is_some_and(|commands| commands.is_closed()));
    let stats = shared.stats();
    assert!(stats.is_alone && stats.alone_for <= shared.stats().alone_for);
    assert!(shared.has_joined() && shared.is_current());
}

/// In a destructor of what a panic drops, another one would end the process.
#[test]
fn a_log_that_panics_ends_no_more_than_the_node() {
    let log = Lines::default();
    let mut kept = None;
    let (shared, ..) = end_with(&log, |links, (_, commands)| {
        kept = Some(commands.clone());
        drop(links);
        log.fail();
    });
    assert!(kept.is_some_and(|commands| commands.is_closed()));
    assert!(shared.stats().is_alone);
}

#[test]
fn a_node_that_ends_as_it_is_asked_to_has_not_failed() {
    let mut kept = None;
    let (shared, _, said) = end_of(|links, _| kept = Some(links));
    assert_eq!(said, Vec::<String>::new());
    assert!(!shared.stats().is_alone);

    let (done, mut left) = oneshot::channel();
    let (shared, waiting, said) = end_of(|links, (_, commands)| {
        commands.try_send(Command::Leave { within: Duration::ZERO, done }).unwrap();
        kept = Some(links);
    });
    assert_eq!(said, Vec::<String>::new());
    assert!(!shared.stats().is_alone);
    // The caller goes on once all has ended.
    assert_eq!(left.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    drop(waiting);
    assert_eq!(left.try_recv(), Err(oneshot::error::TryRecvError::Closed));
}
