//! Closing a connection so that its client gets the last reply.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// How long a client may take to read the last reply on a connection that the node closes.
pub const LINGER: Duration = Duration::from_secs(1);
/// How much more it may send in that time, in bytes: of a large body most is under way when its
/// head is refused.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// How much of that is discarded at a time, in bytes.
const PIECE_BYTES: usize = 4 * 1024;
/// How much is discarded before others of its thread go on, in bytes.
const TURN_BYTES: usize = 64 * 1024;
/// Less room to send from than the system gives a socket, in bytes: it gives the least that it may.
const LEAST_ROOM: usize = 1;
/// A socket with this mark is writable only when all is sent, in bytes.
#[cfg(target_os = "linux")]
const ALL_SENT: u32 = 1;

/// Closes a connection on which more input may be in flight: closing at once would reset it, and
/// the client's system would discard the last reply.
pub async fn linger(stream: &mut TcpStream) {
    linger_for(stream, LINGER).await;
}

/// The same, where its client may take this long.
pub async fn linger_for(stream: &mut TcpStream, time: Duration) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let discard = async {
        let (mut left, mut turn) = (MAX_BYTES, TURN_BYTES);
        while left > 0 && stream.readable().await.is_ok() {
            match discard_piece(stream) {
                Ok(0) => break,
                Ok(count) => {
                    left = left.saturating_sub(count);
                    turn = turn.saturating_sub(count);
                    // A socket that has data never suspends the task.
                    if turn == 0 {
                        tokio::task::yield_now().await;
                        turn = TURN_BYTES;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    };
    let _ = tokio::time::timeout(time, discard).await;
}

/// Whether the system holds replies that it could not send, or more than about 2 KiB of which it
/// does not know that they have arrived. To be asked before this side is closed, and when nothing
/// more is to be written: it takes the socket's room.
pub fn holds_replies(stream: &TcpStream) -> bool {
    // A socket is writable if what is not acknowledged fits two thirds of its room, and less than
    // its mark is not sent. What the system does not let be set is left as it is.
    let _ = sockopt::set_socket_send_buffer_size(stream, LEAST_ROOM);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(ALL_SENT);
    let mut socket = [PollFd::new(stream, PollFlags::OUT)];
    poll(&mut socket, Some(&Timespec::default())) == Ok(0)
}

/// Reads once, and drops what was read: how many bytes. In [`linger`] itself the buffer would be a
/// part of each connection, for as long as that is open.
fn discard_piece(stream: &TcpStream) -> io::Result<usize> {
    stream.try_read(&mut [0; PIECE_BYTES])
}
