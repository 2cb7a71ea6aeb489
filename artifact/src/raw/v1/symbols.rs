//! The tables of a symbol file, cut into chunks.

mod decode;
mod encode;

pub(crate) use decode::Builder;
pub(crate) use encode::{Part, for_each_part};

use super::input::{Broken, Parsed};
use crate::symbols::{NameSource, Symbols, Termination};
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
