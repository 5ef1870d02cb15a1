//! Nodes that find each other by names, services and files.

mod dns;

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::{NamedTempFile, TempDir};
use tidegate_tests::{Node, Starting, mistake};

use super::cluster::{free_addresses, secret, shows, wait_until_together};
use dns::DnsServer;

/// How long a node is left alone, for it to look up what is not there yet.
const WHILE: Duration = Duration::from_millis(300);

fn file(secret: &NamedTempFile) -> &str {
    secret.path().to_str().unwrap()
}

/// Starts nodes at these addresses with the same arguments, does something, and waits for them.
fn start_all(
    secret: &NamedTempFile,
    addresses: &[String],
    args: &[&str],
    meanwhile: impl FnOnce(),
) -> Vec<Node> {
    // They have to found, or join, for another reason than that time passes.
    let fixed = ["--cluster-secret-file", file(secret), "--found-after", "1h"];
    std::thread::scope(|scope| {
        let start = |address| {
            let args = [&["--cluster", address], &fixed[..], args].concat();
            scope.spawn(move || Node::start(&args))
        };
        let starting: Vec<_> = addresses.iter().map(|address| start(address)).collect();
        meanwhile();
        starting.into_iter().map(|node| node.join().unwrap()).collect()
    })
}

fn assert_one_cluster(nodes: &[Node]) {
    wait_until_together(&nodes.iter().collect::<Vec<_>>());
    let founders = nodes.iter().filter(|node| shows(node, "tidegate_cluster_founded 1"));
    assert_eq!(founders.count(), 1);
}

fn port(address: &str) -> u16 {
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Renamed into its place, so that a node reads all of it.
fn write(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(&next, path).unwrap();
}

#[test]
fn nodes_find_each_other_by_a_name() {
    let secret = secret();
    let addresses = free_addresses(3);
    let names: Vec<String> =
        addresses.iter().map(|address| format!("localhost:{}", port(address))).collect();
    let nodes = start_all(&secret, &addresses, &["--join", &names.join(",")], || {});
    assert_one_cluster(&nodes);
}

#[test]
fn nodes_wait_for_a_file_that_lists_them_later() {
    let secret = secret();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("seeds");
    let addresses = free_addresses(2);
    let join = format!("file:{}", path.display());
    let nodes = start_all(&secret, &addresses, &["--join", &join], || {
        std::thread::sleep(WHILE);
        let named = format!("localhost:{} # a name", port(&addresses[1]));
        write(&path, &format!("# both\n{}\n{named}\n", addresses[0]));
    });
    assert_one_cluster(&nodes);
}

#[test]
fn nodes_find_each_other_by_the_records_of_a_service() {
    let secret = secret();
    let server = DnsServer::start();
    let addresses = free_addresses(3);
    let (at, join) = (server.address.to_string(), "dnssrv+_tidegate._udp.nodes.test");
    let nodes = start_all(&secret, &addresses, &["--join", join, "--name-server", &at], || {
        std::thread::sleep(WHILE);
        server.set_address("a.nodes.test", [127, 0, 0, 1]);
        let ports: Vec<u16> = addresses.iter().map(|address| port(address)).collect();
        server.set_service("_tidegate._udp.nodes.test", "a.nodes.test", &ports);
    });
    assert!(server.has_answered());
    assert_one_cluster(&nodes);
}

#[test]
fn a_seed_that_is_added_to_a_file_is_joined_on_sighup() {
    let secret = secret();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("seeds");
    let (join, unused) = (format!("file:{}", path.display()), free_addresses(1));
    write(&path, &format!("{}\n", unused[0]));
    let common = ["--cluster", "127.0.0.1:0", "--cluster-secret-file", file(&secret)];
    let first = Node::start(&common);
    let apart = [&common[..], &["--join", &join, "--found-after", "100ms"]].concat();
    let second = Node::start(&apart);
    assert!(shows(&second, "tidegate_cluster_founded 1"));
    write(&path, &format!("{}\n", first.cluster.unwrap()));
    second.signal(Signal::HUP);
    wait_until_together(&[&first, &second]);
}

#[test]
fn a_seed_that_is_not_found_is_reported_and_stops_nothing() {
    let secret = secret();
    let common = ["--cluster", "127.0.0.1:0", "--cluster-secret-file", file(&secret)];
    let seeds = ["--join", "file:/no/such/file", "--found-after", "100ms"];
    let mut node = Starting::start(&[&common[..], &seeds].concat());
    // In any order: how long a look-up takes is the machine's affair.
    let alone = "--join file:/no/such/file: no node of a cluster answered for 100ms";
    let (mut not_found, mut is_alone) = (Vec::new(), false);
    while not_found.is_empty() || !is_alone {
        let line = node.wait_for_error("");
        is_alone |= line.contains(alone);
        not_found.extend(Some(line).filter(|line| line.contains("seed not found")));
    }
    assert!(not_found[0].contains("seed=file:/no/such/file"), "{}", not_found[0]);
    node.wait_for_output();
    let output = node.stop();
    assert_eq!(output.code, Some(0));
    assert!(!output.stderr.contains("seed not found"), "{}", output.stderr);
}

#[test]
fn a_mistake_in_a_list_names_the_entry() {
    let secret = secret();
    let list = "10.0.0.1:7381,nodes.test,file:seeds";
    let args = ["--cluster", "127.0.0.1:0", "--cluster-secret-file", file(&secret)];
    let line = mistake(&[&args[..], &["--join", list]].concat());
    assert!(line.contains("--join") && line.contains("`nodes.test`: expected"), "{line}");
}
