//! Log lines, on standard error.
//!
//! A thread writes them, so that no thread that logs waits for the reader of standard error. Where
//! that does not read, lines are left out and counted.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | O1 lines left out, all accesses | relaxed | none: a statistic | - | - |

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::cli::LogFormat;
use crate::telemetry::blocking_writer::BlockingWriter;

/// Lines that wait to be written, at most.
const MAX_LINES: usize = 1_024;
/// How long the end of the process waits for what is still to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// What libraries say is shown from here on.
const OF_LIBRARIES: LevelFilter = LevelFilter::WARN;

/// Writes the last lines when it is dropped.
#[derive(Debug)]
pub struct Guard(Option<SyncSender<LogEntry>>);

#[derive(Debug)]
enum LogEntry {
    Line(Vec<u8>),
    /// Everything before is written: answer.
    Flush(SyncSender<()>),
}

/// Shows what is at least as severe as `level`, until the process ends.
pub fn start(level: LevelFilter, format: LogFormat) -> Guard {
    if format == LogFormat::Json {
        report_panics_in_json();
    }
    if level == LevelFilter::OFF {
        return Guard(None);
    }
    let (lines, written) = sync_channel(MAX_LINES);
    let left_out = Arc::new(AtomicU64::new(0));
    let writer = Writer { lines: lines.clone(), left_out: Arc::clone(&left_out) };
    let thread = std::thread::Builder::new().name("log".to_owned());
    if thread
        .spawn(move || write(&written, &left_out, format, &mut BlockingWriter(io::stderr())))
        .is_err()
    {
        // Without a thread there is no log; the node works all the same.
        return Guard(None);
    }
    let targets = Targets::new()
        .with_default(level.min(OF_LIBRARIES))
        .with_targets([("tidegate", level), ("tidegate_cluster", level)]);
    let lines_of = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    let registry = tracing_subscriber::registry().with(targets);
    // An error says that the process has a subscriber already, as in a test.
    let _ = match format {
        LogFormat::Text => registry.with(lines_of).try_init(),
        LogFormat::Json => registry.with(lines_of.json().flatten_event(true)).try_init(),
    };
    Guard(Some(lines))
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(lines) = self.0.take() else { return };
        let (done, flushed) = sync_channel(1);
        if lines.try_send(LogEntry::Flush(done)).is_ok() {
            // A reader that does not read does not keep the process.
            let _ = flushed.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn write(
    entries: &Receiver<LogEntry>,
    left_out: &AtomicU64,
    format: LogFormat,
    out: &mut impl Write,
) {
    while let Ok(entry) = entries.recv() {
        // A closed standard error does not stop the node.
        let _ = match entry {
            LogEntry::Line(line) => out.write_all(&line),
            LogEntry::Flush(done) => done.send(()).or(Ok(())),
        };
        // O1
        let missing = left_out.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let _ = out.write_all(lines_left_out(missing, format).as_bytes());
        }
    }
}

/// As the subscriber writes lines.
fn lines_left_out(missing: u64, format: LogFormat) -> String {
    let now = jiff::Timestamp::now();
    let message = format!("{missing} lines left out: standard error is not read");
    match format {
        LogFormat::Text => format!("{now:.6}  WARN tidegate: {message}\n"),
        LogFormat::Json => json_line(Level::WARN, &message, &[]),
    }
}

/// A line as the subscriber writes it in JSON, for what is written without it.
pub fn json_line(level: Level, message: &str, fields: &[(&str, String)]) -> String {
    let now = jiff::Timestamp::now();
    let mut line = serde_json::json!({
        "timestamp": format!("{now:.6}"), "level": level.as_str(),
        "message": message, "target": "tidegate",
    });
    for (name, value) in fields {
        line[name] = value.as_str().into();
    }
    format!("{line}\n")
}

/// Makes panics lines of the log's format.
fn report_panics_in_json() {
    panic::set_hook(Box::new(|panic| {
        let message = panic.to_string().replace('\n', " ");
        let mut fields = Vec::new();
        if let Some(name) = std::thread::current().name() {
            fields.push(("thread", name.to_owned()));
        }
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            fields.push(("backtrace", backtrace.to_string()));
        }
        // Not by the thread of the log: the process may be about to end.
        let _ = io::stderr().write_all(json_line(Level::ERROR, &message, &fields).as_bytes());
    }));
}

/// Hands lines to the thread, and never waits.
#[derive(Clone, Debug)]
struct Writer {
    lines: SyncSender<LogEntry>,
    left_out: Arc<AtomicU64>,
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(LogEntry::Line(line.to_vec())).is_err() {
            // O1
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written of five lines where two have room.
    fn written(format: LogFormat) -> String {
        let (lines, written) = sync_channel(2);
        let left_out = Arc::new(AtomicU64::new(0));
        let mut writer = Writer { lines, left_out: Arc::clone(&left_out) };
        for _ in 0..5 {
            writer.write_all(b"{}\n").unwrap();
        }
        drop(writer);
        let mut out = Vec::new();
        write(&written, &left_out, format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn logging_does_not_wait_and_what_is_left_out_is_counted() {
        let text = written(LogFormat::Text);
        assert_eq!(text.matches("{}\n").count(), 2, "{text}");
        assert!(text.contains("Z  WARN tidegate: 3 lines left out"), "{text}");
    }

    #[test]
    fn what_is_left_out_is_counted_in_the_format_of_the_log() {
        let text = written(LogFormat::Json);
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<serde_json::Value> = lines.collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1]["message"].as_str().unwrap().starts_with("3 lines left out"), "{text}");
    }
}
