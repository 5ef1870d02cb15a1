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
