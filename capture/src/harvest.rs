//! Takes from every mapped file what unwinding and naming will need, so that
//! the artifact stands alone.
//!
//! It happens after the program has ended, and from the very file that was
//! mapped: while the program runs, a descriptor of each new file is kept (up
//! to a bound), and in the end its identity is checked again. A file that is
//! no longer what was mapped is refused with the reason; a guess would give
//! wrong names.
//!
//! Debug information that was split off is searched at that time too
//! (`debug`), checked to be the module's, and taken along with it.

mod debug;
mod extract;
mod identity;
mod vdso;

use crate::{elf::ElfFile, file::FileBytes};
pub use debug::DebugSearch;
use identity::Found;
use memtrack_artifact::{
    ArtifactWriter, MappedFile, Mapping, Module, ModuleEvent, ModuleKey, ModuleRecord, Pid,
    Progress, RefusedModule, Result, Segment,
};
use std::{
    collections::{HashMap, hash_map::Entry},
    io::Write,
};

/// Descriptors kept while the program runs: well below the usual limit of
/// 1024, of which probes and rings need some.
const MAX_HELD: usize = 256;
/// Distinct files considered. More come from programs that write and map code
/// all the time; the rest is counted in the summary.
const MAX_FILES: usize = 16_384;

/// A distinct file, as it was mapped first.
struct Seen {
    mapped: MappedFile,
    first_ns: u64,
    held: Option<Found>,
}

/// Watches the module stream, and takes the files' bytes in the end.
#[derive(Default)]
pub struct Harvest {
    files: Vec<Seen>,
    index: HashMap<MappedFile, usize>,
    search: DebugSearch,
    held_count: usize,
    ignored_count: u64,
}

/// What was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarvestSummary {
    /// Distinct modules written.
    pub modules: u64,
    /// Files refused, each with a reason in the artifact.
    pub refused: u64,
    /// Separate debug files taken along.
    pub debug_files: u64,
    /// Files beyond the bound, not looked at.
    pub ignored: u64,
    /// Bytes of the sections taken.
    pub section_bytes: u64,
}

impl Harvest {
    /// Nothing seen yet; debug files are searched where they usually are.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing seen yet.
    #[must_use]
    pub fn with_search(search: DebugSearch) -> Self {
        Self {
            search,
            ..Self::default()
        }
    }

    /// Takes note of a record. The first mapping of a file costs a few system
    /// calls to get hold of it while it is certainly there; everything else is
    /// a look-up.
    pub fn see(&mut self, record: &ModuleRecord) {
        let ModuleEvent::Map(mapping) = &record.event else {
            return;
        };
        let is_file = mapping.file.inode != 0 || mapping.file.build_id.is_some();
        if !is_file && mapping.path != vdso::PATH {
            return;
        }
        let mapped = MappedFile {
            path: mapping.path.clone(),
            file: mapping.file.clone(),
        };
        let full = self.files.len() >= MAX_FILES;
        match self.index.entry(mapped) {
            Entry::Occupied(_) => {}
            Entry::Vacant(_) if full => self.ignored_count += 1,
            Entry::Vacant(entry) => {
                let held = (is_file && self.held_count < MAX_HELD)
                    .then(|| hold(record.pid, mapping))
                    .flatten();
                self.held_count += usize::from(held.is_some());
                self.files.push(Seen {
                    mapped: entry.key().clone(),
                    first_ns: record.time_ns,
                    held,
                });
                entry.insert(self.files.len() - 1);
            }
        }
    }

    /// Writes a keyed module for every file, and a refusal for each that could
    /// not be taken, in the order in which they were seen.
    ///
    /// # Errors
    /// When the artifact cannot be written.
    pub fn finish<W: Write>(
        self,
        writer: &mut ArtifactWriter<W>,
        progress: &dyn Progress,
    ) -> Result<HarvestSummary> {
        let mut summary = HarvestSummary {
            ignored: self.ignored_count,
            ..HarvestSummary::default()
        };
        let mut groups: Vec<Group> = Vec::new();
        progress.start("modules", self.files.len() as u64);
        for seen in self.files {
            progress.advance(1);
            let mapped_as = seen.mapped.clone();
            let source = match open(seen) {
                Ok(source) => source,
                Err(reason) => {
                    summary.refused += 1;
                    writer.refused(&RefusedModule { mapped_as, reason })?;
                    continue;
                }
            };
            match groups.iter_mut().find(|group| group.holds(&source)) {
                Some(group) => {
                    group.module.mapped_as.push(mapped_as);
                    group.module.notes.extend(source.notes);
                }
                None => groups.push(Group::new(source, mapped_as)),
            }
        }
        for group in groups {
            group.write(&self.search, writer, &mut summary)?;
        }
        progress.finish();
        Ok(summary)
    }
}

