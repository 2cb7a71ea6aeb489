//! Reading an artifact: an index of its chunks, each decoded on demand and
//! alone, so that several threads can share one [`Artifact`].

use crate::{
    error::Result,
    event::{Event, EventFlags, EventKind},
    header::{Ending, Header},
    id::{ModuleId, Pid, StackId, Tid},
    loss::Losses,
    module::{Mapping, Module, ModuleRecord, RefusedModule},
    stack::StackRecord,
};
use std::path::Path;

/// An opened artifact.
pub struct Artifact {
    _private: (),
}

/// Whether the file is whole, apart from what capture itself lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    /// The footer is there: the capture ended in order.
    pub finished: bool,
    /// The file ends in the middle of a chunk that begins here.
    pub cut_at: Option<u64>,
    /// Chunks that are damaged, missing or doubled: where, and what is wrong.
    pub damage: Vec<Damage>,
}

/// A damaged place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Byte position in the file.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

impl Completeness {
    /// Nothing is missing from the file.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.finished && self.cut_at.is_none() && self.damage.is_empty()
    }
}

/// Bytes of each part of a file, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartSizes {
    /// The part's name ("events", "stacks", ...), number of chunks, stored
    /// bytes, bytes before compression.
    pub parts: Vec<(&'static str, u64, u64, u64)>,
    /// The whole file.
    pub file_bytes: u64,
}

/// A chunk of events, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub struct EventChunk<'a> {
    pub(crate) _artifact: &'a Artifact,
    /// Number of events in it.
    pub count: usize,
    /// Earliest `start_ns` in it.
    pub min_start_ns: u64,
    /// Latest `time_ns` in it.
    pub max_time_ns: u64,
}

/// Columns of a decoded chunk; all have the same length. A column that was not
/// asked for is empty.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    /// See [`Event`].
    pub kinds: Vec<EventKind>,
    /// See [`Event`].
    pub flags: Vec<EventFlags>,
    /// See [`Event`].
    pub start_ns: Vec<u64>,
    /// See [`Event`].
    pub time_ns: Vec<u64>,
    /// See [`Event`].
    pub pids: Vec<Pid>,
    /// See [`Event`].
    pub tids: Vec<Tid>,
    /// See [`Event`].
    pub addresses: Vec<u64>,
    /// See [`Event`].
    pub sizes: Vec<u64>,
    /// See [`Event`].
    pub old_addresses: Vec<u64>,
    /// See [`Event`].
    pub alignments: Vec<u64>,
    /// See [`Event`].
    pub stacks: Vec<Option<StackId>>,
}

impl EventBatch {
    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
    /// All events in file order.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        std::iter::empty()
    }
}

impl EventChunk<'_> {
    /// Decodes every column.
    pub fn decode(&self) -> Result<EventBatch> {
        todo!()
    }
}

/// A chunk of stacks, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub struct StackChunk<'a> {
    pub(crate) _artifact: &'a Artifact,
    /// Number of stacks in it.
    pub count: usize,
}

/// A decoded chunk of stacks.
#[derive(Debug, Default)]
pub struct StackBatch {
    _private: (),
}

impl StackBatch {
    /// All stacks in file order, borrowed from the batch.
    pub fn iter(&self) -> impl Iterator<Item = StackRecord<'_>> + '_ {
        std::iter::empty()
    }
}

impl StackChunk<'_> {
    /// Decompresses and checks the chunk.
    pub fn decode(&self) -> Result<StackBatch> {
        todo!()
    }
}

impl std::fmt::Debug for Artifact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Artifact").finish_non_exhaustive()
    }
}

impl Artifact {
    /// Maps a file and reads its index. A cut or damaged file opens as long as
    /// its header is whole; see [`completeness`](Self::completeness).
    pub fn open(path: &Path) -> Result<Self> {
        let _ = path;
        todo!()
    }
    /// The same for bytes in memory; `name` is used in errors.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self> {
        let _ = (name, bytes);
        todo!()
    }
    /// The run's description.
    pub fn header(&self) -> &Header {
        todo!()
    }
    /// How the run ended; `None` in a cut file.
    pub fn ending(&self) -> Option<&Ending> {
        todo!()
    }
    /// What capture lost. In a cut file: what is known of it.
    pub fn losses(&self) -> &Losses {
        todo!()
    }
    /// Whether the file is whole.
    pub fn completeness(&self) -> &Completeness {
        todo!()
    }
    /// Keyed modules, by [`ModuleId`].
    pub fn modules(&self) -> &[Module] {
        todo!()
    }
    /// Files that could not be taken.
    pub fn refused_modules(&self) -> &[RefusedModule] {
        todo!()
    }
    /// The keyed module of a mapping.
    pub fn module_of(&self, mapping: &Mapping) -> Option<ModuleId> {
        let _ = mapping;
        todo!()
    }
    /// A section's bytes as they are in the file (perhaps compressed); `None`
    /// when the module was kept without it.
    pub fn section(&self, module: ModuleId, name: &str) -> Result<Option<Vec<u8>>> {
        let _ = (module, name);
        todo!()
    }
    /// The module stream, sorted by time (stable).
    pub fn module_records(&self) -> &[ModuleRecord] {
        todo!()
    }
    /// Chunks of events in file order.
    pub fn event_chunks(&self) -> Vec<EventChunk<'_>> {
        todo!()
    }
    /// Chunks of stacks in file order.
    pub fn stack_chunks(&self) -> Vec<StackChunk<'_>> {
        todo!()
    }
    /// A checksum of the file's chunk checksums: tells whether a symbol file
    /// belongs to it.
    pub fn fingerprint(&self) -> u64 {
        todo!()
    }
    /// Where the file's bytes go.
    pub fn part_sizes(&self) -> PartSizes {
        todo!()
    }
}
