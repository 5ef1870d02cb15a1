//! Closing a connection so that its client gets the last reply.

use std::io;
use std::time::Duration;

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

/// Closes a connection on which more input may be in flight: closing at once would reset it, and
/// the client's system would discard the last reply.
pub async fn linger(stream: &mut TcpStream) {
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
    let _ = tokio::time::timeout(LINGER, discard).await;
}

/// Reads once, and drops what was read: how many bytes. In [`linger`] itself the buffer would be a
/// part of each connection, for as long as that is open.
fn discard_piece(stream: &TcpStream) -> io::Result<usize> {
    stream.try_read(&mut [0; PIECE_BYTES])
}
