use clap::Args;

use super::{
    BoundArgs, COMMAND_TIMEOUT, HttpBounds, MAX_UNREAD_BYTES, MAX_UNSENT_BYTES, TransactionBounds,
};
use crate::config::cli::parse;
use crate::front::unsent::tests::WRITE_TIMEOUT;

fn bounds(args: &[&str]) -> BoundArgs {
    parse([&["tidegate"], args].concat()).unwrap().serve.bounds
}

#[test]
fn no_bound_of_addresses_and_silence_unless_given() {
    let unless_given = bounds(&[]);
    assert_eq!(unless_given.max_connections_per_address, None);
    assert_eq!(unless_given.idle_timeout(), None);
    assert_eq!(unless_given.write_timeout.unsigned_abs(), WRITE_TIMEOUT);
    assert_eq!(unless_given.command_timeout.unsigned_abs(), COMMAND_TIMEOUT);
    assert_eq!(unless_given.max_unread_bytes.0, MAX_UNREAD_BYTES);
    assert_eq!(unless_given.max_unsent_bytes.0, MAX_UNSENT_BYTES);
    assert_eq!(unless_given.http(), HttpBounds::default());
    assert_eq!(unless_given.transaction(), TransactionBounds::default());
    let given = bounds(&["--idle-timeout", "90s", "--max-unsent-bytes", "1GiB"]);
    assert_eq!(given.idle_timeout().unwrap().as_secs(), 90);
    assert_eq!(given.max_unsent_bytes.0, 1 << 30);
    for none in ["0", "0s"] {
        assert_eq!(bounds(&["--idle-timeout", none]).idle_timeout(), None);
    }
}

#[test]
fn bounds_that_contradict_each_other_are_refused() {
    for (args, problem) in [
        (
            ["--max-batch-bytes", "9MiB", "--max-held-body-bytes", "8MiB"],
            "--max-batch-bytes 9MiB: more than --max-held-body-bytes 8MiB",
        ),
        (
            ["--max-body-bytes", "8193KiB", "--max-held-body-bytes", "8MiB"],
            "--max-body-bytes 8193KiB: more than --max-held-body-bytes 8MiB",
        ),
        (
            ["--max-connections", "10", "--max-connections-per-address", "11"],
            "--max-connections-per-address 11: more than --max-connections 10",
        ),
    ] {
        assert_eq!(bounds(&args).check().unwrap_err(), problem);
        assert_eq!(bounds(&args[..2]).check(), Ok(()));
    }
    let equal = ["--max-batch-bytes", "8MiB", "--max-held-body-bytes", "8MiB"];
    assert_eq!(bounds(&equal).check(), Ok(()));
}

#[test]
fn bounds_are_documented_with_their_figures() {
    let documented = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/node.md");
    let documented = std::fs::read_to_string(documented).unwrap();
    let mut command = BoundArgs::augment_args(clap::Command::new("serve"));
    command.build();
    for flag in command.get_arguments().filter(|flag| flag.get_id() != "help") {
        let name = flag.get_long().unwrap();
        // Whether the number of connections is given matters, so its default is none of clap's.
        let unless_given = flag.get_default_values().first().map(|one| one.to_str().unwrap());
        let figure = match unless_given {
            // The number of connections, or of commands, has a comma there.
            None | Some("10000") => "10,000",
            Some(figure) => figure,
        };
        assert_eq!(unless_given.is_none(), name == "max-connections");
        let row = format!("| `--{name} ");
        let row = documented.lines().find_map(|line| Some(line.split_once(&row)?.1));
        let columns =
            row.and_then(|row| row.split_once("` | ")).unwrap_or_else(|| panic!("{name}"));
        assert!(columns.1.starts_with(figure), "{name}: {}", columns.1);
        // The table of options names it as well.
        assert!(documented.contains(&format!("`--{name}`")), "{name} is no option");
    }
}
