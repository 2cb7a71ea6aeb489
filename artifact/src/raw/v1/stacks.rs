//! Chunks of stacks: columns of sized words, then all windows one after
//! another. The whole payload is compressed at once, because consecutive
//! stacks share most of their outer frames, which zstd then finds.

mod decode;
mod encode;

pub use decode::StackBatch;
pub(crate) use encode::StackEncoder;

use crate::stack::MAX_REGISTERS;

/// Raw bytes after which a writer begins a new chunk.
pub(crate) const TARGET_BYTES: usize = 1 << 20;
/// Longest window. A longer one is cut by the writer.
pub(crate) const MAX_WINDOW_BYTES: usize = 8 << 20;
/// Longest frame-pointer chain. A longer one is cut by the writer.
pub(crate) const MAX_CHAIN: usize = 1 << 16;
/// Most stacks of a chunk.
pub(crate) const MAX_STACKS: usize = 1 << 14;
/// Most registers and chain entries of a chunk: more than a writer can gather
/// before the chunk is full.
const MAX_WORDS: usize = 1 << 19;

/// The streams, in file order.
#[derive(Clone, Copy)]
enum Stream {
    /// Difference to the id before plus 1.
    Id,
    /// Difference to the one before; so are the next three.
    Pid,
    Tid,
    Time,
    StackPointer,
    Form,
    RegisterCount,
    ChainLength,
    WindowLength,
    Available,
    /// Difference to the same register of the stack before.
    Register,
    /// Difference to the return address that is as far from the end of the
    /// chain of the stack before.
    Chain,
}

const STREAMS: usize = Stream::Chain as usize + 1;

/// What the streams' differences refer to.
struct Previous {
    id: u64,
    pid: u64,
    tid: u64,
    time_ns: u64,
    stack_pointer: u64,
    registers: [u64; MAX_REGISTERS],
    chain: Vec<u64>,
}

impl Default for Previous {
    fn default() -> Self {
        Self {
            id: 0,
            pid: 0,
            tid: 0,
            time_ns: 0,
            stack_pointer: 0,
            registers: [0; MAX_REGISTERS],
            chain: Vec::new(),
        }
    }
}

impl Previous {
    /// The entry of the chain before that is as far from its end as entry
    /// `index` is from the end of a chain of `len`.
    fn chain_entry(&self, index: usize, len: usize) -> u64 {
        (self.chain.len() + index)
            .checked_sub(len)
            .and_then(|index| self.chain.get(index))
            .copied()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
