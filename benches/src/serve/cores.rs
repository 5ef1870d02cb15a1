//! Which core a thread runs on, and what threads used of theirs.

use core::time::Duration;
use std::{fs, io};

use rustix::thread::{CpuSet, sched_setaffinity};

/// Where servers run.
pub const OF_SERVERS: usize = 0;
/// Where the load runs.
pub const OF_LOAD: usize = 1;

/// Keeps this thread on a core, and every thread and process that it starts from now on.
///
/// # Errors
/// Where the machine has no such core, or does not leave it to this process.
pub fn stay_on(core: usize) -> io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)
        .map_err(|error| io::Error::other(format!("core {core}: {error}")))
}

/// What threads used, and for how long they were ready to run while their core was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a core.
    pub used: Duration,
    /// Time in which other threads kept the core; of several threads, the one that waited longest.
    pub waited: Duration,
}

impl Usage {
    /// What this thread used so far.
    ///
    /// # Errors
    /// Where the kernel does not report it.
    pub fn of_this_thread() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/schedstat")?)
    }

    /// What the threads of a process used so far that have not ended.
    ///
    /// # Errors
    /// Where the process is gone, or the kernel does not report it.
    pub fn of_process(id: u32) -> io::Result<Self> {
        let mut sum = Self::default();
        for task in fs::read_dir(format!("/proc/{id}/task"))? {
            let line = match fs::read_to_string(task?.path().join("schedstat")) {
                Ok(line) => line,
                Err(error) if has_ended(&error) => continue,
                Err(error) => return Err(error),
            };
            let task = Self::parse(&line)?;
            sum.used += task.used;
            sum.waited = sum.waited.max(task.waited);
        }
        Ok(sum)
    }

    /// What was used since.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            used: self.used.saturating_sub(before.used),
            waited: self.waited.saturating_sub(before.waited),
        }
    }

    /// The share used of the time in which the core was free for these threads.
    #[must_use]
    pub fn share_of(self, elapsed: Duration) -> f64 {
        self.used.as_secs_f64() / elapsed.saturating_sub(self.waited).as_secs_f64()
    }

    /// Nanoseconds on a core, nanoseconds waited for one, and how often it ran.
    fn parse(line: &str) -> io::Result<Self> {
        let mut words = line.split_whitespace().map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(used)), Some(Ok(waited))) => {
                Ok(Self { used: Duration::from_nanos(used), waited: Duration::from_nanos(waited) })
            }
            _ => Err(io::Error::other(format!("no statistics of a thread: {line:?}"))),
        }
    }
}

/// Whether a thread ended after the list of its process's threads was read: its file is gone, or
/// was opened before and says so when it is read.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read() {
        let usage = Usage::parse("331039981 275888 26\n").expect("statistics");
        assert_eq!(usage.used, Duration::from_nanos(331_039_981));
        assert_eq!(usage.waited, Duration::from_nanos(275_888));
        assert!(Usage::parse("").is_err());
        assert!(Usage::parse("1 x 2").is_err());
    }

    #[test]
    fn threads_that_end_meanwhile_are_left_out() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for thread in [(); 16].map(|()| std::thread::spawn(|| ())) {
                        thread.join().expect("nothing panics");
                    }
                }
            });
            let read = (0..500).try_for_each(|_| Usage::of_process(std::process::id()).map(|_| ()));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            read.expect("this process is there");
        });
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        Usage::of_process(u32::MAX).expect_err("no process has this number");
    }

    #[test]
    fn time_that_others_took_is_no_idle_time() {
        let [used, waited] = [3, 6].map(Duration::from_secs);
        let share = Usage { used, waited }.share_of(Duration::from_secs(10));
        assert!((share - 0.75).abs() < 1e-9, "{share}");
    }
}
