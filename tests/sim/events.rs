//! What happens when: by time, ties in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Nanos;

#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry<E> {
    key: (Nanos, u64),
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0 }
    }
}

impl<E> Events<E> {
    pub fn plan(&mut self, at: Nanos, event: E) {
        self.heap.push(Reverse(Entry { key: (at, self.planned), event }));
        self.planned += 1;
    }

    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.key.0)
    }

    pub fn pop(&mut self) -> Option<E> {
        self.heap.pop().map(|Reverse(entry)| entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_come_in_the_order_of_planning() {
        let mut events = Events::default();
        for (at, event) in [(2, 'c'), (1, 'a'), (2, 'd'), (1, 'b')] {
            events.plan(at, event);
        }
        assert_eq!(events.next_at(), Some(1));
        let all: String = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(all, "abcd");
    }
}
