//! Reading an artifact: an index of its chunks, each decoded on demand and
//! alone, so that several threads can share one [`Artifact`].

mod budget;
mod chunks;
mod contents;
mod sections;
mod source;

pub use chunks::{EventChunk, EventDecoder, StackChunk};

use crate::{
    error::{Error, Result},
    event::EventKind,
    header::{Ending, Header},
    id::{ModuleId, StackId},
    loss::Losses,
    map::Bytes,
    module::{Mapping, Module, ModuleRecord, RefusedModule},
    raw::v1::{
        chunk::ChunkHeader,
        kind,
        preamble::{PREAMBLE_BYTES, Preamble},
    },
    scan::{Completeness, Entry, scan},
    version::{ARTIFACT_MAGIC, FORMAT_VERSION},
};
use contents::Contents;
use source::Source;
use std::{collections::BTreeMap, path::Path};

/// An opened artifact. It is not changed after it is opened; threads may share
/// it and decode different chunks, or the same, at once.
pub struct Artifact {
    source: Source,
    contents: Contents,
    completeness: Completeness,
    fingerprint: u64,
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Artifact>();
    shared::<EventChunk<'_>>();
    shared::<StackChunk<'_>>();
};

/// Bytes of each part of a file, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartSizes {
    /// The part's name ("events", "stacks", ...), number of chunks, stored
    /// bytes, bytes before compression.
    pub parts: Vec<(&'static str, u64, u64, u64)>,
    /// The whole file.
    pub file_bytes: u64,
}

impl std::fmt::Debug for Artifact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Artifact")
            .field("name", &self.source.name)
            .field("chunks", &self.source.entries.len())
            .field("completeness", &self.completeness)
            .finish_non_exhaustive()
    }
}

impl Artifact {
    /// Maps a file, checks every chunk and reads its index. A cut or damaged
    /// file opens as long as its header is whole; see
    /// [`completeness`](Self::completeness).
    ///
    /// The file must not be made shorter while it is open.
    pub fn open(path: &Path) -> Result<Self> {
        Self::new(path.display().to_string(), Bytes::map(path)?)
    }

    /// The same for bytes in memory; `name` is used in errors.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self> {
        Self::new(name.to_owned(), Bytes::Owned(bytes))
    }

    fn new(name: String, bytes: Bytes) -> Result<Self> {
        let preamble = Preamble::parse(&name, bytes.as_slice(), ARTIFACT_MAGIC, "artifact")?;
        if preamble.version != FORMAT_VERSION {
            return Err(Error::UnsupportedVersion {
                name,
                found: preamble.version,
                supported: FORMAT_VERSION,
            });
        }
        let mut index = scan(bytes.as_slice(), PREAMBLE_BYTES as u64, preamble.salt);
        let source = Source {
            name,
            bytes,
            salt: preamble.salt,
            entries: std::mem::take(&mut index.entries),
        };
        let mut completeness = index.completeness;
        let contents = Contents::read(&source, &mut completeness)?;
        completeness.damage.sort_by_key(|damage| damage.offset);
        Ok(Self {
            source,
            contents,
            completeness,
            fingerprint: index.fingerprint,
        })
    }

    /// The run's description.
    pub fn header(&self) -> &Header {
        &self.contents.header
    }

    /// How the run ended; `None` in a cut file.
    pub fn ending(&self) -> Option<&Ending> {
        self.contents.ending.as_ref()
    }

    /// What capture lost. In a cut file: what is known of it, and a note that
    /// there may be more.
    pub fn losses(&self) -> &Losses {
        &self.contents.losses
    }

    /// Whether the file is whole.
    pub fn completeness(&self) -> &Completeness {
        &self.completeness
    }

    /// Keyed modules, by [`ModuleId`]. A module whose description is damaged
    /// is there without sections, and says so in its notes.
    pub fn modules(&self) -> &[Module] {
        &self.contents.modules
    }

    /// Files that could not be taken.
    pub fn refused_modules(&self) -> &[RefusedModule] {
        &self.contents.refused
    }

    /// The keyed module of a mapping: the one that was mapped under the same
    /// path and identity, else the one with the mapping's build id.
    pub fn module_of(&self, mapping: &Mapping) -> Option<ModuleId> {
        self.contents.module_of(mapping)
    }

    /// A section's bytes as they are in the file (perhaps compressed); `None`
    /// when the module was kept without it. They are read and decompressed at
    /// each call.
    pub fn section(&self, module: ModuleId, name: &str) -> Result<Option<Vec<u8>>> {
        sections::read(self, module, name)
    }

    /// The module stream, sorted by time (stable).
    pub fn module_records(&self) -> &[ModuleRecord] {
        &self.contents.records
    }

    /// Chunks of events in file order.
    pub fn event_chunks(&self) -> Vec<EventChunk<'_>> {
        self.chunks(kind::EVENTS)
            .map(|(entry, header)| EventChunk {
                artifact: self,
                entry,
                count: header.count as usize,
                min_start_ns: header.first,
                max_time_ns: header.last,
            })
            .collect()
    }

    /// Number of events of each kind, without decoding any.
    pub fn event_counts(&self) -> &BTreeMap<EventKind, u64> {
        &self.contents.event_counts
    }

    /// Chunks of stacks in file order.
    pub fn stack_chunks(&self) -> Vec<StackChunk<'_>> {
        self.chunks(kind::STACKS)
            .map(|(entry, header)| StackChunk {
                artifact: self,
                entry,
                count: header.count as usize,
                min_id: StackId(header.first.min(u64::from(u32::MAX)) as u32),
                max_id: StackId(header.last.min(u64::from(u32::MAX)) as u32),
            })
            .collect()
    }

    /// A checksum of the file's chunk checksums: tells whether a symbol file
    /// belongs to it.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Where the file's bytes go.
    pub fn part_sizes(&self) -> PartSizes {
        let mut parts: BTreeMap<u8, (&'static str, u64, u64, u64)> = BTreeMap::new();
        for entry in &self.source.entries {
            if let Ok(header) = self.source.header(entry) {
                let part = parts.entry(entry.kind).or_default();
                part.0 = kind::name(entry.kind);
                part.1 += 1;
                part.2 += u64::from(header.stored_bytes);
                part.3 += u64::from(header.raw_bytes);
            }
        }
        PartSizes {
            parts: parts.into_values().collect(),
            file_bytes: self.source.bytes().len() as u64,
        }
    }

    fn chunks(&self, kind: u8) -> impl Iterator<Item = (Entry, ChunkHeader)> + '_ {
        self.source
            .entries
            .iter()
            .filter(move |entry| entry.kind == kind)
            .filter_map(|entry| Some((*entry, self.source.header(entry).ok()?)))
    }
}
