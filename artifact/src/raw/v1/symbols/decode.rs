//! Putting the tables together again.

use super::{FRAME_STREAMS, Totals, frame_bit, source, termination};
use crate::{
    addr::Svma,
    id::{FrameId, ModuleId, StringId},
    raw::v1::{
        input::{Broken, Input, Parsed},
        kind, records,
        words::{Words, apply},
    },
    symbols::{Frame, ModuleAudit, SymbolizedStack, Symbols},
};

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
