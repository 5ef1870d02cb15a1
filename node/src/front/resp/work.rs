//! What a connection does before others run.

/// The commands of a batch.
const MAX_COMMANDS: usize = 512;
/// The input of a turn after which it ends, in bytes.
const MAX_INPUT_BYTES: usize = 16 * 1024;
/// The replies of a batch, in bytes; the last one may go beyond.
const MAX_REPLY_BYTES: usize = 64 * 1024;
/// The reads of a turn, those that find nothing included.
const MAX_READS: usize = 64;

/// Work that has been done. What is answered by one write is a batch, and others run once batches
/// are enough together: so a turn is less than two full ones, and a small one is never split.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    pub commands: usize,
    /// In bytes.
    pub input: usize,
    /// In bytes.
    pub replies: usize,
    pub reads: usize,
}

impl Work {
    /// Whether nothing more is to be done before others run.
    #[inline]
    pub const fn is_enough(&self) -> bool {
        self.commands >= MAX_COMMANDS
            || self.input >= MAX_INPUT_BYTES
            || self.replies >= MAX_REPLY_BYTES
            || self.reads >= MAX_READS
    }

    pub const fn add(&mut self, more: &Self) {
        self.commands += more.commands;
        self.input += more.input;
        self.replies += more.replies;
        self.reads += more.reads;
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_COMMANDS, MAX_INPUT_BYTES, MAX_READS, MAX_REPLY_BYTES, Work};

    #[test]
    fn any_of_them_can_be_enough() {
        for (work, most) in [
            (Work { commands: 1, ..Work::default() }, MAX_COMMANDS),
            (Work { input: 1, ..Work::default() }, MAX_INPUT_BYTES),
            (Work { replies: 1, ..Work::default() }, MAX_REPLY_BYTES),
            (Work { reads: 1, ..Work::default() }, MAX_READS),
        ] {
            let mut turn = Work::default();
            let mut steps = 0;
            while !turn.is_enough() {
                turn.add(&work);
                steps += 1;
            }
            assert_eq!(steps, most, "{work:?}");
        }
    }
}
