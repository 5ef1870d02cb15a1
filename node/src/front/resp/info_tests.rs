use std::time::Duration;

use super::super::server_info::RespBounds;
use super::super::testing::{bounded_session, session, talk};

/// What `redis-cli --stat` looks for in the text.
#[test]
fn a_monitor_finds_its_fields() {
    let info = talk(&mut session(), &["CL.THROTTLE monitored 2 3 86400", "INFO"]);
    for field in [
        "used_memory",
        "connected_clients",
        "blocked_clients",
        "total_commands_processed",
        "total_connections_received",
        "rdb_bgsave_in_progress",
        "aof_rewrite_in_progress",
        "loading",
        "db0:keys",
    ] {
        let sign = if field.contains(':') { '=' } else { ':' };
        let (_, value) = info.split_once(&format!("\r\n{field}{sign}")).expect(field);
        let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        assert!(digits.parse::<u64>().is_ok(), "{field}: {value}");
    }
    let memory = talk(&mut session(), &["INFO memory"]);
    let used = memory.split("used_memory:").nth(1).and_then(|rest| rest.split("\r\n").next());
    assert!(used.unwrap().parse::<u64>().unwrap() > 1024 * 1024, "{memory}");
    assert!(!memory.contains("# Server"));
}

#[test]
fn bounds_that_were_chosen_are_shown() {
    let bounds = RespBounds {
        max_clients: 123,
        idle_timeout: Some(Duration::from_millis(4_001)),
        ..RespBounds::default()
    };
    let mut session = bounded_session(bounds);
    assert!(talk(&mut session, &["INFO clients"]).contains("\r\nmaxclients:123\r\n"));
    let reply = talk(&mut session, &["CONFIG GET maxclients", "CONFIG GET timeout"]);
    let expected = "*2\r\n$10\r\nmaxclients\r\n$3\r\n123\r\n*2\r\n$7\r\ntimeout\r\n$1\r\n5";
    assert_eq!(reply, expected);
    let reply = talk(&mut bounded_session(RespBounds::default()), &["CONFIG GET timeout"]);
    assert_eq!(reply, "*2\r\n$7\r\ntimeout\r\n$1\r\n0");
}
