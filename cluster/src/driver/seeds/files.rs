//! Reading files of seeds. What they lie on may never answer, as a network's file system whose
//! server is gone: then a read blocks, and nothing ends it.
//!
//! A file is waited for as long as a question of DNS is. A read that is given up keeps its thread
//! and its place, and the file has no other one until it returns: so the threads are bounded, and a
//! file that blocks takes one of them, and no time of later look-ups.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::timeout;

use super::super::lookup::{TIMEOUT, no_answer};
use super::super::thread::{self, Begin};
use crate::seed::{self, Seed};

/// Threads that read files, at most.
const MAX_READING: usize = 8;

/// The seeds of a file, or why there are none.
type Listed = Result<Vec<Seed>, String>;

/// A read that was given up: what it gives once it returns.
#[derive(Debug)]
pub(super) struct Reading(oneshot::Receiver<Listed>);

/// Reads files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    begin: Begin,
    /// One for each thread that may block.
    places: Arc<Semaphore>,
}

impl Default for Files {
    fn default() -> Self {
        Self::new(thread::begin)
    }
}

impl Files {
    pub(super) fn new(begin: Begin) -> Self {
        Self { begin, places: Arc::new(Semaphore::new(MAX_READING)) }
    }

    /// What a file lists: what was read of it last, if there is an answer in time. A read that is
    /// given up is kept by the caller, and counts once it returns.
    pub(super) async fn read(&self, path: &Path, given_up: &mut Option<Reading>) -> Listed {
        let late = match given_up.as_mut().map(|Reading(listed)| listed.try_recv()) {
            Some(Err(TryRecvError::Empty)) => return Err(no_answer()),
            Some(Ok(listed)) => Some(listed),
            Some(Err(TryRecvError::Closed)) | None => None,
        };
        *given_up = None;
        let read = timeout(TIMEOUT, self.read_now(path, given_up)).await;
        read.unwrap_or_else(|_| late.unwrap_or_else(|| Err(no_answer())))
    }

    async fn read_now(&self, path: &Path, given_up: &mut Option<Reading>) -> Listed {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| no_answer())?;
        let (sender, receiver) = oneshot::channel();
        let path = path.to_owned();
        (self.begin)(Box::new(move || {
            let listed = seed::read_file(&path);
            drop(place);
            let _ = sender.send(listed);
        }))?;
        let Reading(receiver) = given_up.insert(Reading(receiver));
        let listed = receiver.await;
        *given_up = None;
        listed.map_err(|_| thread::ended())?
    }
}

#[cfg(test)]
pub(super) mod tests;
