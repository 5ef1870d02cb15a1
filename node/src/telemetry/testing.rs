//! The lines of the log that a test causes on its thread.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Registry;

/// With one subscriber alone, tracing caches of each line whether the first thread that reaches it
/// has a subscriber that wants it; a thread without one would turn the line off for all. With a
/// second subscriber it asks each thread.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));

/// Takes the lines of its thread until it is dropped.
#[derive(Debug)]
pub struct Captured {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub fn start() -> Self {
        LazyLock::force(&SECOND);
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// What has been logged so far.
    pub fn text(&self) -> String {
        let text = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
