//! What waits for a node that is busy or stopped, in the two queues of the driver.

use std::collections::VecDeque;

use crate::network::Input;

/// Datagrams that wait for a busy node, at most: beyond them they are dropped.
const MAX_DATAGRAMS: usize = 256;

/// Messages, and datagrams apart from them.
#[derive(Default)]
pub struct Inbox {
    inputs: VecDeque<Input>,
    datagrams: VecDeque<Input>,
    /// Of both queues, the one of datagrams is next.
    is_datagram_next: bool,
}

impl Inbox {
    /// An input that a busy node takes later.
    pub fn push(&mut self, input: Input) {
        match input {
            Input::Datagram { .. } if self.datagrams.len() >= MAX_DATAGRAMS => {}
            Input::Datagram { .. } => self.datagrams.push_back(input),
            _ => self.inputs.push_back(input),
        }
    }

    /// An input that the kernel keeps of a node that is stopped.
    pub fn keep(&mut self, input: Input) {
        self.inputs.push_back(input);
    }

    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.datagrams.is_empty()
    }

    /// The next input: of each queue in turn.
    pub fn pop(&mut self) -> Option<Input> {
        self.is_datagram_next = !self.is_datagram_next;
        let (mut first, mut second) = (&mut self.datagrams, &mut self.inputs);
        if self.is_datagram_next {
            std::mem::swap(&mut first, &mut second);
        }
        first.pop_front().or_else(|| second.pop_front())
    }
}
