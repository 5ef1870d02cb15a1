//! How many members are known at most, and who gives way.
//!
//! Packets of members that are known are handled whatever the number, else the failure detector
//! would find everybody silent. Only strangers are turned away: those that are down already, whom
//! nobody here would miss, and when no member is down to give way for them the others as well.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use foca::Timer;

use super::{MAX_MEMBERS, MAX_PACKET_BYTES, Membership};
use crate::core::wire::MemberPacket;

/// One place is this node's own: an earlier identity of it may be listed as down.
const MAX_OTHERS: usize = MAX_MEMBERS - 1;
/// A member in a packet takes no less: six bytes of address and four numbers.
const MIN_MEMBER_BYTES: usize = 10;

impl Membership {
    /// How many members were forgotten before their time, and how many turned away.
    pub(in crate::core) fn crowding(&self) -> (u64, u64) {
        (self.forgotten, self.refused)
    }

    /// The packet, without the members there is no room for; `None` when its sender is one.
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

    /// Forgets those that are down the longest until `wanted` more members can be known; false when
    /// too few are down.
    pub(super) fn make_room(&mut self, wanted: usize) -> bool {
        while self.room() < wanted {
            // They were put down in the order in which they are due to be forgotten.
            let oldest =
                self.timers.iter().find(|(_, timer)| matches!(timer, Timer::RemoveDown(_)));
            let Some(timer) = oldest.map(|(at, _)| *at).and_then(|at| self.timers.remove(&at))
            else {
                return false;
            };
            let before = self.room();
            let _ = self.foca.handle_timer(timer, &mut self.runtime);
            // The timer may be of one that has come back since.
            self.forgotten += (self.room() - before) as u64;
        }
        true
    }

    fn room(&self) -> usize {
        MAX_OTHERS.saturating_sub(self.foca.iter_membership_state().len())
    }

    /// Where a member is known, this node included: what is said of it is always heard.
    fn addrs(&self) -> BTreeSet<SocketAddr> {
        let others = self.foca.iter_membership_state().map(|member| member.id().addr);
        others.chain([self.me().addr]).collect()
    }
}
