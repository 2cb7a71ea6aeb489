//! The tables of a symbol file, cut into chunks.

use super::{
    input::{Broken, Input, Parsed},
    kind, records,
    words::{WordWriter, Words, apply, difference},
};
use crate::{
    addr::Svma,
    id::{FrameId, ModuleId, StringId},
    symbols::{Frame, ModuleAudit, NameSource, SymbolizedStack, Symbols, Termination},
};
use serde::{Deserialize, Serialize};

/// Rows of a table in one chunk.
const ROWS: usize = 1 << 16;
/// Bytes of strings in one chunk.
const STRING_BYTES: usize = 1 << 20;
/// Longest string.
const MAX_STRING_BYTES: usize = 8 << 20;

/// The first chunk: what the file belongs to, and how long the tables are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    artifact_fingerprint: u64,
    strings: u64,
    frames: u64,
    stack_frames: u64,
    stacks: u64,
    audits: u64,
}

impl Totals {
    pub(crate) fn of(symbols: &Symbols) -> Self {
        Self {
            artifact_fingerprint: symbols.artifact_fingerprint,
            strings: symbols.strings.len() as u64,
            frames: symbols.frames.len() as u64,
            stack_frames: symbols.stack_frames.len() as u64,
            stacks: symbols.stacks.len() as u64,
            audits: symbols.audits.len() as u64,
        }
    }
}

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

/// Bits of a frame that are set or not.
mod frame_bit {
    pub(super) const INLINE: u64 = 1;
    pub(super) const SIGNAL: u64 = 2;
    pub(super) const FRAME_POINTER: u64 = 4;
    /// The source's code is above these.
    pub(super) const SOURCE_SHIFT: u32 = 3;
}

/// The streams of a chunk of frames.
const FRAME_STREAMS: usize = 7;

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

fn source_code(source: NameSource) -> u64 {
    match source {
        NameSource::None => 0,
        NameSource::Dwarf => 1,
        NameSource::Symtab => 2,
        NameSource::Dynsym => 3,
    }
}

fn source(code: u64) -> Parsed<NameSource> {
    Ok(match code {
        0 => NameSource::None,
        1 => NameSource::Dwarf,
        2 => NameSource::Symtab,
        3 => NameSource::Dynsym,
        _ => return Err(Broken(format!("source of names {code} is not known"))),
    })
}

fn termination_code(termination: Termination) -> (u64, u64) {
    match termination {
        Termination::Root => (0, 0),
        Termination::CopyTooShort { needed_bytes } => (1, needed_bytes),
        Termination::NoRule => (2, 0),
        Termination::NoModule => (3, 0),
        Termination::ReadFailed => (4, 0),
        Termination::NoProgress => (5, 0),
        Termination::BadRule => (6, 0),
        Termination::TooManyFrames => (7, 0),
        Termination::FramePointerOnly => (8, 0),
        Termination::NotRecorded => (9, 0),
    }
}

fn termination(code: u64, needed_bytes: u64) -> Parsed<Termination> {
    Ok(match code {
        0 => Termination::Root,
        1 => Termination::CopyTooShort { needed_bytes },
        2 => Termination::NoRule,
        3 => Termination::NoModule,
        4 => Termination::ReadFailed,
        5 => Termination::NoProgress,
        6 => Termination::BadRule,
        7 => Termination::TooManyFrames,
        8 => Termination::FramePointerOnly,
        9 => Termination::NotRecorded,
        _ => return Err(Broken(format!("end of a stack {code} is not known"))),
    })
}

/// Puts the tables together again.
pub(crate) struct Builder {
    symbols: Symbols,
    totals: Option<Totals>,
    memory: usize,
}

