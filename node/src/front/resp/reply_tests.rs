use super::{MAX_ERROR_BYTES, Reply, Version};

fn replied(version: Version, write: impl FnOnce(Reply<'_>)) -> String {
    let mut out = Vec::new();
    write(Reply::new(&mut out, version));
    String::from_utf8(out).unwrap()
}

#[test]
fn both_versions_share_most_types() {
    for version in [Version::Resp2, Version::Resp3] {
        assert_eq!(replied(version, |mut reply| reply.ok()), "+OK\r\n");
        assert_eq!(
            replied(version, |mut reply| reply.integer(i64::MIN)),
            ":-9223372036854775808\r\n"
        );
        assert_eq!(replied(version, |mut reply| reply.integers([0, -1])), "*2\r\n:0\r\n:-1\r\n");
        let many = replied(version, |mut reply| reply.integers([i64::MIN; 9]));
        assert_eq!(many, format!("*9\r\n{}", ":-9223372036854775808\r\n".repeat(9)));
        let figures = replied(version, |mut reply| reply.integers([9, 10, i64::MAX, 99, 100]));
        assert_eq!(figures, "*5\r\n:9\r\n:10\r\n:9223372036854775807\r\n:99\r\n:100\r\n");
        assert_eq!(replied(version, |mut reply| reply.bulk(b"a\r\n")), "$3\r\na\r\n\r\n");
    }
}

#[test]
fn version_3_has_types_of_its_own() {
    let both =
        |write: fn(Reply<'_>)| [replied(Version::Resp2, write), replied(Version::Resp3, write)];
    assert_eq!(both(|mut reply| reply.null()), ["$-1\r\n", "_\r\n"]);
    assert_eq!(both(|mut reply| reply.map(2)), ["*4\r\n", "%2\r\n"]);
    assert_eq!(both(|mut reply| reply.set(2)), ["*2\r\n", "~2\r\n"]);
    assert_eq!(both(|mut reply| reply.verbatim(b"hi")), ["$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"]);
}

#[test]
fn an_error_is_one_short_line() {
    assert_eq!(
        replied(Version::Resp2, |mut reply| reply.error(b"ERR a\r\n+b\0\x1b")),
        "-ERR a??+b??\r\n"
    );
    let mut out = Vec::new();
    Reply::new(&mut out, Version::Resp2).error(&[b'x'; 10_000]);
    assert_eq!(out.len(), MAX_ERROR_BYTES + 3);
}
