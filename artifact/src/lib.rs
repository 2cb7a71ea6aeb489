//! The artifact: the one file that a capture leaves and that every later
//! stage reads.
//!
//! This room owns the bytes on disk, the identifiers, the kinds of address and
//! the record of losses. It knows nothing of BPF, unwinding or reports. The
//! bytes are specified in `FORMAT.md`, beside this crate's manifest.
//!
//! ```
//! use memtrack_artifact::*;
//!
//! # let header = Header {
//! #     memtrack_version: "0.1.0".into(), architecture: Architecture::X86_64,
//! #     page_bytes: 4096, start_monotonic_ns: 0, start_wall_ns: 0,
//! #     kernel: String::new(), command: vec![], environment_names: vec![],
//! #     working_directory: ByteString::default(), options: vec![],
//! #     backend: "bpf".into(),
//! # };
//! # let ending = Ending {
//! #     end_monotonic_ns: 9000, status: None, root_pid: None, null_frees: 0,
//! # };
//! let mut writer = ArtifactWriter::new(Vec::new(), &header)?;
//! writer.event(&Event {
//!     kind: EventKind::Malloc,
//!     flags: EventFlags::default(),
//!     start_ns: 1000,
//!     time_ns: 1250,
//!     pid: Pid(7),
//!     tid: Tid(7),
//!     address: 0x5555_0000_1010,
//!     size: 24,
//!     old_address: 0,
//!     alignment: 0,
//!     stack: Some(StackId(0)),
//! })?;
//! let (bytes, summary) = writer.finish(&Losses::default(), &ending)?;
//! assert_eq!(summary.events, 1);
//!
//! let artifact = Artifact::from_bytes("run.mtk", bytes)?;
//! assert!(artifact.completeness().is_whole());
//! for chunk in artifact.event_chunks() {
//!     let batch = chunk.decode_columns(Columns::SIZE)?;
//!     assert_eq!(batch.sizes, [24]);
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! Threads may share an [`Artifact`] and decode its chunks side by side; an
//! [`ArtifactWriter`] and an [`EventDecoder`] belong to one thread at a time.
//!
//! Bytes are never trusted: every length, id and checksum is checked, what is
//! damaged is left out and told in [`Completeness`], and a file of a few MiB
//! cannot make a reader take more than 256 MiB.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod addr;
mod batch;
pub mod debug_file;
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
pub use debug_file::{AlternateLink, DebugFile, DebugFileKind, DebugFileProof, DebugLink};
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
