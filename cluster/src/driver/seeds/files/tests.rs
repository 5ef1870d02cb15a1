//! Reads that block, in time that passes only while nothing else happens. They take no threads, so
//! that nothing happens elsewhere.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::super::thread::Work;
use super::*;

thread_local! {
    /// Reads that block, and how many more do.
    static BLOCKED: RefCell<(Vec<Work>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

/// From now on `more` reads block; those that did return.
pub(in super::super) fn block(more: usize) {
    let returning = BLOCKED.with(|blocked| blocked.replace((Vec::new(), more)).0);
    for read in returning {
        read();
    }
}

/// Reads that block.
pub(in super::super) fn blocked() -> usize {
    BLOCKED.with_borrow(|(reads, _)| reads.len())
}

/// Reads at once or blocks.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there may be no thread")]
pub(in super::super) fn begin(read: Work) -> Result<(), String> {
    let read = BLOCKED.with_borrow_mut(|(reads, more)| {
        if *more == 0 {
            return Some(read);
        }
        *more -= 1;
        reads.push(read);
        None
    });
    if let Some(read) = read {
        read();
    }
    Ok(())
}

/// A file that is removed at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let name = format!("tidegate-reading-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn write(&self, text: &str) -> Listed {
        std::fs::write(&self.0, text).unwrap();
        seed::parse_file(text)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What is read, and how long it takes.
async fn read(files: &Files, file: &File, given_up: &mut Option<Reading>) -> (Listed, Duration) {
    let start = Instant::now();
    let listed = files.read(&file.0, given_up).await;
    (listed, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_file_that_blocks_is_given_up_and_has_one_thread() {
    let (files, file) = (Files::new(begin), File::new("blocks"));
    let listed = file.write("10.0.0.1:1");
    let mut given_up = None;
    block(5);
    assert_eq!(read(&files, &file, &mut given_up).await, (Err(no_answer()), TIMEOUT));
    for _ in 0..5 {
        assert_eq!(read(&files, &file, &mut given_up).await, (Err(no_answer()), Duration::ZERO));
        assert_eq!(blocked(), 1);
    }
    block(0);
    assert_eq!(read(&files, &file, &mut given_up).await, (listed, Duration::ZERO));
    assert!(given_up.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_read_late_counts_unless_there_is_something_newer() {
    let (files, file) = (Files::new(begin), File::new("late"));
    let first = file.write("10.0.0.1:1");
    let mut given_up = None;
    block(1);
    read(&files, &file, &mut given_up).await.0.unwrap_err();
    // It returns, and the next one blocks.
    block(1);
    let second = file.write("10.0.0.2:1");
    assert_eq!(read(&files, &file, &mut given_up).await, (first, TIMEOUT));
    block(0);
    let third = file.write("10.0.0.3:1");
    assert_ne!(second, third);
    assert_eq!(read(&files, &file, &mut given_up).await.0, third);
}

#[tokio::test(start_paused = true)]
async fn threads_that_read_are_bounded_and_others_go_on() {
    let files = Files::new(begin);
    let file = Arc::new(File::new("bounded"));
    let listed = file.write("10.0.0.1:1");
    block(usize::MAX);
    let mut given_up: Vec<_> = (0..2 * MAX_READING).map(|_| None).collect();
    for _ in 0..3 {
        let mut reading = JoinSet::new();
        for mut kept in given_up.drain(..) {
            let (files, file) = (files.clone(), Arc::clone(&file));
            reading.spawn(async move {
                assert_eq!(files.read(&file.0, &mut kept).await, Err(no_answer()));
                kept
            });
        }
        given_up = reading.join_all().await;
        assert_eq!(blocked(), MAX_READING);
    }
    block(0);
    for mut kept in given_up {
        assert_eq!(read(&files, &file, &mut kept).await, (listed.clone(), Duration::ZERO));
    }
}

#[tokio::test]
async fn a_read_whose_thread_is_gone_is_an_error_and_gives_its_place_back() {
    let files = Files::new(|_| Ok(()));
    for _ in 0..=MAX_READING {
        let mut given_up = None;
        let listed = files.read(Path::new("/"), &mut given_up).await;
        assert_eq!((listed, given_up.is_none()), (Err(thread::ended()), true));
    }
    let none = Files::new(|_| Err("no thread".to_owned()));
    let listed = none.read(Path::new("/"), &mut None).await;
    assert_eq!(listed, Err("no thread".to_owned()));
}
