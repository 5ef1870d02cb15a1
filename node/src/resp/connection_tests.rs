use std::sync::Arc;

use tidegate_engine::KeyHasher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{FrontEnd, RespFrontEnd, ServerInfo};
use crate::budget::Budget;
use crate::config::LimitConfig;
use crate::gossip::Gossip;
use crate::limiters::Limiters;
use crate::service::Service;

/// A front-end whose connections may hold `unread` bytes of incomplete commands.
fn front_end(unread: usize) -> RespFrontEnd {
    let limiters =
        Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &KeyHasher::siphash([7; 16]));
    let service = Arc::new(Service::new(limiters.unwrap(), Gossip::alone()));
    let address = "127.0.0.1:1".parse().unwrap();
    let server = Arc::new(ServerInfo::with_budget(address, Budget::new(unread)));
    RespFrontEnd { service, server }
}

/// A client of the front-end.
async fn connect(front_end: &RespFrontEnd) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    tokio::spawn(front_end.serve(accepted.unwrap().0, CancellationToken::new()));
    client.unwrap()
}

async fn expect(client: &mut TcpStream, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    client.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

async fn expect_end(client: &mut TcpStream, expected: &str) {
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, expected);
}

/// Time is paused: it advances as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_command_that_never_ends_is_not_waited_for() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    client.write_all(b"PING\r\n*2\r\n$4\r\nECHO\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
    expect_end(&mut client, "-ERR the command took too long to arrive\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn silence_between_commands_may_be_long() {
    let front_end = front_end(1024 * 1024);
    let mut client = connect(&front_end).await;
    client.write_all(b"PING\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
    tokio::time::sleep(super::COMMAND_TIMEOUT * 100).await;
    client.write_all(b"PING\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
}

#[tokio::test]
async fn connections_share_what_they_may_hold_unread() {
    let front_end = front_end(100 * 1024);
    let head = b"PING\r\n*2\r\n$4\r\nECHO\r\n$60000\r\n";
    let half = [head.as_slice(), &vec![b'x'; 59_000]].concat();
    let mut first = connect(&front_end).await;
    first.write_all(&half).await.unwrap();
    expect(&mut first, "+PONG\r\n").await;
    let mut second = connect(&front_end).await;
    second.write_all(&half).await.unwrap();
    let problem = "-ERR too many commands have not arrived in full\r\n";
    let refused = async |client: &mut TcpStream| {
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with(problem), "{text}");
    };
    // The connection that exceeded the budget is closed, and the other one continues.
    let mut other = tokio::select! {
        () = refused(&mut first) => second,
        () = refused(&mut second) => first,
    };
    let rest = [[b'x'; 1_000].as_slice(), b"\r\nPING\r\n"].concat();
    other.write_all(&rest).await.unwrap();
    let mut answer = vec![0; 60_000];
    other.read_exact(&mut answer).await.unwrap();
    // It has returned what it held.
    let mut third = connect(&front_end).await;
    third.write_all(&half).await.unwrap();
    third.write_all(&rest).await.unwrap();
    let mut answer = vec![0; 60_000];
    third.read_exact(&mut answer).await.unwrap();
}
