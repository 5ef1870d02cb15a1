//! More members than the bound.

use super::*;
use crate::protocol::wire::MemberPacket;

const SECOND: Nanos = 1_000_000_000;
/// Updates in one packet: they fit.
const AT_ONCE: usize = 20;

fn node(number: usize) -> NodeId {
    let [high, low] = (number as u16).to_be_bytes();
    NodeId::new(SocketAddr::from(([10, 0, high, low], 7_381)), 5)
}

struct Crowd(Membership);

impl Crowd {
    /// A node that knows one other, number 1.
    fn new() -> Self {
        let mut crowd = Self(Membership::new(node(0), &Options::default()));
        crowd.receive(0, node(1), foca::Message::Gossip, Vec::new());
        crowd
    }

    fn receive(
        &mut self,
        now: Nanos,
        src: NodeId,
        message: foca::Message<NodeId>,
        updates: Vec<foca::Member<NodeId>>,
    ) {
        let header = foca::Header { src, src_incarnation: 0, dst: node(0), message };
        self.0.packet(now, &MemberPacket { header, updates }.encode().unwrap());
    }

    /// Node 1 gossips about others, one packet a second.
    fn receive_updates(&mut self, numbers: std::ops::Range<usize>, state: foca::State) {
        let numbers: Vec<usize> = numbers.collect();
        for (second, some) in numbers.chunks(AT_ONCE).enumerate() {
            let of = |number: &usize| foca::Member::new(node(*number), 0, state);
            let updates = some.iter().map(of).collect();
            self.receive(second as Nanos * SECOND, node(1), foca::Message::Gossip, updates);
        }
        while self.0.next_packet().is_some() {}
    }

    /// What the node answers.
    fn answer(&mut self) -> Option<MemberPacket> {
        let (_, bytes) = self.0.next_packet()?;
        Some(MemberPacket::decode(&bytes).unwrap())
    }

    fn knows(&self, number: usize) -> bool {
        self.0.state_of(node(number).addr).is_some()
    }

    fn known(&self) -> usize {
        self.0.seen(false).len()
    }
}

#[test]
fn the_longest_down_are_forgotten_for_new_members() {
    let mut crowd = Crowd::new();
    crowd.receive_updates(2..MAX_MEMBERS, foca::State::Alive);
    assert_eq!(crowd.known(), MAX_MEMBERS);
    crowd.receive_updates(2..MAX_MEMBERS, foca::State::Down);
    crowd.receive(2_000 * SECOND, node(1), foca::Message::Ping(7), Vec::new());
    assert_eq!(crowd.answer().unwrap().header.message, foca::Message::Ack(7));

    // A stranger that is down is ignored, one that is alive is not.
    crowd.receive_updates(3_000..3_001, foca::State::Down);
    assert!(!crowd.knows(3_000));
    crowd.receive(2_000 * SECOND, node(4_000), foca::Message::Announce, Vec::new());
    assert_eq!(crowd.answer().unwrap().header.message, foca::Message::Feed);
    assert!(crowd.knows(4_000) && crowd.knows(1));
    // Which of those that went down with the same packet is arbitrary.
    assert_eq!((2..2 + AT_ONCE).filter(|number| crowd.knows(*number)).count(), AT_ONCE - 1);
    assert!((2 + AT_ONCE..MAX_MEMBERS).all(|number| crowd.knows(number)));
    assert_eq!(crowd.known(), MAX_MEMBERS);
    assert_eq!(crowd.0.overflow_counts(), (1, 1));

    crowd.0.left(2_000 * SECOND, node(5_000));
    assert!(crowd.knows(5_000));
    assert_eq!((crowd.known(), crowd.0.overflow_counts()), (MAX_MEMBERS, (2, 1)));
}

#[test]
fn that_a_member_has_left_is_forgotten_after_what_is_no_member() {
    let mut crowd = Crowd::new();
    let others = (3_000..3_000 + MAX_MEMBERS).map(|number| (node(number).addr, 5));
    crowd.0.left = others.collect();
    for number in [1, 2] {
        crowd.0.left(0, node(number));
    }
    assert_eq!(crowd.0.left.len(), MAX_MEMBERS);
    let states: Vec<_> = crowd.0.seen(false).iter().map(|member| member.state).collect();
    assert_eq!(states[1..], [MemberState::Left; 2]);
}

#[test]
fn with_no_member_down_only_strangers_are_ignored() {
    let mut crowd = Crowd::new();
    crowd.receive_updates(2..MAX_MEMBERS + 100, foca::State::Alive);
    assert_eq!((crowd.known(), crowd.0.overflow_counts()), (MAX_MEMBERS, (0, 100)));
    crowd.receive(100 * SECOND, node(4_000), foca::Message::Announce, Vec::new());
    assert!(crowd.answer().is_none());
    crowd.0.left(100 * SECOND, node(4_000));
    assert_eq!((crowd.known(), crowd.0.overflow_counts()), (MAX_MEMBERS, (0, 102)));

    // An update about this node itself is not ignored: it refutes the suspicion.
    let suspect = foca::Member::new(node(0), 0, foca::State::Suspect);
    let stranger = foca::Member::alive(node(4_000));
    crowd.receive(100 * SECOND, node(1), foca::Message::Ping(7), vec![stranger, suspect]);
    let mut answers = std::iter::from_fn(|| crowd.answer()).map(|packet| packet.header);
    let ack = answers.find(|header| header.message == foca::Message::Ack(7)).unwrap();
    assert_eq!(ack.src_incarnation, 1);
}

#[test]
fn an_identity_whose_rank_was_driven_to_the_end_returns() {
    for rank in [1 << 62, 1 << 63, u64::MAX] {
        let mut crowd = Crowd::new();
        let claimed = foca::Member::alive(NodeId { rank, generation: 9, ..node(2) });
        crowd.receive(0, node(1), foca::Message::Gossip, vec![claimed]);
        let mut real = Membership::new(node(2), &Options::default());
        let floor = crowd.0.rank_floor(real.me());
        assert_eq!(floor, rank);
        real.outrank(0, floor);
        crowd.receive(SECOND, real.me(), foca::Message::Gossip, Vec::new());
        assert_eq!(crowd.0.state_of(node(2).addr).map(|(id, _)| id), Some(real.me()), "{rank}");
    }
}

/// Each rank is another identity at the same address, and each of them goes down.
#[test]
fn a_member_has_one_timer_that_forgets_it() {
    let mut crowd = Crowd::new();
    let timers = crowd.0.timers.len();
    for rank in 1..500 {
        for state in [foca::State::Suspect, foca::State::Down] {
            let some = foca::Member::new(NodeId { rank, ..node(2) }, 0, state);
            crowd.receive(rank, node(1), foca::Message::Gossip, vec![some]);
        }
    }
    assert!(crowd.0.timers.len() <= timers + 2, "{} timers", crowd.0.timers.len());
    // The last one is that of the present identity.
    let forget = Options::default().forget_down_after;
    crowd.0.tick(forget);
    assert!(crowd.knows(2));
    crowd.0.tick(forget + 500);
    assert!(!crowd.knows(2));
}
