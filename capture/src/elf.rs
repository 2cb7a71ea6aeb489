//! What capture needs to know of an ELF file: its segments, its build id, and
//! the allocator functions that it defines.
//!
//! The bytes are hostile: every structure is read through `object`, which
//! checks offsets and lengths against the bytes it was given, and every loop
//! here is bounded by the length of the file.

use memtrack_artifact::{Architecture, BuildId, EventKind, FileOffset, Segment, Svma};
use object::{
    LittleEndian, elf,
    read::elf::{
        Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _,
        SymbolTable,
    },
};
use std::collections::BTreeMap;

/// The only layout that the supported architectures use.
type Header = elf::FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

/// Longest build id accepted, bytes. The kernel reports at most 20
/// (`BUILD_ID_SIZE_MAX` of `include/linux/buildid.h`); linkers can be told to
/// write longer ones.
const MAX_BUILD_ID_BYTES: usize = 64;

/// Why bytes could not be read as an ELF file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// Another kind of file.
    #[error("not an ELF file (it begins with {found:02x?})")]
    NotElf {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// Broken where it cannot be skipped.
    #[error("broken ELF file: {what}: {source}")]
    Malformed {
        /// The structure that was being read.
        what: &'static str,
        /// What `object` found wrong with it.
        source: object::read::Error,
    },
    /// A class, byte order or machine that memtrack does not record.
    #[error(
        "an ELF file for machine {machine} ({bits} bits); memtrack records 64-bit \
         little-endian x86_64 and aarch64 programs"
    )]
    Unsupported {
        /// `e_machine`.
        machine: u16,
        /// 32 or 64.
        bits: u8,
    },
}

/// A function of the allocator's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AllocatorFunction {
    /// `void *malloc(size_t size)`
    Malloc,
    /// `void *calloc(size_t n, size_t m)`
    Calloc,
    /// `void *realloc(void *old, size_t size)`
    Realloc,
    /// `void *reallocarray(void *old, size_t n, size_t m)`
    Reallocarray,
    /// `void *aligned_alloc(size_t alignment, size_t size)`
    AlignedAlloc,
    /// `void *memalign(size_t alignment, size_t size)`
    Memalign,
    /// `int posix_memalign(void **out, size_t alignment, size_t size)`
    PosixMemalign,
    /// `void *valloc(size_t size)`
    Valloc,
    /// `void *pvalloc(size_t size)`
    Pvalloc,
    /// `void free(void *block)`, also `cfree`
    Free,
}

impl AllocatorFunction {
    /// The function that a symbol of this name is, if it is one.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"malloc" => Self::Malloc,
            b"calloc" => Self::Calloc,
            b"realloc" => Self::Realloc,
            b"reallocarray" => Self::Reallocarray,
            b"aligned_alloc" => Self::AlignedAlloc,
            b"memalign" => Self::Memalign,
            b"posix_memalign" => Self::PosixMemalign,
            b"valloc" => Self::Valloc,
            b"pvalloc" => Self::Pvalloc,
            b"free" | b"cfree" => Self::Free,
            _ => return None,
        })
    }

    /// How many of the first three integer arguments a probe has to read.
    #[must_use]
    pub fn argument_count(self) -> usize {
        match self {
            Self::Malloc | Self::Valloc | Self::Pvalloc | Self::Free => 1,
            Self::Calloc | Self::Realloc | Self::AlignedAlloc | Self::Memalign => 2,
            Self::Reallocarray | Self::PosixMemalign => 3,
        }
    }

    /// Whether the call has a result that a return probe has to read.
    #[must_use]
    pub fn has_result(self) -> bool {
        self != Self::Free
    }

    /// The kind of event that a call of it makes. `reallocarray` makes
    /// [`EventKind::Realloc`] with the product of its factors as the size.
    #[must_use]
    pub fn event_kind(self) -> EventKind {
        match self {
            Self::Malloc => EventKind::Malloc,
            Self::Calloc => EventKind::Calloc,
            Self::Realloc | Self::Reallocarray => EventKind::Realloc,
            Self::AlignedAlloc => EventKind::AlignedAlloc,
            Self::Memalign => EventKind::Memalign,
            Self::PosixMemalign => EventKind::PosixMemalign,
            Self::Valloc => EventKind::Valloc,
            Self::Pvalloc => EventKind::Pvalloc,
            Self::Free => EventKind::Free,
        }
    }
}

/// One allocator function in a file. Names that share an address are one
/// function with several names, so that no call is counted twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedFunction {
    /// What it is. Where the names at one address differ in kind
    /// (`aligned_alloc` and `memalign`), the first of [`AllocatorFunction`]'s
    /// order.
    pub function: AllocatorFunction,
    /// Its names, sorted, without version suffixes.
    pub names: Vec<String>,
    /// Its first instruction in the file.
    pub offset: FileOffset,
    /// Its first instruction at link time.
    pub address: Svma,
    /// Its length in bytes as the symbol states it; 0 when it states none.
    pub len: u64,
}