impl Builder {
    /// The tables may take `memory` bytes.
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            symbols: Symbols::default(),
            totals: None,
            memory,
        }
    }

    fn spend(&mut self, bytes: usize) -> Parsed<()> {
        self.memory = self
            .memory
            .checked_sub(bytes)
            .ok_or("the tables need more memory than is allowed for a file of this length")?;
        Ok(())
    }

    /// Adds a chunk's rows.
    pub(crate) fn add(&mut self, kind: u8, count: usize, payload: &[u8]) -> Parsed<()> {
        let mut input = Input(payload);
        match kind {
            kind::SYMBOLS => self.totals = Some(records::decode_only(payload)?),
            kind::STRINGS => {
                let lengths = Words::parse(&mut input)?.expect(count)?;
                self.spend(count * (size_of::<String>() + 16) + payload.len())?;
                for length in lengths {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    let string = std::str::from_utf8(input.take(length)?)
                        .map_err(|_| Broken::from("a string is not UTF-8"))?;
                    self.symbols.strings.push(string.to_owned());
                }
            }
            kind::FRAMES => {
                self.spend(count * size_of::<Frame>() * 2)?;
                decode_frames(&mut input, count, &mut self.symbols.frames)?;
            }
            kind::STACK_FRAMES => {
                let ids = Words::parse(&mut input)?.expect(count)?;
                self.spend(count * size_of::<FrameId>() * 2)?;
                for id in ids {
                    self.symbols.stack_frames.push(FrameId(narrow(id)?));
                }
            }
            kind::STACK_ENDS => {
                self.spend(count * size_of::<SymbolizedStack>() * 2)?;
                decode_stacks(&mut input, count, &mut self.symbols.stacks)?;
            }
            kind::AUDITS => {
                while let Some(record) = records::next(&mut input)? {
                    let audit: ModuleAudit = records::decode(record)?;
                    let notes: usize = audit.notes.iter().map(|note| note.len() + 40).sum();
                    self.spend(size_of::<ModuleAudit>() + notes)?;
                    self.symbols.audits.push(audit);
                }
            }
            other => return Err(Broken(format!("chunks of kind {other} are not known"))),
        }
        if input.is_empty() || kind == kind::SYMBOLS {
            Ok(())
        } else {
            Err("bytes are left after the last row".into())
        }
    }

    /// Checks every total and every id.
    pub(crate) fn finish(self) -> Parsed<Symbols> {
        let mut symbols = self.symbols;
        let totals = self.totals.ok_or("the table of totals is missing")?;
        symbols.artifact_fingerprint = totals.artifact_fingerprint;
        if Totals::of(&symbols) != totals {
            return Err("the tables are not as long as the totals say".into());
        }
        let strings = symbols.strings.len();
        let string = |id: Option<StringId>| id.is_none_or(|id| id.index() < strings);
        let frames_are_right = symbols
            .frames
            .iter()
            .all(|frame| string(frame.function) && string(frame.file) && string(frame.module_name));
        let frames = symbols.frames.len();
        let ids_are_right = symbols.stack_frames.iter().all(|id| id.index() < frames);
        let stack_frames = symbols.stack_frames.len() as u64;
        let stacks_are_right = symbols
            .stacks
            .iter()
            .all(|stack| u64::from(stack.start) + u64::from(stack.len) <= stack_frames);
        if frames_are_right && ids_are_right && stacks_are_right {
            Ok(symbols)
        } else {
            Err("an id is not in its table".into())
        }
    }
}

fn narrow(value: u64) -> Parsed<u32> {
    u32::try_from(value).map_err(|_| Broken(format!("{value} does not fit 32 bits")))
}

fn some<T>(value: u64, id: impl Fn(u32) -> T) -> Parsed<Option<T>> {
    value
        .checked_sub(1)
        .map(narrow)
        .transpose()
        .map(|number| number.map(id))
}

fn streams<'a, const N: usize>(input: &mut Input<'a>, count: usize) -> Parsed<[Words<'a>; N]> {
    let mut streams = [Words::default(); N];
    for stream in &mut streams {
        *stream = Words::parse(input)?.expect(count)?;
    }
    Ok(streams)
}

fn decode_frames(input: &mut Input<'_>, count: usize, frames: &mut Vec<Frame>) -> Parsed<()> {
    let mut streams = streams::<FRAME_STREAMS>(input, count)?;
    let (mut last_function, mut last_address) = (0, 0);
    for _ in 0..count {
        let [function, file, line, module, address, module_name, bits] =
            streams.each_mut().map(|stream| stream.next_if(1));
        last_function = apply(last_function, function);
        last_address = apply(last_address, address);
        frames.push(Frame {
            function: some(last_function, StringId)?,
            file: some(file, StringId)?,
            line: narrow(line)?,
            module: some(module, ModuleId)?,
            address: Svma(last_address),
            module_name: some(module_name, StringId)?,
            inline: bits & frame_bit::INLINE != 0,
            signal: bits & frame_bit::SIGNAL != 0,
            frame_pointer: bits & frame_bit::FRAME_POINTER != 0,
            source: source(bits >> frame_bit::SOURCE_SHIFT)?,
        });
    }
    Ok(())
}

fn decode_stacks(
    input: &mut Input<'_>,
    count: usize,
    stacks: &mut Vec<SymbolizedStack>,
) -> Parsed<()> {
    let mut streams = streams::<4>(input, count)?;
    let mut end = 0;
    for _ in 0..count {
        let [start, len, code, detail] = streams.each_mut().map(|stream| stream.next_if(1));
        let stack = SymbolizedStack {
            start: narrow(apply(end, start))?,
            len: narrow(len)?,
            termination: termination(code, detail)?,
        };
        end = u64::from(stack.start) + u64::from(stack.len);
        stacks.push(stack);
    }
    Ok(())
}
