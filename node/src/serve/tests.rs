use std::future::{pending, ready};

use clap::Parser as _;
use tidegate_cluster::Secret;

use super::*;
use crate::config::cli::{Addresses, Cli};

fn trust() -> Trust {
    Secret::from_bytes(b"a secret that is long enough").unwrap().into()
}

/// A name that has addresses of both families, the one of IPv6 first, where only IPv4 is bound.
#[test]
fn the_address_of_a_name_that_is_advertised_is_one_that_can_be() {
    let mut args = Cli::parse_from(["tidegate"]).serve;
    let [link, v6, v4] =
        ["[fe80::1]:7", "[fd00::1]:7", "192.0.2.1:7"].map(|one| one.parse().unwrap());
    args.advertise = Some(Addresses { first: link, others: vec![v6, v4] });
    for (bind, expected) in [("0.0.0.0:7", v4), ("[::]:7", v6), ("[fd00::1]:7", v6)] {
        let config = cluster_config(&args, bind.parse().unwrap(), trust());
        assert_eq!(config.advertise, Some(expected), "{bind}");
    }
}

#[tokio::test]
async fn a_node_whose_gossip_has_ended_stops() {
    let gossip = Gossip::start(Config::new("127.0.0.1:0".parse().unwrap(), trust())).await.unwrap();
    assert_eq!(gossip.joined().await, Some(JoinKind::Founded));
    let signal = StopReason::Signal("SIGTERM");
    assert_eq!(StopReason::first(ready("SIGTERM"), &gossip).await, signal);
    assert_eq!(StopReason::first(ready("SIGTERM"), &Gossip::alone()).await, signal);
    assert!(!gossip.has_ended() && !Gossip::alone().has_ended());
    gossip.leave(Duration::ZERO).await;
    let reason = StopReason::first(pending(), &gossip);
    let reason = tokio::time::timeout(Duration::from_mins(1), reason).await;
    assert_eq!(reason, Ok(StopReason::GossipEnded));
}

/// It never was in its cluster: what it has not joined, it does not decide for.
#[tokio::test]
async fn a_node_whose_gossip_ends_before_it_has_joined_never_joins() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), trust());
    config.join = vec![silent.local_addr().unwrap()];
    config.found_after = Duration::from_hours(1);
    let gossip = Gossip::start(config).await.unwrap();
    gossip.leave(Duration::ZERO).await;
    tokio::select! {
        biased;
        entry = gossip.joined() => panic!("{entry:?}"),
        () = gossip.ended() => {}
    }
}
