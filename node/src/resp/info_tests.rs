use super::super::testing::{session, talk};

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
