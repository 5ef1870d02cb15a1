use super::*;

const JOINED: MemberLine = MemberLine::Joined;

fn addr(number: usize) -> SocketAddr {
    let [.., high, low] = number.to_be_bytes();
    SocketAddr::new([10, 0, high, low].into(), 1)
}

fn addrs(numbers: std::ops::Range<usize>) -> Last {
    Last(numbers.map(addr).collect())
}

/// Members of which each is the first line.
fn join(log: &mut MemberLog, now: Instant, numbers: std::ops::Range<usize>) -> Vec<usize> {
    let left_out = |number: &usize| log.admit(now, JOINED, addr(*number)).is_none();
    numbers.filter(left_out).collect()
}

/// Three times a second one of two processes with the same address joins.
#[test]
fn members_that_join_in_turn_are_logged_ever_less_and_others_at_once() {
    let (mut log, start) = (MemberLog::default(), Instant::now());
    let mut said = Vec::new();
    for millis in (0..600_000).step_by(1_000).flat_map(|second| [0, 300, 600].map(|ms| second + ms))
    {
        let at = start + Duration::from_millis(millis);
        said.extend(log.admit(at, JOINED, addr(0)).map(|left_out| left_out.lines));
    }
    assert_eq!(said.len(), 60);
    assert_eq!(said[0], 0);
    assert!(said[1..].iter().all(|lines| *lines == 29), "{said:?}");
    let down = MemberLine::of(Some(MemberState::Alive), MemberState::Down);
    assert_eq!(log.admit(start, down, addr(0)), Some(LeftOut::default()));
}

/// As many lines of others as come at once, after any number of further lines.
#[test]
fn further_lines_of_known_addresses_take_nothing_of_what_others_have() {
    let (mut log, start) = (MemberLog::default(), Instant::now());
    let now = start + Duration::from_secs(600);
    for second in 0..=600 {
        for number in 0..5 {
            log.admit(start + Duration::from_secs(second), JOINED, addr(number));
        }
    }
    let most = AT_ONCE as usize;
    assert_eq!(join(&mut log, now, 10..10 + most), Vec::new());
    assert_eq!(join(&mut log, now, 100..101), [100]);
}

#[test]
fn further_lines_of_all_addresses_together_are_bounded() {
    let (mut log, start) = (MemberLog::default(), Instant::now());
    let second = |seconds| start + Duration::from_secs(seconds);
    let all = 0..100;
    for at in [0, 11, 22] {
        join(&mut log, second(at), all.clone());
    }
    assert_eq!(join(&mut log, second(33), all.clone()).len(), all.len() - 1);
}

#[test]
fn an_address_that_was_silent_is_as_good_as_new() {
    let (mut log, start) = (MemberLog::default(), Instant::now());
    let second = |seconds| start + Duration::from_secs(seconds);
    join(&mut log, start, 0..1);
    join(&mut log, second(1), 1..2);
    // From then on nothing is left of what known addresses have together.
    let now = start + FORGOTTEN_AFTER;
    let others = 100..100 + 2 * AT_ONCE as usize;
    for at in (2..).step_by(11).map(second).take_while(|at| *at < now) {
        join(&mut log, at, others.clone());
    }
    join(&mut log, now, others);
    assert_eq!(join(&mut log, now, 1..2), [1]);
    assert_eq!(join(&mut log, now, 0..1), []);
}

#[test]
fn what_is_left_out_is_counted_once_and_the_last_are_named() {
    let (mut log, start) = (MemberLog::default(), Instant::now());
    let most = AT_ONCE as usize;
    assert_eq!((log.due(), log.take(None)), (None, Vec::new()));
    assert_eq!(join(&mut log, start, 0..most).len(), 0);
    assert_eq!(log.due(), None);
    let later = start + Duration::from_secs(1);
    assert_eq!(join(&mut log, later, most..60).len(), 60 - most);
    // Named once, as the latest one.
    assert_eq!(join(&mut log, later, 0..1), [0]);
    assert_eq!(join(&mut log, later, 0..1), [0]);
    assert_eq!(log.due(), Some(later + EVERY));
    assert_eq!(log.take(Some(later + EVERY - Duration::from_millis(1))), Vec::new());
    let last = (61 - MAX_NAMED..60).chain([0]).map(addr).collect();
    let all = LeftOut { lines: 30, last: Last(last) };
    assert_eq!(log.take(Some(later + EVERY)), [(JOINED, all)]);
    assert_eq!((log.due(), log.take(None)), (None, Vec::new()));
    // The next line that is logged counts as well.
    assert_eq!(join(&mut log, later + EVERY, 60..62), [61]);
    let next = log.admit(later + 2 * EVERY, JOINED, addr(62));
    assert_eq!(next, Some(LeftOut { lines: 1, last: addrs(61..62) }));
    assert_eq!(log.due(), None);
    assert_eq!(addrs(1..3).to_string(), "10.0.0.1:1,10.0.0.2:1");
}

#[test]
fn the_addresses_that_are_known_are_bounded_and_the_oldest_makes_room() {
    let (mut log, start) = (MemberLog::default(), Instant::now());
    for number in 0..2 * MAX_KNOWN {
        let at = start + Duration::from_millis(number as u64);
        log.admit(at, JOINED, addr(number));
        // It comes again and again, and stays.
        assert!(log.0[&JOINED].known.contains_key(&addr(0)), "{number}");
        log.admit(at, JOINED, addr(0));
    }
    let known = &log.0[&JOINED].known;
    assert_eq!(known.len(), MAX_KNOWN);
    let lowest = known.keys().take(2).copied().collect::<Vec<_>>();
    assert_eq!(lowest, [addr(0), addr(MAX_KNOWN + 1)]);
}
