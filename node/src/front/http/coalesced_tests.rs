use std::cell::Cell;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::super::socket::ClientSocket;
use super::{Bounded, MAX_COALESCED_BYTES};
use crate::config::bounds::MAX_UNSENT_BYTES;
use crate::front::net::unread_bytes;
use crate::front::unsent::tests::{pair, unsent};

/// Answers of these lengths, which a connection writes before it `ends`, or waits: how many bytes
/// its client has when all are written. The client gets all of them.
async fn early(lengths: &[usize], ends: bool) -> u64 {
    let (client, mut accepted) = pair().await;
    let (_, mut unsent) = unsent(MAX_UNSENT_BYTES);
    let socket = ClientSocket::new(Bounded { stream: &mut accepted, unsent: &mut unsent });
    let answers: Vec<Vec<u8>> = (b'a'..).zip(lengths).map(|(byte, &of)| vec![byte; of]).collect();
    let early = Cell::new(0);
    let connection = async {
        let mut written = &socket;
        for answer in &answers {
            written.write_all(answer).await.unwrap();
            written.flush().await.unwrap();
        }
        early.set(unread_bytes(&client));
        if !ends {
            pending::<()>().await;
        }
    };
    let all = answers.concat();
    let read = async {
        let mut read: Vec<u8> = Vec::new();
        while read.len() < all.len() {
            client.readable().await.unwrap();
            let mut part = [0; 4_096];
            read.extend(client.try_read(&mut part).map_or(&[][..], |bytes| &part[..bytes]));
        }
        read
    };
    let drive = async {
        socket.drive(pin!(connection)).await;
        socket.send_rest().await;
        pending::<()>().await;
    };
    let read = tokio::time::timeout(Duration::from_secs(20), async {
        tokio::select! { biased; () = drive => unreachable!(), read = read => read }
    });
    assert!(read.await.expect("all answers") == all);
    early.get()
}

#[tokio::test]
async fn answers_are_sent_together_once_the_connection_waits() {
    assert_eq!(early(&[300], false).await, 0);
    assert_eq!(early(&[300; 16], false).await, 0);
}

#[tokio::test]
async fn what_was_answered_before_an_end_is_sent() {
    assert_eq!(early(&[300; 3], true).await, 0);
}

#[tokio::test]
async fn what_is_coalesced_is_bounded() {
    let (half, large) = (MAX_COALESCED_BYTES / 2, MAX_COALESCED_BYTES * 5);
    assert_eq!(early(&[half, half, 1], false).await, MAX_COALESCED_BYTES as u64);
    assert_eq!(early(&[half, half + 1], false).await, half as u64);
    early(&[1, large, 1, large, half, half, half], false).await;
}
