//! The content of a symbol file (`.mts`): every distinct stack as frames,
//! every distinct frame with its name.

use crate::{
    addr::Svma,
    id::{FrameId, ModuleId, StringId},
};
use serde::{Deserialize, Serialize};

/// Which source named a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NameSource {
    /// Nothing names the address: module and offset are all that is known.
    None,
    /// DWARF.
    Dwarf,
    /// `.symtab`.
    Symtab,
    /// `.dynsym`.
    Dynsym,
}

/// One logical frame. A physical frame with inlined calls is several of
/// these, innermost first, of which all but the last have `inline` set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Function name, demangled. `None`: unknown.
    pub function: Option<StringId>,
    /// Source file as the line table gives it, with the compile directory.
    pub file: Option<StringId>,
    /// Source line, 0 when unknown.
    pub line: u32,
    /// The keyed module, or `None` for code outside every known file.
    pub module: Option<ModuleId>,
    /// The address that was looked up, in the module's terms; an `Avma` when
    /// `module` is `None`.
    pub address: Svma,
    /// The mapping's file name (last path part) for display, where known.
    pub module_name: Option<StringId>,
    /// An inlined call: it has no frame of its own on the stack.
    pub inline: bool,
    /// A signal trampoline: the frame above it was interrupted, not called.
    pub signal: bool,
    /// Found by the frame-pointer chain instead of unwind information.
    pub frame_pointer: bool,
    /// Who named it.
    pub source: NameSource,
}

/// Why unwinding a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Termination {
    /// The outermost frame: its return address is undefined by its unwind
    /// rule, or zero.
    Root,
    /// The copied window ended; `needed_bytes` further were wanted at least.
    CopyTooShort {
        /// Bytes past the end of the copy that the next read wanted.
        needed_bytes: u64,
    },
    /// No unwind rule covers the address.
    NoRule,
    /// The address is in no known module.
    NoModule,
    /// A rule read memory that was not copied (outside the window).
    ReadFailed,
    /// The frame address did not grow.
    NoProgress,
    /// The unwind information is malformed at this place.
    BadRule,
    /// The limit of frames was reached.
    TooManyFrames,
    /// Only a frame-pointer chain was recorded.
    FramePointerOnly,
    /// The stack's record was lost.
    NotRecorded,
}

impl Termination {
    /// Whether the whole stack is known.
    #[must_use]
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Root)
    }

    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Root => "root reached",
            Self::CopyTooShort { .. } => "copy too short",
            Self::NoRule => "no unwind rule",
            Self::NoModule => "address in no known module",
            Self::ReadFailed => "read outside the copied stack",
            Self::NoProgress => "frame address did not grow",
            Self::BadRule => "malformed unwind rule",
            Self::TooManyFrames => "too many frames",
            Self::FramePointerOnly => "frame pointers only",
            Self::NotRecorded => "stack not recorded",
        }
    }
}

/// A stack's frames: a range of [`Symbols::stack_frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolizedStack {
    /// First position in `stack_frames`.
    pub start: u32,
    /// Number of frames, innermost first (the allocation function itself is
    /// the first).
    pub len: u32,
    /// Why it ends where it ends.
    pub termination: Termination,
}

/// What naming found in one module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleAudit {
    /// Distinct addresses asked.
    pub asked: u64,
    /// With a function name.
    pub named: u64,
    /// With file and line.
    pub with_lines: u64,
    /// With at least one inlined call.
    pub with_inlines: u64,
    /// What is missing and what to fetch or install, for people.
    pub notes: Vec<String>,
}

/// Everything a symbol file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Checksum of the artifact it was made from (see
    /// [`Artifact::fingerprint`](crate::Artifact::fingerprint)): a symbol file
    /// of another artifact is stale.
    pub artifact_fingerprint: u64,
    /// Distinct strings.
    pub strings: Vec<String>,
    /// Distinct frames.
    pub frames: Vec<Frame>,
    /// Frame ids of all stacks, one after another. Stacks of the same frames may
    /// share their range.
    pub stack_frames: Vec<FrameId>,
    /// By [`StackId`](crate::StackId).
    pub stacks: Vec<SymbolizedStack>,
    /// By [`ModuleId`].
    pub audits: Vec<ModuleAudit>,
}

impl Symbols {
    /// The frames of a stack, innermost first; empty for an unknown id.
    #[must_use]
    pub fn stack(&self, id: crate::StackId) -> &[FrameId] {
        self.stacks
            .get(id.index())
            .and_then(|stack| {
                let start = stack.start as usize;
                self.stack_frames
                    .get(start..start.checked_add(stack.len as usize)?)
            })
            .unwrap_or_default()
    }

    /// The frame of an id.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.index())
    }

    /// The string of an id; empty for an unknown one.
    #[must_use]
    pub fn string(&self, id: StringId) -> &str {
        self.strings.get(id.index()).map_or("", String::as_str)
    }
}
