//! Chunks of stacks: columns of sized words, then all windows one after
//! another. The whole payload is compressed at once, because consecutive
//! stacks share most of their outer frames, which zstd then finds.

use super::{
    input::{Broken, Input, Parsed},
    words::{WordWriter, Words, apply, difference},
};
use crate::{
    addr::Avma,
    id::{Pid, StackId, Tid},
    stack::{MAX_REGISTERS, StackForm, StackRecord},
};
use std::ops::Range;

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

/// A decoded stack: positions in its batch.
#[derive(Clone, Debug)]
struct Entry {
    id: StackId,
    pid: Pid,
    tid: Tid,
    time_ns: u64,
    form: StackForm,
    stack_pointer: Avma,
    available_bytes: u64,
    window: Range<u32>,
    registers: Range<u32>,
    chain: Range<u32>,
}

/// A decoded chunk of stacks.
#[derive(Clone, Debug, Default)]
pub struct StackBatch {
    entries: Vec<Entry>,
    words: Vec<u64>,
    /// The whole payload; windows are parts of it.
    bytes: Vec<u8>,
}

impl StackBatch {
    /// Number of stacks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All stacks in file order, borrowed from the batch.
    pub fn iter(&self) -> impl Iterator<Item = StackRecord<'_>> + '_ {
        fn part<'a, T>(all: &'a [T], range: &Range<u32>) -> &'a [T] {
            all.get(range.start as usize..range.end as usize)
                .unwrap_or_default()
        }
        self.entries.iter().map(|entry| StackRecord {
            id: entry.id,
            pid: entry.pid,
            tid: entry.tid,
            time_ns: entry.time_ns,
            form: entry.form,
            registers: part(&self.words, &entry.registers),
            stack_pointer: entry.stack_pointer,
            window: part(&self.bytes, &entry.window),
            available_bytes: entry.available_bytes,
            frame_pointer_chain: part(&self.words, &entry.chain),
        })
    }

    /// Decodes an uncompressed payload of `count` stacks.
    pub(crate) fn parse(bytes: Vec<u8>, count: usize) -> Parsed<Self> {
        if count > MAX_STACKS {
            return Err(Broken(format!("{count} stacks in one chunk are too many")));
        }
        let mut input = Input(&bytes);
        let mut streams = [Words::default(); STREAMS];
        for (number, stream) in streams.iter_mut().enumerate() {
            *stream = Words::parse(&mut input)?;
            if number < Stream::Register as usize {
                *stream = stream.expect(count)?;
            }
        }
        let [
            ids,
            pids,
            tids,
            times,
            stack_pointers,
            forms,
            register_counts,
            chain_lengths,
            window_lengths,
            available,
            registers,
            chain,
        ] = &mut streams;
        let short = || Broken::from("a stream of a chunk of stacks is too short");
        let narrow = |value: u64| {
            u32::try_from(value).map_err(|_| Broken(format!("{value} does not fit 32 bits")))
        };
        let mut window_start = (bytes.len() - input.0.len()) as u32;
        let mut previous = Previous::default();
        let mut entries = Vec::with_capacity(count);
        let word_count = registers.remaining() + chain.remaining();
        if word_count > MAX_WORDS {
            return Err(Broken(format!("{word_count} registers in one chunk")));
        }
        let mut words = Vec::with_capacity(word_count);
        for _ in 0..count {
            let next = |stream: &mut Words<'_>| stream.next().ok_or_else(short);
            let id = apply(previous.id, next(ids)?);
            previous.id = id.wrapping_add(1);
            previous.pid = apply(previous.pid, next(pids)?);
            previous.tid = apply(previous.tid, next(tids)?);
            previous.time_ns = apply(previous.time_ns, next(times)?);
            previous.stack_pointer = apply(previous.stack_pointer, next(stack_pointers)?);
            let form = match next(forms)? {
                1 => StackForm::Raw,
                2 => StackForm::FramePointer,
                other => {
                    return Err(Broken(format!(
                        "stack form {other} is not known; use a newer memtrack"
                    )));
                }
            };
            let register_count = next(register_counts)? as usize;
            let chain_length = next(chain_lengths)? as usize;
            let window_length = next(window_lengths)?;
            let available_bytes = next(available)?;
            if register_count > MAX_REGISTERS || chain_length > chain.remaining() {
                return Err(Broken(format!(
                    "a stack with {register_count} registers and a chain of {chain_length}"
                )));
            }
            let register_start = words.len() as u32;
            for last in previous.registers.iter_mut().take(register_count) {
                *last = apply(*last, next(registers)?);
                words.push(*last);
            }
            let chain_start = words.len();
            for index in 0..chain_length {
                let last = previous.chain_entry(index, chain_length);
                words.push(apply(last, next(chain)?));
            }
            previous.chain.clear();
            previous
                .chain
                .extend_from_slice(words.get(chain_start..).unwrap_or_default());
            let window_end = u32::try_from(window_length)
                .ok()
                .and_then(|length| window_start.checked_add(length))
                .filter(|&end| end as usize <= bytes.len())
                .ok_or_else(|| Broken(format!("a window of {window_length} bytes")))?;
            entries.push(Entry {
                id: StackId(narrow(id)?),
                pid: Pid(narrow(previous.pid)?),
                tid: Tid(narrow(previous.tid)?),
                time_ns: previous.time_ns,
                form,
                stack_pointer: Avma(previous.stack_pointer),
                available_bytes,
                window: window_start..window_end,
                registers: register_start..chain_start as u32,
                chain: chain_start as u32..words.len() as u32,
            });
            window_start = window_end;
        }
        if window_start as usize != bytes.len() || registers.len() + chain.len() != 0 {
            return Err("bytes are left after the last stack".into());
        }
        Ok(Self {
            entries,
            words,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Owned {
        ids: (u32, u32, u32),
        time_ns: u64,
        raw: bool,
        registers: Vec<u64>,
        stack_pointer: u64,
        window: Vec<u8>,
        available_bytes: u64,
        chain: Vec<u64>,
    }

    impl Owned {
        fn record(&self) -> StackRecord<'_> {
            StackRecord {
                id: StackId(self.ids.0),
                pid: Pid(self.ids.1),
                tid: Tid(self.ids.2),
                time_ns: self.time_ns,
                form: if self.raw {
                    StackForm::Raw
                } else {
                    StackForm::FramePointer
                },
                registers: &self.registers,
                stack_pointer: Avma(self.stack_pointer),
                window: &self.window,
                available_bytes: self.available_bytes,
                frame_pointer_chain: &self.chain,
            }
        }
    }

    fn stacks() -> impl Strategy<Value = Vec<Owned>> {
        let stack = (
            any::<(u32, u32, u32)>(),
            any::<(u64, u64, u64)>(),
            any::<bool>(),
            prop::collection::vec(any::<u64>(), 0..=MAX_REGISTERS),
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(any::<u64>(), 0..20),
        )
            .prop_map(|(ids, numbers, raw, registers, window, chain)| Owned {
                ids,
                time_ns: numbers.0,
                raw,
                registers,
                stack_pointer: numbers.1,
                window,
                available_bytes: numbers.2,
                chain,
            });
        prop::collection::vec(stack, 0..12)
    }

    fn encode(stacks: &[Owned]) -> Vec<u8> {
        let mut encoder = StackEncoder::default();
        stacks
            .iter()
            .for_each(|stack| encoder.push(&stack.record()));
        let mut bytes = Vec::new();
        encoder.encode(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn any_stacks_come_back(stacks in stacks()) {
            let batch = StackBatch::parse(encode(&stacks), stacks.len()).unwrap();
            prop_assert_eq!(batch.len(), stacks.len());
            for (decoded, stack) in batch.iter().zip(&stacks) {
                prop_assert_eq!(decoded, stack.record());
            }
        }

        #[test]
        fn changed_bytes_are_safe(stacks in stacks(), at: prop::sample::Index, with: u8) {
            let mut bytes = encode(&stacks);
            let at = at.index(bytes.len());
            bytes[at] ^= with;
            if let Ok(batch) = StackBatch::parse(bytes, stacks.len()) {
                prop_assert_eq!(batch.iter().count(), stacks.len());
            }
        }
    }

    #[test]
    fn what_is_too_long_is_cut_and_said() {
        let stack = Owned {
            ids: (7, 1, 1),
            time_ns: 1,
            raw: true,
            registers: vec![1; MAX_REGISTERS],
            stack_pointer: 0x7fff_0000,
            window: vec![3; MAX_WINDOW_BYTES + 5],
            available_bytes: 0,
            chain: vec![9; MAX_CHAIN + 1],
        };
        let batch = StackBatch::parse(encode(&[stack]), 1).unwrap();
        let record = batch.iter().next().unwrap();
        assert_eq!(record.window.len(), MAX_WINDOW_BYTES);
        assert!(record.is_cut());
        assert_eq!(record.frame_pointer_chain.len(), MAX_CHAIN);
    }
}
