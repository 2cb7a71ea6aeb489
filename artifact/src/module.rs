//! Module records (what was mapped where, when) and keyed modules (the bytes
//! of each distinct file that unwinding and naming need).

use crate::{
    addr::{Avma, FileOffset, Svma},
    debug_file::DebugFile,
    id::{ModuleId, Pid, Tid},
};
use serde::{Deserialize, Serialize};

/// A build id (the descriptor of an ELF `NT_GNU_BUILD_ID` note).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BuildId(#[serde(with = "serde_bytes_vec")] pub Vec<u8>);

impl std::fmt::Display for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// A file's identity as the kernel reported it with the mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Device major and minor number.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Inode generation.
    pub generation: u64,
    /// Build id, where the kernel read one.
    pub build_id: Option<BuildId>,
}

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// Where it starts in the process.
    pub start: Avma,
    /// Its length in bytes.
    pub len: u64,
    /// The file position that `start` shows.
    pub file_offset: FileOffset,
    /// `PROT_*` bits.
    pub protection: u32,
    /// The file, or zeros for anonymous and special mappings.
    pub file: FileIdentity,
    /// The path's bytes as the kernel gave them (`[vdso]`, `//anon`, ...).
    #[serde(with = "serde_bytes_vec")]
    pub path: Vec<u8>,
}

/// What a [`ModuleRecord`] tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleEvent {
    /// An executable mapping appeared (`PERF_RECORD_MMAP2`).
    Map(Mapping),
    /// A process began as a copy of `parent` (`PERF_RECORD_FORK` of a new
    /// thread group).
    Fork {
        /// The process it was copied from.
        parent: Pid,
    },
    /// The process replaced its image (`PERF_RECORD_COMM` with the exec bit);
    /// earlier mappings are gone.
    Exec,
    /// A thread or process has this name from now on.
    Comm {
        /// Bytes as the kernel gave them, without the terminating NUL.
        #[serde(with = "serde_bytes_vec")]
        name: Vec<u8>,
    },
    /// The thread ended; the process has ended when `tid` equals the pid and
    /// no other thread lives.
    Exit,
    /// The kernel dropped this many records of the stream
    /// (`PERF_RECORD_LOST`).
    Lost {
        /// Records dropped.
        count: u64,
    },
}

/// One record of the module stream, in time order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// What happened.
    pub event: ModuleEvent,
}

/// A loadable program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// `p_type` (only `PT_LOAD` maps file offsets to addresses).
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// `p_offset`.
    pub file_offset: FileOffset,
    /// `p_vaddr`.
    pub address: Svma,
    /// `p_filesz`, bytes.
    pub file_bytes: u64,
    /// `p_memsz`, bytes.
    pub memory_bytes: u64,
}

/// A section taken along. Its bytes are read with
/// [`Artifact::section`](crate::Artifact::section).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionInfo {
    /// Name, e.g. `.eh_frame`.
    pub name: String,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags` (`SHF_COMPRESSED` when the bytes are compressed as in the
    /// file).
    pub flags: u64,
    /// `sh_addr`.
    pub address: Svma,
    /// `sh_offset`.
    pub file_offset: FileOffset,
    /// Bytes kept.
    pub len: u64,
    /// `sh_entsize`.
    pub entry_bytes: u64,
    /// `sh_link`'s section name (the string table of a symbol table).
    pub link: Option<String>,
}

/// What tells one module's bytes from another's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleKey {
    /// The GNU build id.
    BuildId(BuildId),
    /// A 128-bit hash of the file's bytes, where it has no build id.
    Content([u8; 16]),
}

impl std::fmt::Display for ModuleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuildId(id) => write!(f, "{id}"),
            Self::Content(hash) => {
                f.write_str("content:")?;
                hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// A file under the name and identity it was mapped with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MappedFile {
    /// The path's bytes as the kernel gave them.
    #[serde(with = "serde_bytes_vec")]
    pub path: Vec<u8>,
    /// Identity as mapped.
    pub file: FileIdentity,
}

/// A distinct file: what unwinding and naming need of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its id: the position in [`Artifact::modules`](crate::Artifact::modules).
    pub id: ModuleId,
    /// Its key.
    pub key: ModuleKey,
    /// The files as they were mapped: several when the same bytes were mapped
    /// under several names. The first is the one to show.
    pub mapped_as: Vec<MappedFile>,
    /// `e_machine`.
    pub machine: u16,
    /// `e_type` (`ET_EXEC`, `ET_DYN`).
    pub elf_type: u16,
    /// The whole file's length in bytes.
    pub file_bytes: u64,
    /// Program headers, all kinds.
    pub segments: Vec<Segment>,
    /// Sections taken along. Those of a debug file have its prefix before
    /// their names ([`DebugFileKind::section_prefix`](crate::DebugFileKind::section_prefix)); their offsets are
    /// positions in that file.
    pub sections: Vec<SectionInfo>,
    /// Debug files of which sections were taken along, at most one of a kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debug_files: Vec<DebugFile>,
    /// Why something expected was not taken along, for people.
    pub notes: Vec<String>,
}

impl Module {
    /// Where a byte of the file appears in link-time addresses, by the
    /// `PT_LOAD` segment that holds it.
    #[must_use]
    pub fn file_offset_to_svma(&self, offset: FileOffset) -> Option<Svma> {
        self.segments
            .iter()
            .filter(|segment| segment.kind == PT_LOAD)
            .find_map(|segment| {
                let inside = offset.offset_from(segment.file_offset)?;
                (inside < segment.file_bytes)
                    .then(|| segment.address.checked_add(inside))
                    .flatten()
            })
    }
}

/// `PT_LOAD` of the ELF specification.
const PT_LOAD: u32 = 1;

/// A mapped file whose bytes could not be taken, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedModule {
    /// The file as it was mapped.
    pub mapped_as: MappedFile,
    /// What was wrong, for people ("changed since it was mapped: inode 12, was
    /// 9").
    pub reason: String,
}

/// Byte strings as MessagePack `bin`, not as arrays of numbers.
pub(crate) mod serde_bytes_vec {
    use serde::{Deserializer, Serializer, de::Visitor};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a byte string")
            }
            fn visit_bytes<E: serde::de::Error>(self, v: &[u8]) -> Result<Self::Value, E> {
                Ok(v.to_vec())
            }
            fn visit_byte_buf<E: serde::de::Error>(self, v: Vec<u8>) -> Result<Self::Value, E> {
                Ok(v)
            }
        }
        d.deserialize_byte_buf(Bytes)
    }
}