/// The allocator functions of a file, sorted by offset. Empty when the file is
/// no allocator: it must define both `malloc` and `free`, and not be glibc's
/// dynamic loader, whose own minimal `malloc` is gone before `main`.
///
/// # Errors
/// When the bytes are no ELF file, or one of a machine that is not recorded.
pub fn allocator_functions(bytes: &[u8]) -> Result<Vec<DefinedFunction>, ElfError> {
    ElfFile::parse(bytes)?.allocator_functions()
}

/// A parsed file, borrowing its bytes.
pub struct ElfFile<'a> {
    bytes: &'a [u8],
    header: &'a Header,
    architecture: Architecture,
    segments: Vec<Segment>,
    sections: SectionTable<'a, Header>,
}

impl<'a> ElfFile<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// When the bytes are no ELF file, or one of a machine that is not
    /// recorded.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        let ident = match bytes.get(..20) {
            Some(ident) if ident.starts_with(&elf::ELFMAG) => ident,
            _ => {
                return Err(ElfError::NotElf {
                    found: bytes.iter().take(4).copied().collect(),
                });
            }
        };
        let machine = u16::from_le_bytes([ident[18], ident[19]]);
        let architecture = match elf::Machine(machine) {
            elf::EM_X86_64 => Some(Architecture::X86_64),
            elf::EM_AARCH64 => Some(Architecture::Aarch64),
            _ => None,
        };
        let is_64 = ident[4] == elf::ELFCLASS64.0;
        let is_little = ident[5] == elf::ELFDATA2LSB.0;
        let Some(architecture) = architecture.filter(|_| is_64 && is_little) else {
            return Err(ElfError::Unsupported {
                machine,
                bits: if is_64 { 64 } else { 32 },
            });
        };

        let header = Header::parse(bytes).or_else(malformed("file header"))?;
        let segments = header
            .program_headers(ENDIAN, bytes)
            .or_else(malformed("program headers"))?
            .iter()
            .map(|header| Segment {
                kind: header.p_type(ENDIAN).0,
                flags: header.p_flags(ENDIAN).0,
                file_offset: FileOffset(header.p_offset(ENDIAN)),
                address: Svma(header.p_vaddr(ENDIAN)),
                file_bytes: header.p_filesz(ENDIAN),
                memory_bytes: header.p_memsz(ENDIAN),
            })
            .collect();
        // A file without section headers runs as well as any; it only has no
        // symbols. So a broken table there is not an error of the file.
        let sections = header.sections(ENDIAN, bytes).unwrap_or_default();
        Ok(Self {
            bytes,
            header,
            architecture,
            segments,
            sections,
        })
    }

    /// The machine it is for.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// `e_machine`.
    #[must_use]
    pub fn machine(&self) -> u16 {
        self.header.e_machine(ENDIAN).0
    }

    /// `e_type`.
    #[must_use]
    pub fn elf_type(&self) -> u16 {
        self.header.e_type(ENDIAN).0
    }

    /// The whole file.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Program headers of all kinds, in file order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn sections(&self) -> &SectionTable<'a, Header> {
        &self.sections
    }

    /// The bytes of the first section of this name.
    pub(crate) fn section(&self, name: &[u8]) -> Option<&'a [u8]> {
        let (_, section) = self.sections.section_by_name(ENDIAN, name)?;
        section.data(ENDIAN, self.bytes).ok()
    }

    /// Loaded executable segments: where code is.
    pub(crate) fn code_segments(&self) -> impl Iterator<Item = (&Segment, &'a [u8])> {
        self.segments
            .iter()
            .filter(|segment| segment.kind == elf::PT_LOAD.0 && segment.flags & elf::PF_X.0 != 0)
            .filter_map(|segment| {
                let bytes = self.range(segment.file_offset, segment.file_bytes)?;
                Some((segment, bytes))
            })
    }

    /// The position in the file of an executable byte at `address`, by the
    /// `PT_LOAD` segment that holds it.
    #[must_use]
    pub fn code_offset(&self, address: Svma) -> Option<FileOffset> {
        self.code_segments().find_map(|(segment, bytes)| {
            let inside = address.offset_from(segment.address)?;
            (inside < bytes.len() as u64)
                .then(|| segment.file_offset.checked_add(inside))
                .flatten()
        })
    }

    /// Code from `offset` on, at most `len` bytes, cut at the segment's end.
    #[must_use]
    pub fn code_at(&self, offset: FileOffset, len: u64) -> Option<&'a [u8]> {
        self.code_segments().find_map(|(segment, bytes)| {
            let inside = usize::try_from(offset.offset_from(segment.file_offset)?).ok()?;
            let rest = bytes.get(inside..).filter(|rest| !rest.is_empty())?;
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
            rest.get(..len)
        })
    }

    fn range(&self, offset: FileOffset, len: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(offset.0).ok()?;
        let end = usize::try_from(offset.checked_add(len)?.0).ok()?;
        self.bytes.get(start..end)
    }

    /// The build id: the first `NT_GNU_BUILD_ID` note of a note segment, else
    /// of a note section.
    #[must_use]
    pub fn build_id(&self) -> Option<BuildId> {
        let headers = self.header.program_headers(ENDIAN, self.bytes).ok()?;
        let in_segments = headers
            .iter()
            .filter_map(|header| header.notes(ENDIAN, self.bytes).ok().flatten());
        let in_sections = self
            .sections
            .iter()
            .filter_map(|section| section.notes(ENDIAN, self.bytes).ok().flatten());
        for mut notes in in_segments.chain(in_sections) {
            while let Ok(Some(note)) = notes.next() {
                let desc = note.desc();
                if note.name() == elf::ELF_NOTE_GNU
                    && note.n_type(ENDIAN) == elf::NT_GNU_BUILD_ID
                    && (1..=MAX_BUILD_ID_BYTES).contains(&desc.len())
                {
                    return Some(BuildId(desc.to_vec()));
                }
            }
        }
        None
    }

    /// The name that a shared library gives itself (`DT_SONAME`).
    #[must_use]
    pub fn soname(&self) -> Option<&'a [u8]> {
        let (entries, link) = self.sections.dynamic(ENDIAN, self.bytes).ok().flatten()?;
        let strings = self.sections.strings(ENDIAN, self.bytes, link).ok()?;
        let entry = entries
            .iter()
            .find(|entry| entry.d_tag(ENDIAN) == elf::DT_SONAME)?;
        strings.get(entry.val32(ENDIAN)?).ok()
    }

    /// Whether it is glibc's dynamic loader. musl's loader is its C library,
    /// allocator and all, and is none in this sense.
    #[must_use]
    pub fn is_glibc_loader(&self) -> bool {
        self.soname()
            .is_some_and(|name| name.starts_with(b"ld-linux") || name.starts_with(b"ld64.so"))
    }

    /// The allocator functions it defines; see the free function
    /// [`allocator_functions`].
    ///
    /// # Errors
    /// When a symbol table is broken.
    pub fn allocator_functions(&self) -> Result<Vec<DefinedFunction>, ElfError> {
        if self.is_glibc_loader() {
            return Ok(Vec::new());
        }
        let mut by_offset: BTreeMap<FileOffset, DefinedFunction> = BTreeMap::new();
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let table = self
                .sections
                .symbols(ENDIAN, self.bytes, kind)
                .or_else(malformed("symbol table"))?;
            self.gather(&table, &mut by_offset);
        }
        let defines = |function| {
            by_offset
                .values()
                .any(|defined: &DefinedFunction| defined.function == function)
        };
        if !(defines(AllocatorFunction::Malloc) && defines(AllocatorFunction::Free)) {
            return Ok(Vec::new());
        }
        Ok(by_offset.into_values().collect())
    }

    fn gather(
        &self,
        table: &SymbolTable<'a, Header>,
        by_offset: &mut BTreeMap<FileOffset, DefinedFunction>,
    ) {
        for symbol in table.iter() {
            // An indirect function's symbol is its resolver, which takes no
            // size and returns no block: it must not be probed.
            if symbol.st_type() != elf::STT_FUNC || symbol.is_undefined(ENDIAN) {
                continue;
            }
            let Ok(name) = table.symbol_name(ENDIAN, symbol) else {
                continue;
            };
            // Symbol tables of old linkers carry `malloc@@GLIBC_2.2.5`.
            let bare = name.split(|byte| *byte == b'@').next().unwrap_or(name);
            let Some(function) = AllocatorFunction::from_name(bare) else {
                continue;
            };
            let address = Svma(symbol.st_value(ENDIAN));
            let Some(offset) = self.code_offset(address) else {
                continue;
            };
            let entry = by_offset.entry(offset).or_insert_with(|| DefinedFunction {
                function,
                names: Vec::new(),
                offset,
                address,
                len: 0,
            });
            entry.function = entry.function.min(function);
            entry.len = entry.len.max(symbol.st_size(ENDIAN));
            let name = String::from_utf8_lossy(bare);
            if let Err(at) = entry
                .names
                .binary_search_by(|known| known.as_str().cmp(&name))
            {
                entry.names.insert(at, name.into_owned());
            }
        }
    }
}

/// For `or_else`: gives `object`'s error the name of what was being read.
fn malformed<T>(what: &'static str) -> impl Fn(object::read::Error) -> Result<T, ElfError> {
    move |source| Err(ElfError::Malformed { what, source })
}

#[cfg(test)]
mod tests;
