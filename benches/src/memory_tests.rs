use super::*;

#[test]
fn resident_memory_is_read_in_kibibytes() {
    let text = "00400000-7fff [rollup]\nRss:                2048 kB\nPss:  1 kB\n";
    assert_eq!(parse_rss(text), Some(2048));
    assert_eq!(parse_rss("Pss:  1 kB\n"), None);
    assert_eq!(parse_rss("Rss: many kB\n"), None);
}
