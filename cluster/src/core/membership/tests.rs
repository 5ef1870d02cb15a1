//! More members than are kept.

use super::*;
use crate::core::wire::MemberPacket;

const SECOND: Nanos = 1_000_000_000;
/// Updates put into one packet: they fit.
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
        crowd.hear(0, node(1), foca::Message::Gossip, Vec::new());
        crowd
    }

    fn hear(
        &mut self,
        now: Nanos,
        src: NodeId,
        message: foca::Message<NodeId>,
        updates: Vec<foca::Member<NodeId>>,
    ) {
        let header = foca::Header { src, src_incarnation: 0, dst: node(0), message };
        self.0.packet(now, &MemberPacket { header, updates }.encode().unwrap());
    }

    /// Number 1 tells of others, one packet a second.
    fn hear_of(&mut self, numbers: std::ops::Range<usize>, state: foca::State) {
        let numbers: Vec<usize> = numbers.collect();
        for (second, some) in numbers.chunks(AT_ONCE).enumerate() {
            let of = |number: &usize| foca::Member::new(node(*number), 0, state);
            let updates = some.iter().map(of).collect();
            self.hear(second as Nanos * SECOND, node(1), foca::Message::Gossip, updates);
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
        self.0.members(false).len()
    }
}

#[test]
fn those_down_the_longest_give_way_and_the_others_are_heard() {
    let mut crowd = Crowd::new();
    crowd.hear_of(2..MAX_MEMBERS, foca::State::Alive);
    assert_eq!(crowd.known(), MAX_MEMBERS);
    crowd.hear_of(2..MAX_MEMBERS, foca::State::Down);
    crowd.hear(2_000 * SECOND, node(1), foca::Message::Ping(7), Vec::new());
    assert_eq!(crowd.answer().unwrap().header.message, foca::Message::Ack(7));

    // A stranger that is down is not worth a place, one that is alive is.
    crowd.hear_of(3_000..3_001, foca::State::Down);
    assert!(!crowd.knows(3_000));
    crowd.hear(2_000 * SECOND, node(4_000), foca::Message::Announce, Vec::new());
    assert_eq!(crowd.answer().unwrap().header.message, foca::Message::Feed);
    assert!(crowd.knows(4_000) && crowd.knows(1));
    // Which of those that went down with the same packet is as good as random.
    assert_eq!((2..2 + AT_ONCE).filter(|number| crowd.knows(*number)).count(), AT_ONCE - 1);
    assert!((2 + AT_ONCE..MAX_MEMBERS).all(|number| crowd.knows(number)));
    assert_eq!(crowd.known(), MAX_MEMBERS);
    assert_eq!(crowd.0.crowding(), (1, 1));

    crowd.0.left(2_000 * SECOND, node(5_000));
    assert!(crowd.knows(5_000));
    assert_eq!((crowd.known(), crowd.0.crowding()), (MAX_MEMBERS, (2, 1)));
}

#[test]
fn with_nobody_down_strangers_are_turned_away_and_nobody_else() {
    let mut crowd = Crowd::new();
    crowd.hear_of(2..MAX_MEMBERS + 100, foca::State::Alive);
    assert_eq!((crowd.known(), crowd.0.crowding()), (MAX_MEMBERS, (0, 100)));
    crowd.hear(100 * SECOND, node(4_000), foca::Message::Announce, Vec::new());
    assert!(crowd.answer().is_none());
    crowd.0.left(100 * SECOND, node(4_000));
    assert_eq!((crowd.known(), crowd.0.crowding()), (MAX_MEMBERS, (0, 102)));

    // What is said of this node itself is heard: it objects to being suspected.
    let suspect = foca::Member::new(node(0), 0, foca::State::Suspect);
    let stranger = foca::Member::alive(node(4_000));
    crowd.hear(100 * SECOND, node(1), foca::Message::Ping(7), vec![stranger, suspect]);
    let mut answers = std::iter::from_fn(|| crowd.answer()).map(|packet| packet.header);
    let ack = answers.find(|header| header.message == foca::Message::Ack(7)).unwrap();
    assert_eq!(ack.src_incarnation, 1);
}
