//! The heads of requests: how long a client may take for one, and which ones hyper refuses.

use std::time::Duration;

use tokio::time::Instant;

use super::socket::ClientSocket;
use crate::front::deadline::Alarm;

/// Ends when a client has taken longer than `timeout` for the head of a request, the time before
/// that in which it was silent included. hyper would make and drop a timer for each.
pub async fn head_missing(socket: &ClientSocket<'_>, timeout: Duration) {
    let (mut alarm, mut deadline) = (Alarm::new(), Instant::now() + timeout);
    loop {
        alarm.passed(deadline).await;
        let due = socket.awaits_head_since().unwrap_or_else(Instant::now) + timeout;
        if due <= deadline {
            return;
        }
        deadline = due;
    }
}

/// What is wrong with a head that hyper refuses by itself. Names and meanings stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It is not HTTP/1, as TLS, or contradicts itself: 400 without a body. Where HTTP/2 begins, no
    /// answer.
    Malformed,
    /// 431 without a body.
    TooLarge,
}

impl HeadError {
    pub const ALL: [Self; 2] = [Self::Malformed, Self::TooLarge];

    /// Of what a connection ended with; `None` where that was something else.
    pub fn of(error: &hyper::Error) -> Option<Self> {
        if error.is_parse_too_large() {
            Some(Self::TooLarge)
        } else {
            error.is_parse().then_some(Self::Malformed)
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed_head",
            Self::TooLarge => "head_too_large",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::sleep;

    use super::*;
    use crate::config::bounds::MAX_UNSENT_BYTES;
    use crate::front::budget::Budget;
    use crate::front::unsent::tests::{WRITE_TIMEOUT, pair};
    use crate::front::unsent::{Bounded, Unsent};
    use crate::limits::gossip::Gossip;
    use crate::telemetry::meter::FrontEndName;
    use crate::telemetry::metrics::Metrics;

    const TIMEOUT: Duration = Duration::from_secs(75);
    const SECOND: Duration = Duration::from_secs(1);

    /// Time is paused. After how many seconds a client is given up that asks and is answered at
    /// these.
    async fn given_up_after(exchanges: &[(u32, u32)]) -> u64 {
        let (_client, mut stream) = pair().await;
        let metrics = Metrics::new(Vec::new(), Gossip::alone());
        let metrics = metrics.connections(FrontEndName::Http).clone();
        let budget = Arc::new(Budget::new(MAX_UNSENT_BYTES));
        let mut unsent = Unsent::new(budget, WRITE_TIMEOUT, metrics);
        let start = Instant::now();
        let socket = ClientSocket::new(Bounded { stream: &mut stream, unsent: &mut unsent });
        let at = |second: u32| tokio::time::sleep_until(start + second * SECOND);
        let client = async {
            for (asked, answered) in exchanges {
                at(*asked).await;
                socket.asked(1);
                at(*answered).await;
                socket.answered(false, false, 0);
            }
            sleep(1_000 * SECOND).await;
        };
        tokio::select! {
            () = head_missing(&socket, TIMEOUT) => start.elapsed().as_secs(),
            () = client => panic!("it is still waited for"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_is_waited_for_from_the_last_answer_on() {
        assert_eq!(given_up_after(&[]).await, 75);
        assert_eq!(given_up_after(&[(70, 74)]).await, 74 + 75);
        assert_eq!(given_up_after(&[(1, 1), (2, 3), (77, 77)]).await, 77 + 75);
        assert_eq!(given_up_after(&[(1, 1), (2, 3), (79, 79)]).await, 78);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_answered_late_is_no_missing_head() {
        assert_eq!(given_up_after(&[(10, 400)]).await, 400 + 75);
    }
}
