//! The bound on known members, and which of them are forgotten.
//!
//! Packets of known members are always handled, or the failure detector would find all of them
//! silent. Only unknown members are ignored: those that are already down, and, when no known member
//! is down and can be forgotten, the others as well.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::Membership;
use crate::protocol::bounds::{MAX_MEMBERS, MAX_PACKET_BYTES};
use crate::protocol::wire::MemberPacket;

/// Without this node, of which an earlier identity may be listed as down.
const MAX_OTHERS: usize = MAX_MEMBERS - 1;
/// The least bytes of a member in a packet: six of address and four numbers.
const MIN_MEMBER_BYTES: usize = 10;

impl Membership {
    /// The numbers of members that were forgotten early and that were ignored.
    pub(in crate::protocol) fn overflow_counts(&self) -> (u64, u64) {
        (self.forgotten, self.refused)
    }

    /// The packet without the members that exceed the bound; `None` when its sender does.
    pub(super) fn fitting<'a>(&mut self, bytes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.room() >= MAX_PACKET_BYTES / MIN_MEMBER_BYTES {
            return Some(Cow::Borrowed(bytes));
        }
        let mut packet = MemberPacket::decode(bytes).ok()?;
        let active = packet.updates.iter().filter(|member| member.state() != foca::State::Down);
        let mentioned = std::iter::once(packet.header.src.addr)
            .chain(active.map(|member| member.id().addr))
            .collect::<BTreeSet<_>>();
        let known = self.addrs();
        self.make_room(mentioned.difference(&known).count());

        let (mut known, mut room, mut refused) = (self.addrs(), self.room(), 0);
        let mut admit = |addr, active| {
            let enters = active && room > 0 && !known.contains(&addr);
            if enters {
                known.insert(addr);
                room -= 1;
            }
            let admitted = known.contains(&addr);
            refused += u64::from(!admitted);
            admitted
        };
        let sender = admit(packet.header.src.addr, true);
        packet.updates.retain(|member| {
            sender && admit(member.id().addr, member.state() != foca::State::Down)
        });
        self.refused += refused;
        if sender { packet.encode().ok().map(Cow::Owned) } else { None }
    }

    /// Forgets the longest down members until `wanted` more can be known; false when too few are
    /// down.
    pub(super) fn make_room(&mut self, wanted: usize) -> bool {
        let is_enough = self.forget_longest_down(wanted);
        self.refresh();
        is_enough
    }

    fn forget_longest_down(&mut self, wanted: usize) -> bool {
        while self.room() < wanted {
            // Members went down in the order in which their timers are due.
            let Some(timer) = self.timers.take_forgetting() else { return false };
            let before = self.room();
            let _ = self.foca.handle_timer(timer, &mut self.runtime);
            // The member of the timer may be up again.
            self.forgotten += (self.room() - before) as u64;
        }
        true
    }

    fn room(&self) -> usize {
        MAX_OTHERS.saturating_sub(self.foca.iter_membership_state().len())
    }

    /// The addresses of known members and of this node, about which updates are never ignored.
    fn addrs(&self) -> BTreeSet<SocketAddr> {
        let others = self.foca.iter_membership_state().map(|member| member.id().addr);
        others.chain([self.me().addr]).collect()
    }
}
