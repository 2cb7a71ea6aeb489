//! Turning a chunk back into stacks.

use super::{MAX_STACKS, MAX_WORDS, Previous, STREAMS, Stream};
use crate::{
    addr::Avma,
    id::{Pid, StackId, Tid},
    raw::v1::{
        input::{Broken, Input, Parsed},
        words::{Words, apply},
    },
    stack::{MAX_REGISTERS, StackForm, StackRecord},
};
use std::ops::Range;

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
