//! Gathering stacks into a chunk.

use super::{MAX_CHAIN, MAX_STACKS, MAX_WINDOW_BYTES, Previous, STREAMS, Stream, TARGET_BYTES};
use crate::{
    raw::v1::words::{WordWriter, difference},
    stack::{MAX_REGISTERS, StackRecord},
};

/// Stacks of one chunk.
#[derive(Default)]
pub(crate) struct StackEncoder {
    count: u32,
    ids: Option<(u32, u32)>,
    streams: [WordWriter; STREAMS],
    windows: Vec<u8>,
    words: usize,
    previous: Previous,
}

impl StackEncoder {
    /// Stacks gathered.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Lowest and highest id.
    pub(crate) fn ids(&self) -> (u32, u32) {
        self.ids.unwrap_or_default()
    }

    /// Whether the chunk should be written now.
    pub(crate) fn is_full(&self) -> bool {
        self.count as usize >= MAX_STACKS || self.windows.len() + 8 * self.words >= TARGET_BYTES
    }

    /// Appends a stack. What is longer than the format allows is cut; a cut
    /// window shows in `available_bytes`.
    pub(crate) fn push(&mut self, stack: &StackRecord<'_>) {
        let window = stack.window.get(..MAX_WINDOW_BYTES).unwrap_or(stack.window);
        let available = if window.len() < stack.window.len() {
            stack.available_bytes.max(stack.window.len() as u64)
        } else {
            stack.available_bytes
        };
        let registers = stack
            .registers
            .get(..MAX_REGISTERS)
            .unwrap_or(stack.registers);
        let chain = stack
            .frame_pointer_chain
            .get(..MAX_CHAIN)
            .unwrap_or(stack.frame_pointer_chain);
        let previous = &mut self.previous;
        let streams = &mut self.streams;
        let mut push = |stream: Stream, value| streams[stream as usize].push(value);

        let id = u64::from(stack.id.0);
        push(Stream::Id, difference(previous.id, id));
        previous.id = id + 1;
        for (stream, last, value) in [
            (Stream::Pid, &mut previous.pid, u64::from(stack.pid.0)),
            (Stream::Tid, &mut previous.tid, u64::from(stack.tid.0)),
            (Stream::Time, &mut previous.time_ns, stack.time_ns),
            (
                Stream::StackPointer,
                &mut previous.stack_pointer,
                stack.stack_pointer.0,
            ),
        ] {
            push(stream, difference(*last, value));
            *last = value;
        }
        push(Stream::Form, stack.form as u64);
        push(Stream::RegisterCount, registers.len() as u64);
        push(Stream::ChainLength, chain.len() as u64);
        push(Stream::WindowLength, window.len() as u64);
        push(Stream::Available, available);
        for (last, &value) in previous.registers.iter_mut().zip(registers) {
            push(Stream::Register, difference(*last, value));
            *last = value;
        }
        for (index, &value) in chain.iter().enumerate() {
            let last = previous.chain_entry(index, chain.len());
            push(Stream::Chain, difference(last, value));
        }
        previous.chain.clear();
        previous.chain.extend_from_slice(chain);

        self.windows.extend_from_slice(window);
        self.words += registers.len() + chain.len() + 10;
        self.count += 1;
        self.ids = Some(match self.ids {
            None => (stack.id.0, stack.id.0),
            Some((low, high)) => (low.min(stack.id.0), high.max(stack.id.0)),
        });
    }

    /// Writes the chunk's payload to `out` and begins the next chunk.
    pub(crate) fn encode(&mut self, out: &mut Vec<u8>) {
        out.clear();
        for stream in &mut self.streams {
            stream.write_to(out);
            stream.clear();
        }
        out.extend_from_slice(&self.windows);
        self.windows.clear();
        self.count = 0;
        self.ids = None;
        self.words = 0;
        self.previous = Previous::default();
    }
}
