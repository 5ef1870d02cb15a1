use std::cell::RefCell;

use super::super::dns_server::DnsServer;
use super::super::thread::Work;
use super::*;

thread_local! {
    /// Questions to the system that are not answered.
    static WAITING: RefCell<Vec<Work>> = const { RefCell::new(Vec::new()) };
}

#[expect(clippy::unnecessary_wraps, reason = "elsewhere there may be no thread")]
fn wait(question: Work) -> Result<(), String> {
    WAITING.with_borrow_mut(|waiting| waiting.push(question));
    Ok(())
}

fn resolver(server: &DnsServer, from: &str) -> Arc<Resolver> {
    Arc::new(Resolver::new(vec![server.addr], from.parse().unwrap()))
}

fn shown(found: &BTreeSet<SocketAddr>) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_name_has_all_addresses_that_can_be_dialled_from_here() {
    let server = DnsServer::start().await;
    let undialable = ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "fe80::1"];
    let nodes = ["10.0.0.2", "10.0.0.1", "fd00::1"];
    server.set("nodes.test.", &[&nodes[..], &undialable].concat());
    server.set("six.test.", &["fd00::1"]);
    let four = ["10.0.0.1:7", "10.0.0.2:7"].map(str::to_owned).to_vec();
    let both = [four.clone(), vec!["[fd00::1]:7".to_owned()]].concat();
    for (from, expected) in
        [("127.0.0.1", four), ("::", both), ("::1", vec!["[fd00::1]:7".to_owned()])]
    {
        let found = resolver(&server, from).name("nodes.test", 7).await.unwrap();
        assert_eq!(shown(&found), expected, "{from}");
    }
    let found = resolver(&server, "127.0.0.1").name("six.test", 7).await;
    assert!(found.as_ref().is_err_and(|error| error.contains("dialled from here")), "{found:?}");
    let found = resolver(&server, "127.0.0.1").name("none.test", 7).await;
    assert_eq!(found, Err("there are no such records".to_owned()));
}

#[tokio::test]
async fn a_service_has_the_addresses_and_ports_of_its_targets() {
    let server = DnsServer::start().await;
    let resolver = resolver(&server, "127.0.0.1");
    server.set("a.test.", &["10.0.0.1", "10.0.0.2"]);
    server.set("b.test.", &["10.0.0.3"]);
    let service = "_tidegate._udp.test";
    assert!(resolver.service(service).await.is_err());
    server.set(&format!("{service}."), &["1 a.test.", "2 b.test.", "3 gone.test.", "0 ."]);
    let found = resolver.service(service).await.unwrap();
    assert_eq!(shown(&found), ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:2"]);
    server.set(&format!("{service}."), &["3 gone.test."]);
    assert!(resolver.service(service).await.is_err());
}

#[tokio::test]
async fn a_name_gives_a_bounded_number_of_addresses() {
    let server = DnsServer::start().await;
    // As many as one datagram takes.
    let many: Vec<String> = (0..70).map(|last| format!("10.0.0.{last}")).collect();
    server.set("many.test.", &many.iter().map(String::as_str).collect::<Vec<_>>());
    let found = resolver(&server, "127.0.0.1").name("many.test", 1).await.unwrap();
    assert_eq!(found.len(), MAX_ADDRESSES);
    assert_eq!(found.last().unwrap().to_string(), "10.0.0.63:1");
}

#[tokio::test]
async fn the_system_knows_this_host() {
    let resolver = Resolver::new(Vec::new(), "127.0.0.1".parse().unwrap());
    let found = resolver.name("localhost", 7).await.unwrap();
    assert!(found.contains(&"127.0.0.1:7".parse().unwrap()), "{found:?}");
}

/// Each time it takes longer than it is waited for.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_answered_late_is_found_by_who_asks_next() {
    let mut resolver = Resolver::new(Vec::new(), "127.0.0.1".parse().unwrap());
    resolver.begin = wait;
    let answer = || {
        let mut waiting = WAITING.take();
        assert_eq!(waiting.len(), 1);
        waiting.pop().unwrap()();
    };
    for _ in 0..=MAX_BLOCKED {
        assert_eq!(resolver.name("localhost", 7).await, Err(no_answer()));
    }
    for _ in 0..2 {
        answer();
        // Asked anew, without an answer either.
        let found = resolver.name("localhost", 7).await.unwrap();
        assert!(found.contains(&"127.0.0.1:7".parse().unwrap()), "{found:?}");
    }
    // It is waited for.
    let (found, ()) = tokio::join!(resolver.name("localhost", 7), async { answer() });
    assert!(found.is_ok(), "{found:?}");
    assert_eq!(resolver.name("localhost", 7).await, Err(no_answer()));
    // Its thread has ended.
    drop(WAITING.take());
    assert_eq!(resolver.name("localhost", 7).await, Err(thread::ended()));
    assert_eq!(resolver.name("localhost", 7).await, Err(no_answer()));
}

#[tokio::test]
async fn a_server_that_says_nothing_of_one_family_hides_nothing_of_the_other() {
    let server = DnsServer::start().await;
    server.set("four-only.test.", &["10.0.0.1"]);
    let found = resolver(&server, "127.0.0.1").name("four-only.test", 7).await.unwrap();
    assert_eq!(shown(&found), ["10.0.0.1:7"]);
}
