//! The artifact: the one file that a capture leaves and that every later
//! stage reads.
//!
//! This room owns the bytes on disk, the identifiers, the kinds of address and
//! the record of losses. It knows nothing of BPF, unwinding or reports.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod addr;
mod batch;
pub mod error;
pub mod event;
pub mod header;
pub mod id;
pub mod loss;
mod map;
pub mod module;
pub mod progress;
mod raw;
mod read;
mod scan;
pub mod stack;
mod symbol_file;
pub mod symbols;
pub mod version;
mod write;

pub use addr::{Avma, FileOffset, Svma};
pub use batch::{Columns, EventBatch};
pub use error::{Error, Result};
pub use event::{Event, EventFlags, EventKind};
pub use header::{Architecture, ByteString, Ending, ExitStatus, Header};
pub use id::{FrameId, ModuleId, Pid, StackId, StringId, Tid};
pub use loss::{LossCount, LossReason, Losses, Pause, PauseReason};
pub use module::{
    BuildId, FileIdentity, MappedFile, Mapping, Module, ModuleEvent, ModuleKey, ModuleRecord,
    RefusedModule, SectionInfo, Segment,
};
pub use progress::{Progress, Silent};
pub use raw::v1::stacks::StackBatch;
pub use read::{Artifact, EventChunk, EventDecoder, PartSizes, StackChunk};
pub use scan::{Completeness, Damage};
pub use stack::{StackForm, StackRecord};
pub use symbol_file::{read_symbols, read_symbols_from, write_symbols};
pub use symbols::{Frame, ModuleAudit, NameSource, SymbolizedStack, Symbols, Termination};
pub use write::{ArtifactWriter, WriteSummary};
