//! What need not be sent to any peer any more.

use crate::protocol::delta::{Delta, signed};
use crate::protocol::host::Host;
use crate::protocol::time::{Nanos, SECOND};

/// How late a peer may receive a change and still apply it whole, at least.
const MAX_GRACE: Nanos = SECOND;

/// Whether a change need not be sent to any peer any more: nothing of it is left, and it is too old
/// to be applied whole.
pub(super) fn is_void(host: &impl Host, delta: &Delta, now: Nanos, grace: Nanos) -> bool {
    let grace = host.tolerance(delta.limit).unwrap_or(0).max(grace).max(MAX_GRACE);
    delta.change.date < signed(now).saturating_sub(signed(grace))
        && delta.change.left(signed(now)) == 0
}
