//! A connection whose both ends are a loop over epoll.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::PATIENCE;

/// More than what a client asks, or a server answers, at once.
const ROOM: usize = 128 << 10;

/// A connection and what was received on it.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    room: Box<[u8]>,
    /// What was received and not taken yet.
    start: usize,
    end: usize,
}

impl Wire {
    /// Connects to a server.
    ///
    /// # Errors
    /// Where it does not listen.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::new(TcpStream::connect_timeout(&address, PATIENCE)?)
    }

    /// Takes a connection over.
    ///
    /// # Errors
    /// Where it has ended already.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, room: vec![0; ROOM].into(), start: 0, end: 0 })
    }

    /// Reads once; `false` where there was nothing to read.
    ///
    /// # Errors
    /// Where the other end closed, or sent more than there is room for.
    #[inline]
    pub fn receive(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.room.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.room.len() {
            return Err(io::Error::other("a message is too long"));
        }
        match self.stream.read(&mut self.room[self.end..]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.end += read;
                Ok(true)
            }
            Err(error) if is_passing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What was received and not taken yet.
    #[inline]
    #[must_use]
    pub fn received(&self) -> &[u8] {
        &self.room[self.start..self.end]
    }

    /// Takes `length` bytes of what was received.
    #[inline]
    pub fn take(&mut self, length: usize) {
        self.start = (self.start + length).min(self.end);
    }

    /// Writes all: at once, where the socket has room, as it has for what is asked or answered at
    /// once. Waits for room otherwise.
    ///
    /// # Errors
    /// Where the other end closed, or reads nothing for long.
    #[inline]
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_passing(&error) => self.wait_for_room()?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[cold]
    fn wait_for_room(&self) -> io::Result<()> {
        let mut ends = [PollFd::new(&self.stream, PollFlags::OUT)];
        match poll(&mut ends, Some(&timespec(PATIENCE)))? {
            0 => Err(io::Error::new(ErrorKind::TimedOut, "nothing that was sent is read")),
            _ => Ok(()),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn timespec(duration: core::time::Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// Which connections have something to read.
pub struct Watch {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// Where the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        const AT_ONCE: usize = 128;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(AT_ONCE) })
    }

    /// Watches a connection too, until it is closed.
    ///
    /// # Errors
    /// Where the kernel has no memory left.
    pub fn add_wire(&self, wire: &Wire, number: u64) -> io::Result<()> {
        self.add(&wire.stream, number)
    }

    /// Watches whatever can be read, until it is closed.
    ///
    /// # Errors
    /// Where it cannot be watched, as files.
    pub fn add(&self, fd: &impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?)
    }

    /// Waits until something can be read, or `patience` is over, and returns the numbers of what
    /// can.
    ///
    /// # Errors
    /// Never, of a descriptor that is open.
    #[inline]
    pub fn wait(
        &mut self,
        patience: Option<core::time::Duration>,
    ) -> io::Result<impl Iterator<Item = u64>> {
        self.events.clear();
        let patience = patience.map(timespec);
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.iter().map(|event| event.data.u64()))
    }
}
