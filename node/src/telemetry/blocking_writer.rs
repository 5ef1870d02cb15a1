//! A pipe that does not block, as supervisors hand on, written as one that does.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Waits for the reader where a write would not, so that nothing of a text is left out.
#[derive(Debug)]
pub struct BlockingWriter<W>(pub W);

impl<W: Write + AsFd> BlockingWriter<W> {
    fn waiting<T>(&mut self, mut act: impl FnMut(&mut W) -> io::Result<T>) -> io::Result<T> {
        loop {
            match act(&mut self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                done => return done,
            }
        }
    }
}

impl<W: Write + AsFd> Write for BlockingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting(|out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.waiting(W::flush)
    }
}

/// Prints a text on standard output, as a whole.
///
/// # Errors
/// One line, as of a full disk; a closed pipe is not a failure.
pub fn print(text: &str) -> Result<(), String> {
    let mut out = BlockingWriter(io::stdout());
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| format!("standard output: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::io::ioctl_fionbio;

    use super::*;

    #[test]
    fn what_a_pipe_has_no_room_for_waits_for_its_reader() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        ioctl_fionbio(&writer, true).unwrap();
        let mut filled = 0;
        while let Ok(count) = writer.write(b"x") {
            filled += count;
        }
        // Of which one write takes a part.
        let line = "l".repeat(filled + 1);
        let expected = line.clone();
        let written = std::thread::spawn(move || BlockingWriter(writer).write_all(line.as_bytes()));
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        written.join().unwrap().unwrap();
        assert_eq!(read.trim_start_matches('x'), expected);
    }
}
