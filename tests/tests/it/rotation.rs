//! The secret of a cluster is replaced while its nodes serve clients.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tidegate_tests::{Node, get, redis, wait_until};

const OLD: &str = "the secret until now, long enough\n";
const NEW: &str = "the secret from here on, long enough\n";
/// Units of the limit, which grants one in five minutes: nothing drains while the test runs.
const LIMIT: usize = 100_000;
const PERIOD: usize = 365 * 86_400;
/// How long each round lasts, for load to be under way.
const ROUND: Duration = Duration::from_millis(400);

/// The files of one node.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, own: &str, other: &str) {
        for (name, text) in [("own", own), ("other", other)] {
            // Renamed into its place, so that the node reads all of it.
            std::fs::write(self.0.path().join("next"), text).unwrap();
            std::fs::rename(self.0.path().join("next"), self.path(name)).unwrap();
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn start(&self, join: &[&Node]) -> Node {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut args = ["--cluster", "127.0.0.1:0"].map(str::to_owned).to_vec();
        for name in ["own", "other"] {
            args.extend(["--cluster-secret-file".to_owned(), text(&self.path(name))]);
        }
        for node in join {
            args.extend(["--join".to_owned(), node.cluster.unwrap().to_string()]);
        }
        Node::start(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Asks for `cost` units a few times; how many were admitted, and denied.
fn ask(connection: &mut ::redis::Connection, cost: usize) -> (usize, usize) {
    let mut pipe = ::redis::pipe();
    for _ in 0..4 {
        pipe.cmd("CL.THROTTLE").arg("k").arg(LIMIT - 1).arg(LIMIT).arg(PERIOD).arg(cost);
    }
    let replies: Vec<Vec<i64>> = pipe.query(connection).unwrap();
    let admitted = replies.iter().filter(|reply| reply[0] == 0).count();
    (cost * admitted, replies.len() - admitted)
}

fn remaining(node: &Node) -> usize {
    let mut peek = ::redis::cmd("CL.THROTTLE");
    peek.arg("k").arg(LIMIT - 1).arg(LIMIT).arg(PERIOD).arg(0);
    let reply: Vec<i64> = peek.query(&mut redis(node, 2)).unwrap();
    usize::try_from(reply[2]).unwrap()
}

fn counter(node: &Node, name: &str) -> u64 {
    let metrics = get(node, "/metrics").body;
    let name = format!("tidegate_cluster_{name} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name)).expect("a metric");
    value.trim().parse().unwrap()
}

#[test]
fn a_secret_is_replaced_under_load_and_no_unit_is_lost() {
    let files = [Files::new(), Files::new(), Files::new()];
    for file in &files {
        file.write(OLD, "");
    }
    let first = files[0].start(&[]);
    let second = files[1].start(&[&first]);
    let third = files[2].start(&[&first]);
    let nodes = [&first, &second, &third];
    wait_until("all have links to all", || {
        nodes.iter().all(|node| counter(node, "links_out") == 2 && counter(node, "links_in") == 2)
    });

    let stop = AtomicBool::new(false);
    let (mut admitted, mut denied) = (0, 0);
    let stop = &stop;
    let load = |mut connection: ::redis::Connection| {
        let mut sum = (0, 0);
        // Relaxed: the flag guards nothing else.
        while !stop.load(Ordering::Relaxed) {
            let (admitted, denied) = ask(&mut connection, 1);
            sum = (sum.0 + admitted, sum.1 + denied);
            std::thread::sleep(Duration::from_millis(2));
        }
        sum
    };
    std::thread::scope(|threads| {
        let connections = nodes.map(|node| redis(node, 2));
        let loads = connections.map(|connection| threads.spawn(move || load(connection)));
        for (own, other) in [(OLD, NEW), (NEW, OLD), (NEW, "")] {
            for (file, node) in files.iter().zip(nodes) {
                file.write(own, other);
                node.signal(Signal::HUP);
                std::thread::sleep(ROUND / 4);
            }
            std::thread::sleep(ROUND);
        }
        stop.store(true, Ordering::Relaxed);
        for load in loads {
            let sum = load.join().unwrap();
            (admitted, denied) = (admitted + sum.0, denied + sum.1);
        }
    });
    assert_eq!(denied, 0, "of a limit that was not exceeded");
    assert!(admitted > 300, "{admitted} units are no load");
    wait_until("each unit counts once everywhere", || {
        nodes.iter().all(|node| remaining(node) == LIMIT - admitted)
    });
    let violations: u64 = nodes.iter().map(|node| counter(node, "violations_total")).sum();
    assert_eq!(violations, 0);

    // Links of the old secret have ended, and a node that has only that one is refused.
    let before = counter(&first, "handshakes_rejected_total");
    let late = Files::new();
    late.write(OLD, "");
    let late = late.start(&[&first]);
    wait_until("the node is refused", || counter(&first, "handshakes_rejected_total") > before);
    assert_eq!((counter(&late, "links_out"), counter(&late, "founded")), (0, 1));
    assert_eq!(remaining(&late), LIMIT);
    // One that has the new one is not.
    let new = Files::new();
    new.write(NEW, "");
    let new = new.start(&[&second]);
    assert_eq!(remaining(&new), LIMIT - admitted);
}

#[test]
fn a_secret_that_cannot_be_read_changes_nothing() {
    let files = [Files::new(), Files::new()];
    for file in &files {
        file.write(OLD, "");
    }
    let first = files[0].start(&[]);
    files[0].write("short\n", "");
    first.signal(Signal::HUP);
    std::thread::sleep(ROUND);
    let second = files[1].start(&[&first]);
    wait_until("it joins by the secret in force", || counter(&second, "links_out") == 1);
}
