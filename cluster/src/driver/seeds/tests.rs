use std::path::PathBuf;

use super::super::dns_server::DnsServer;
use super::super::lookup::TIMEOUT;
use super::files::tests::{begin, block, blocked};
use super::*;
use crate::secret::Secret;

const ME: &str = "127.0.0.1:1";

fn seeker(server: &DnsServer, seeds: &[&str]) -> Seeker {
    seeker_at(ME, server, seeds)
}

/// Of a node that binds an address.
fn seeker_at(bind: &str, server: &DnsServer, seeds: &[&str]) -> Seeker {
    let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
    let mut config = Config::new(bind.parse().unwrap(), secret);
    config.join = vec![ME.parse().unwrap()];
    config.seeds = seeds.iter().map(|seed| seed.parse().unwrap()).collect();
    config.name_servers = vec![server.addr];
    Seeker::new(&config, ME.parse().unwrap())
}

fn found(seeds: &[&str], complete: bool) -> Found {
    let others = seeds.iter().map(|seed| seed.parse().unwrap());
    Found { seeds: std::iter::once(ME.parse().unwrap()).chain(others).collect(), complete }
}

/// A file that is removed at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id())))
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn seed(&self) -> String {
        format!("file:{}", self.0.display())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn addresses_come_and_go_with_the_records_of_a_name() {
    let server = DnsServer::start().await;
    let mut seeker = seeker(&server, &["10.0.0.9:9", "nodes.test:7"]);
    assert!(seeker.has_sources());
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.9:9"], false));
    server.set("nodes.test.", &["10.0.0.1", "10.0.0.2"]);
    let all = found(&["10.0.0.9:9", "10.0.0.1:7", "10.0.0.2:7"], true);
    assert_eq!(seeker.look_up_all().await, all);
    // A failure says nothing of the addresses.
    server.set("nodes.test.", &[]);
    assert_eq!(seeker.look_up_all().await, all);
    server.set("nodes.test.", &["10.0.0.2", "127.0.0.1"]);
    let expected = found(&["10.0.0.9:9", "10.0.0.2:7", "127.0.0.1:7"], true);
    assert_eq!(seeker.look_up_all().await, expected);
}

#[tokio::test]
async fn a_file_is_read_again_with_all_that_it_lists() {
    let server = DnsServer::start().await;
    let file = File::new("read-again");
    let mut seeker = seeker(&server, &[&file.seed()]);
    assert_eq!(seeker.look_up_all().await, found(&[], false));
    file.write("# none yet\n");
    assert_eq!(seeker.look_up_all().await, found(&[], false));
    file.write("10.0.0.1:1\nnodes.test:7\ndnssrv+_a._udp.test\n");
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.1:1"], false));
    server.set("nodes.test.", &["10.0.0.2"]);
    server.set("_a._udp.test.", &["8 nodes.test."]);
    let all = found(&["10.0.0.1:1", "10.0.0.2:7", "10.0.0.2:8"], true);
    assert_eq!(seeker.look_up_all().await, all);
    // One with a mistake changes nothing, as neither does one that is gone.
    file.write("10.0.0.3:1\nnonsense\n");
    assert_eq!(seeker.look_up_all().await, all);
    std::fs::remove_file(&file.0).unwrap();
    assert_eq!(seeker.look_up_all().await, all);
    file.write("10.0.0.3:1\n");
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.3:1"], true));
    assert_eq!(seeker.sources.len(), 1);
}

#[tokio::test]
async fn seeds_are_bounded() {
    let server = DnsServer::start().await;
    let many = |host: usize| (1..=60).map(move |last| format!("10.0.{host}.{last}"));
    for host in 0..4 {
        let records: Vec<String> = many(host).collect();
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        server.set(&format!("n{host}.test."), &records);
    }
    let mut four = seeker(&server, &["n0.test:1", "n1.test:1", "n2.test:1", "n3.test:1"]);
    let resolved = four.look_up_all().await;
    assert_eq!((resolved.seeds.len(), resolved.complete), (MAX_SEEDS + 1, true));

    let names: Vec<String> = (0..MAX_SOURCES + 9).map(|i| format!("n0.test:{}", i + 1)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut crowded = seeker(&server, &names);
    let resolved = crowded.look_up_all().await;
    assert_eq!((resolved.seeds.len(), resolved.complete), (MAX_SEEDS + 1, false));
    assert_eq!(crowded.sources.len(), MAX_SOURCES);
}

#[tokio::test]
async fn an_address_of_ipv4_that_is_bound_as_ipv6_reaches_those_of_ipv4() {
    let server = DnsServer::start().await;
    server.set("nodes.test.", &["10.0.0.1", "fd00::1"]);
    let mut seeker = seeker_at("[::ffff:127.0.0.1]:1", &server, &["nodes.test:7", "10.0.0.9:9"]);
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.1:7", "10.0.0.9:9"], true));
    assert!(seeker.undialable_at.is_none());
}

/// It stays a seed, so that the node does not found a cluster as if it had none.
#[tokio::test]
async fn a_seed_that_cannot_be_dialled_is_logged_and_counts_as_one_that_does_not_answer() {
    let server = DnsServer::start().await;
    for (bind, seed, logged) in [
        (ME, "10.0.0.9:9", false),
        (ME, "[2001:db8::1]:9", true),
        (ME, "0.0.0.0:9", true),
        (ME, "224.0.0.1:9", true),
        ("[::1]:1", "[::]:9", true),
        ("[::1]:1", "[fe80::1]:9", true),
        ("[::1]:1", "[fe80::1%2]:9", false),
    ] {
        let mut seeker = seeker_at(bind, &server, &[seed]);
        seeker.seeds.retain(|listed| listed.to_string() != ME);
        let seeds = vec![seed.parse().unwrap()];
        assert_eq!(seeker.look_up_all().await, Found { seeds, complete: true });
        assert_eq!(seeker.undialable_at.is_some(), logged, "{seed}");
    }
    let mut without_port = seeker(&server, &[]);
    without_port.log_undialable(&["10.0.0.9:0".parse().unwrap()]);
    assert!(without_port.undialable_at.is_some());
}

/// A seeker of what one file lists, and the state that says whether the node has joined.
fn start(file: &File) -> (mpsc::Receiver<Found>, Arc<Shared>) {
    let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
    let mut config = Config::new(ME.parse().unwrap(), secret);
    config.join = vec![ME.parse().unwrap()];
    config.seeds = vec![file.seed().parse().unwrap()];
    let keys = super::super::keys::Keys::new([0; 16]);
    let shared = Arc::new(Shared::new(ME.parse().unwrap(), keys, Instant::now()));
    let mut seeker = Seeker::new(&config, ME.parse().unwrap());
    // Time that is paused does not wait for threads.
    seeker.files = Files::new(begin);
    (seeker.start(&shared), shared)
}

/// In time that passes only while nothing else happens.
#[tokio::test(start_paused = true)]
async fn look_ups_are_frequent_until_the_node_has_joined_and_knows_of_others() {
    let file = File::new("frequent");
    let (mut results, shared) = start(&file);
    let begin = Instant::now();
    let at = || begin.elapsed().as_secs();
    for second in [0, 1, 3, 7, 11] {
        assert_eq!(results.recv().await, Some(found(&[], false)));
        assert_eq!(at(), second);
    }
    // It has founded a cluster, and only itself is found.
    shared.enter(crate::protocol::JoinKind::FoundedAlone);
    file.write(ME);
    for second in [15, 19] {
        assert_eq!(results.recv().await, Some(found(&[], true)));
        assert_eq!(at(), second);
    }
    file.write("10.0.0.1:1");
    for second in [23, 53, 83] {
        assert_eq!(results.recv().await, Some(found(&["10.0.0.1:1"], true)));
        assert_eq!(at(), second);
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_is_asked_for_waits_for_nothing() {
    let file = File::new("asked-for");
    file.write("10.0.0.1:1");
    let (mut results, shared) = start(&file);
    shared.enter(crate::protocol::JoinKind::Founded);
    assert_eq!(results.recv().await, Some(found(&["10.0.0.1:1"], true)));
    let begin = Instant::now();
    file.write("10.0.0.2:1");
    shared.look_up.notify_one();
    assert_eq!(results.recv().await, Some(found(&["10.0.0.2:1"], true)));
    // In paused time, which a look-up may take some of: before the next one that is not asked for.
    assert!(begin.elapsed() < REFRESH);
}

#[tokio::test(start_paused = true)]
async fn a_seeker_ends_with_its_receiver() {
    let file = File::new("ends");
    let (results, shared) = start(&file);
    drop(results);
    let mut left = 1_000;
    while Arc::strong_count(&shared) > 1 && left > 0 {
        left -= 1;
        sleep(Duration::from_millis(1)).await;
    }
    assert!(left > 0, "its task has not ended");
}

/// A file that blocks, one that does not, and a name about which no server answers.
#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_keeps_no_other_one_from_being_found() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
    let mut config = Config::new(ME.parse().unwrap(), secret);
    let (blocks, answers) = (File::new("a-blocks"), File::new("b-answers"));
    blocks.write("10.0.0.2:1");
    answers.write("10.0.0.3:1");
    let seeds = [ME, "10.0.0.1:1", "nodes.test:7", &blocks.seed(), &answers.seed()];
    config.seeds = seeds.map(|seed| seed.parse().unwrap()).to_vec();
    config.name_servers = vec![silent.local_addr().unwrap()];
    let mut seeker = Seeker::new(&config, ME.parse().unwrap());
    seeker.files = Files::new(begin);
    // Files are read in order.
    block(1);
    let start = Instant::now();
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.1:1", "10.0.0.3:1"], false));
    assert!(start.elapsed() <= TIMEOUT + Duration::from_millis(1), "{:?}", start.elapsed());
    let warned = |source: &Seed| seeker.sources[source].logged.is_some();
    assert_eq!([2, 3, 4].map(|seed| warned(&config.seeds[seed])), [true, true, false]);
    assert_eq!(blocked(), 1);
    answers.write("10.0.0.4:1");
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.1:1", "10.0.0.4:1"], false));
    block(0);
    let all = found(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.4:1"], false);
    assert_eq!(seeker.look_up_all().await, all);
    // What it gave counts while it blocks.
    block(1);
    assert_eq!(seeker.look_up_all().await, all);
}

/// Nor from being known: a node founds a cluster where it hears of none for long enough.
#[tokio::test(start_paused = true)]
async fn what_is_found_is_passed_on_while_another_source_does_not_answer() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let secret = Secret::from_bytes(b"0123456789abcdef").unwrap();
    let mut config = Config::new(ME.parse().unwrap(), secret);
    let file = File::new("passed-on");
    file.write("10.0.0.3:1");
    config.seeds = [ME, "nodes.test:7", &file.seed()].map(|seed| seed.parse().unwrap()).to_vec();
    config.name_servers = vec![silent.local_addr().unwrap()];
    let keys = super::super::keys::Keys::new([0; 16]);
    let shared = Arc::new(Shared::new(ME.parse().unwrap(), keys, Instant::now()));
    let mut seeker = Seeker::new(&config, ME.parse().unwrap());
    seeker.files = Files::new(begin);
    let start = Instant::now();
    let mut results = seeker.start(&shared);
    let expected = Some(found(&["10.0.0.3:1"], false));
    assert_eq!(results.recv().await, expected);
    assert!(start.elapsed() < TIMEOUT / 2, "{:?}", start.elapsed());
    // And again each time that all have had theirs.
    for times in 1..=2 {
        assert_eq!(results.recv().await, expected);
        assert!(start.elapsed() >= times * TIMEOUT / 2, "{:?}", start.elapsed());
    }
    file.write("10.0.0.4:1");
    let passed = start.elapsed();
    assert_eq!(results.recv().await, Some(found(&["10.0.0.4:1"], false)));
    assert!(start.elapsed() < passed + TIMEOUT, "{:?}", start.elapsed());
}

/// The other way round; and not all is found where all gave something before.
#[tokio::test(start_paused = true)]
async fn what_a_name_gives_is_passed_on_while_a_file_blocks() {
    let server = DnsServer::start().await;
    server.set("nodes.test.", &["10.0.0.2"]);
    let file = File::new("blocks-others");
    file.write("10.0.0.3:1");
    let mut seeker = seeker(&server, &["nodes.test:7", &file.seed()]);
    seeker.files = Files::new(begin);
    let (sender, mut results) = mpsc::channel(1);
    seeker.early = Some(sender);
    block(1);
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.2:7"], false));
    assert_eq!(results.recv().await, Some(found(&["10.0.0.2:7"], false)));
    block(0);
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.2:7", "10.0.0.3:1"], true));
    block(1);
    server.set("nodes.test.", &["10.0.0.4"]);
    let _ = results.try_recv();
    assert_eq!(seeker.look_up_all().await, found(&["10.0.0.4:7", "10.0.0.3:1"], true));
    let expected = found(&["10.0.0.4:7", "10.0.0.3:1"], false);
    assert_eq!(results.recv().await, Some(expected), "it was never said to be complete");
    block(0);
}

#[tokio::test]
async fn names_in_files_leave_out_none_of_the_list() {
    let server = DnsServer::start().await;
    server.set("z.test.", &["10.0.0.2"]);
    server.set("a.test.", &["10.0.0.1"]);
    let file = File::new("many-names");
    let names = (0..MAX_SOURCES).map(|i| format!("a.test:{}\n", i + 1));
    file.write(&names.collect::<String>());
    let mut seeker = seeker(&server, &["z.test:7", &file.seed()]);
    let resolved = seeker.look_up_all().await;
    assert!(resolved.seeds.contains(&"10.0.0.2:7".parse().unwrap()), "{resolved:?}");
    assert!(!resolved.complete);
    assert_eq!(seeker.sources.len(), MAX_SOURCES + 1);
}

#[test]
fn a_problem_is_logged_again_after_a_while_and_another_one_sooner() {
    let mut source = Source::default();
    assert!(source.is_to_be_logged("one"));
    let mut logged = |ago: Duration| {
        let at = Instant::now().checked_sub(ago).unwrap();
        source.logged = Some(LastLogged { at, problem: "one".to_owned(), again: false });
        let is_logged = [source.is_to_be_logged("one"), source.is_to_be_logged("another")];
        source.log_again();
        assert!(source.is_to_be_logged("one"), "it was asked to log again");
        is_logged
    };
    assert_eq!(logged(Duration::ZERO), [false, false]);
    assert_eq!(logged(LOG_OTHER_EVERY), [false, true]);
    assert_eq!(logged(LOG_EVERY), [true, true]);
}