/// Gets hold of a file that was mapped just now.
fn hold(pid: Pid, mapping: &Mapping) -> Option<Found> {
    let is_it = |found: &Found| found.may_be(&mapping.file);
    identity::through_mapping(pid, mapping)
        .filter(is_it)
        .or_else(|| identity::through_root(pid, &mapping.path).filter(is_it))
}

/// The bytes of one file, checked to be those that were mapped.
struct Source {
    bytes: Bytes,
    key: ModuleKey,
    segments: Vec<Segment>,
    notes: Vec<String>,
}

enum Bytes {
    File(FileBytes),
    Memory(Vec<u8>),
}

impl Source {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::File(bytes) => bytes,
            Bytes::Memory(bytes) => bytes,
        }
    }
}

/// Files with the same bytes under several names are one module.
struct Group {
    source: Source,
    module: Module,
}

impl Group {
    fn new(source: Source, mapped_as: MappedFile) -> Self {
        let mut module = match ElfFile::parse(source.bytes()) {
            Ok(elf) => extract::module(&elf, source.key.clone()),
            // It was parsed when the source was opened, from the same bytes.
            Err(error) => extract::unreadable(&source.key, &error),
        };
        module.mapped_as.push(mapped_as);
        module.notes.extend(source.notes.iter().cloned());
        Self { source, module }
    }

    /// Writes the module with what there is of its debug files. Those are
    /// opened now, so that no more than one module's are at a time.
    fn write<W: Write>(
        self,
        search: &DebugSearch,
        writer: &mut ArtifactWriter<W>,
        summary: &mut HarvestSummary,
    ) -> Result<()> {
        let Self { source, mut module } = self;
        let debug = ElfFile::parse(source.bytes())
            .map(|elf| debug::find(search, &elf, &module))
            .unwrap_or_default();
        let mut sections: Vec<&[u8]> = module
            .sections
            .iter()
            .map(|section| extract::section_bytes(source.bytes(), section))
            .collect();
        for taken in &debug.taken {
            let bytes = |section| extract::section_bytes(taken.bytes(), section);
            sections.extend(taken.sections.iter().map(bytes));
            module.sections.extend(taken.sections.iter().cloned());
            module.debug_files.push(taken.file.clone());
        }
        module.notes.extend(debug.notes);
        module.notes.extend(extract::missing(&module));
        summary.modules += 1;
        summary.debug_files += debug.taken.len() as u64;
        summary.section_bytes += sections.iter().map(|part| part.len() as u64).sum::<u64>();
        writer.module(module, &sections)?;
        Ok(())
    }

    /// The same key does not make it the same file: a stripped copy keeps the
    /// build id.
    fn holds(&self, other: &Source) -> bool {
        self.source.key == other.key
            && self.source.bytes().len() == other.bytes().len()
            && self.source.segments == other.segments
    }
}

/// Opens and checks; the error is the reason for people.
fn open(seen: Seen) -> std::result::Result<Source, String> {
    if seen.mapped.path == vdso::PATH && seen.mapped.file.inode == 0 {
        let bytes = vdso::read()
            .map_err(|error| format!("cannot be read from memtrack's own memory: {error}"))?;
        return finish_source(Bytes::Memory(bytes), Vec::new());
    }
    let (bytes, notes) = identity::open_checked(&seen.mapped, seen.held, seen.first_ns)?;
    finish_source(Bytes::File(bytes), notes)
}

fn finish_source(bytes: Bytes, notes: Vec<String>) -> std::result::Result<Source, String> {
    let all: &[u8] = match &bytes {
        Bytes::File(bytes) => bytes,
        Bytes::Memory(bytes) => bytes,
    };
    let elf = ElfFile::parse(all).map_err(|error| error.to_string())?;
    let key = match elf.build_id() {
        Some(id) => ModuleKey::BuildId(id),
        None => {
            let hash = blake3::hash(all);
            let mut key = [0; 16];
            key.copy_from_slice(&hash.as_bytes()[..16]);
            ModuleKey::Content(key)
        }
    };
    let segments = elf.segments().to_vec();
    Ok(Source {
        bytes,
        key,
        segments,
        notes,
    })
}

#[cfg(test)]
mod tests;
