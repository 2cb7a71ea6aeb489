//! Cutting the tables into chunks.

use super::{
    FRAME_STREAMS, MAX_STRING_BYTES, ROWS, STRING_BYTES, frame_bit, source_code, termination_code,
};
use crate::{
    id::FrameId,
    raw::v1::{
        input::{Broken, Parsed},
        kind, records,
        words::{WordWriter, difference},
    },
    symbols::{Frame, ModuleAudit, SymbolizedStack, Symbols},
};

/// Rows of one table that go into one chunk.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Strings(&'a [String]),
    Frames(&'a [Frame]),
    StackFrames(&'a [FrameId]),
    Stacks(&'a [SymbolizedStack]),
    Audits(&'a [ModuleAudit]),
}

/// Calls `each` with every part, in file order, until it returns false.
pub(crate) fn for_each_part<'a>(symbols: &'a Symbols, mut each: impl FnMut(Part<'a>) -> bool) {
    let mut strings = &symbols.strings[..];
    while !strings.is_empty() {
        let mut bytes = 0;
        let fitting = strings
            .iter()
            .take(ROWS)
            .take_while(|string| {
                bytes += string.len();
                bytes <= STRING_BYTES
            })
            .count();
        let (part, rest) = strings.split_at(fitting.max(1));
        strings = rest;
        if !each(Part::Strings(part)) {
            return;
        }
    }
    let frames = symbols.frames.chunks(ROWS).map(Part::Frames);
    let stack_frames = symbols.stack_frames.chunks(ROWS).map(Part::StackFrames);
    let stacks = symbols.stacks.chunks(ROWS).map(Part::Stacks);
    let audits = symbols.audits.chunks(256).map(Part::Audits);
    frames
        .chain(stack_frames)
        .chain(stacks)
        .chain(audits)
        .all(each);
}

impl Part<'_> {
    pub(crate) fn kind(self) -> u8 {
        match self {
            Self::Strings(_) => kind::STRINGS,
            Self::Frames(_) => kind::FRAMES,
            Self::StackFrames(_) => kind::STACK_FRAMES,
            Self::Stacks(_) => kind::STACK_ENDS,
            Self::Audits(_) => kind::AUDITS,
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Self::Strings(rows) => rows.len(),
            Self::Frames(rows) => rows.len(),
            Self::StackFrames(rows) => rows.len(),
            Self::Stacks(rows) => rows.len(),
            Self::Audits(rows) => rows.len(),
        }
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) -> Parsed<()> {
        match self {
            Self::Strings(strings) => {
                let mut lengths = WordWriter::default();
                for string in strings {
                    if string.len() > MAX_STRING_BYTES {
                        return Err(Broken(format!("a string of {} bytes", string.len())));
                    }
                    lengths.push(string.len() as u64);
                }
                lengths.write_to(out);
                strings
                    .iter()
                    .for_each(|string| out.extend_from_slice(string.as_bytes()));
            }
            Self::Frames(frames) => encode_frames(frames, out),
            Self::StackFrames(ids) => {
                let mut words = WordWriter::default();
                ids.iter().for_each(|id| words.push(u64::from(id.0)));
                words.write_to(out);
            }
            Self::Stacks(stacks) => encode_stacks(stacks, out),
            Self::Audits(audits) => {
                for audit in audits {
                    records::append(out, audit)?;
                }
            }
        }
        Ok(())
    }
}

fn optional<T>(id: Option<T>, number: impl Fn(T) -> u32) -> u64 {
    id.map_or(0, |id| u64::from(number(id)) + 1)
}

fn encode_frames(frames: &[Frame], out: &mut Vec<u8>) {
    let mut streams: [WordWriter; FRAME_STREAMS] = Default::default();
    let (mut last_function, mut last_address) = (0, 0);
    for frame in frames {
        let [function, file, line, module, address, module_name, bits] = &mut streams;
        let value = optional(frame.function, |id| id.0);
        function.push(difference(last_function, value));
        last_function = value;
        file.push(optional(frame.file, |id| id.0));
        line.push(u64::from(frame.line));
        module.push(optional(frame.module, |id| id.0));
        address.push(difference(last_address, frame.address.0));
        last_address = frame.address.0;
        module_name.push(optional(frame.module_name, |id| id.0));
        let mut set = source_code(frame.source) << frame_bit::SOURCE_SHIFT;
        for (is_set, bit) in [
            (frame.inline, frame_bit::INLINE),
            (frame.signal, frame_bit::SIGNAL),
            (frame.frame_pointer, frame_bit::FRAME_POINTER),
        ] {
            if is_set {
                set |= bit;
            }
        }
        bits.push(set);
    }
    streams.iter().for_each(|stream| stream.write_to(out));
}

fn encode_stacks(stacks: &[SymbolizedStack], out: &mut Vec<u8>) {
    let mut streams: [WordWriter; 4] = Default::default();
    let mut end = 0;
    for stack in stacks {
        let [start, len, termination, detail] = &mut streams;
        start.push(difference(end, u64::from(stack.start)));
        end = u64::from(stack.start) + u64::from(stack.len);
        len.push(u64::from(stack.len));
        let (code, needed) = termination_code(stack.termination);
        termination.push(code);
        detail.push(needed);
    }
    streams.iter().for_each(|stream| stream.write_to(out));
}
