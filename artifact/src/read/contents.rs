//! The small parts of an artifact, decoded when it is opened: everything but
//! events, stacks and sections.

use super::{
    budget::Budget,
    sections::{self, Parts},
    source::Source,
};
use crate::{
    error::Result,
    event::EventKind,
    header::{Ending, Header},
    id::ModuleId,
    loss::Losses,
    module::{FileIdentity, Mapping, Module, ModuleKey, ModuleRecord, RefusedModule},
    raw::v1::{
        chunk::ChunkHeader,
        events::EventTable,
        input::{Broken, Input},
        kind,
        records::{self, Footer, HeapBytes},
    },
    scan::{Completeness, Entry, describe},
};
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
};

/// Memory that module records may take at least; a larger file may take
/// more, since it must have stored them somewhere.
const RECORD_MEMORY_BYTES: usize = 96 << 20;
/// Further memory that module records may take per byte of the file.
const RECORD_MEMORY_PER_BYTE: usize = 4;
/// Memory that descriptions of modules may take.
const MODULE_MEMORY_BYTES: usize = 32 << 20;
/// Most keyed modules.
const MAX_MODULES: usize = 1 << 16;

/// What is decoded at once.
pub(super) struct Contents {
    pub(super) header: Header,
    pub(super) ending: Option<Ending>,
    pub(super) losses: Losses,
    pub(super) modules: Vec<Module>,
    pub(super) refused: Vec<RefusedModule>,
    pub(super) records: Vec<ModuleRecord>,
    pub(super) event_counts: BTreeMap<EventKind, u64>,
    parts: Parts,
    hasher: RandomState,
    /// Modules by the hash of a path and identity; compared before use.
    by_file: HashMap<u64, Vec<(ModuleId, usize)>>,
    by_build_id: HashMap<Vec<u8>, ModuleId>,
}

impl Contents {
    pub(super) fn read(source: &Source, completeness: &mut Completeness) -> Result<Self> {
        let header = Self::header(source)?;
        let mut reader = Reader {
            source,
            completeness,
            contents: Self {
                header,
                ending: None,
                losses: Losses::default(),
                modules: Vec::new(),
                refused: Vec::new(),
                records: Vec::new(),
                event_counts: BTreeMap::new(),
                parts: Parts::default(),
                hasher: RandomState::new(),
                by_file: HashMap::new(),
                by_build_id: HashMap::new(),
            },
            found: BTreeMap::new(),
            footer: None,
            has_losses: false,
            parts: Vec::new(),
            record_memory: Budget::new(
                "module records",
                RECORD_MEMORY_BYTES
                    .saturating_add(source.bytes().len().saturating_mul(RECORD_MEMORY_PER_BYTE)),
            ),
            module_memory: Budget::new("descriptions of modules", MODULE_MEMORY_BYTES),
            unknown_events: 0,
        };
        for entry in &source.entries {
            reader.chunk(entry)?;
        }
        Ok(reader.finish())
    }

    /// The first chunk; without it nothing else has a meaning.
    fn header(source: &Source) -> Result<Header> {
        let entry = source
            .entries
            .first()
            .filter(|entry| entry.kind == kind::HEADER)
            .ok_or_else(|| {
                source.malformed(
                    crate::raw::v1::preamble::PREAMBLE_BYTES as u64,
                    "no whole header, without which nothing else can be read (capture again),"
                        .into(),
                )
            })?;
        let (_, bytes) = source.unpacked(entry)?;
        records::decode_only(&bytes).map_err(|what| source.malformed(entry.offset, what))
    }

    pub(super) fn section_parts(&self, key: u64) -> Vec<Entry> {
        self.parts.of(key)
    }

    /// See [`Artifact::module_of`](crate::Artifact::module_of).
    pub(super) fn module_of(&self, mapping: &Mapping) -> Option<ModuleId> {
        let hash = self.hash(&mapping.path, &mapping.file);
        let same = self.by_file.get(&hash).into_iter().flatten();
        same.into_iter()
            .find(|&&(id, place)| {
                self.modules
                    .get(id.index())
                    .and_then(|module| module.mapped_as.get(place))
                    .is_some_and(|file| file.path == mapping.path && file.file == mapping.file)
            })
            .map(|&(id, _)| id)
            .or_else(|| {
                let build_id = mapping.file.build_id.as_ref()?;
                self.by_build_id.get(&build_id.0).copied()
            })
    }

    fn hash(&self, path: &[u8], file: &FileIdentity) -> u64 {
        self.hasher.hash_one((path, file))
    }

    fn index_modules(&mut self) {
        for module in &self.modules {
            if let ModuleKey::BuildId(id) = &module.key {
                self.by_build_id.entry(id.0.clone()).or_insert(module.id);
            }
            for (place, mapped) in module.mapped_as.iter().enumerate() {
                let hash = self.hasher.hash_one((&mapped.path[..], &mapped.file));
                let same = self.by_file.entry(hash).or_default();
                same.push((module.id, place));
            }
        }
    }
}

/// Decodes chunk by chunk.
struct Reader<'a> {
    source: &'a Source,
    completeness: &'a mut Completeness,
    contents: Contents,
    /// By kind: chunks and records found.
    found: BTreeMap<u8, (u64, u64)>,
    footer: Option<(u64, Footer)>,
    has_losses: bool,
    parts: Vec<(u64, u64, Entry)>,
    record_memory: Budget,
    module_memory: Budget,
    unknown_events: u64,
}

impl Reader<'_> {
    fn chunk(&mut self, entry: &Entry) -> Result<()> {
        let (header, payload) = self.source.payload(entry)?;
        if self.footer.is_some() {
            self.completeness
                .note(entry.offset, "a chunk after the file's footer");
        }
        let counts = self.found.entry(entry.kind).or_default();
        counts.0 += 1;
        counts.1 += u64::from(header.count);
        let result = header
            .check_limits()
            .and_then(|()| self.decode(entry, &header, payload));
        if let Err(Broken(what)) = result {
            self.completeness
                .note(entry.offset, format!("{}: {what}", describe(&header)));
        }
        Ok(())
    }

    fn decode(
        &mut self,
        entry: &Entry,
        header: &ChunkHeader,
        payload: &[u8],
    ) -> Result<(), Broken> {
        match entry.kind {
            kind::HEADER | kind::STACKS => {}
            kind::EVENTS => self.count_events(EventTable::parse(payload, header.count as usize)?),
            sections::KIND => self.parts.push((header.first, header.last, *entry)),
            kind::MODULE_RECORDS => self.module_records(entry)?,
            kind::MODULE => self.module(entry, header)?,
            kind::REFUSED => {
                self.module_memory.check()?;
                let bytes = self.unpacked(entry)?;
                let mut input = Input(&bytes);
                while let Some(record) = records::next(&mut input)? {
                    let refused = records::decode::<RefusedModule>(record)?;
                    self.module_memory
                        .spend(refused.reason.len() + refused.mapped_as.path.len() + 256)?;
                    self.contents.refused.push(refused);
                }
            }
            kind::LOSSES => {
                self.contents.losses = records::decode_losses(&self.unpacked(entry)?)?;
                self.has_losses = true;
            }
            kind::ENDING => self.contents.ending = Some(self.record(entry)?),
            kind::FOOTER => self.footer = Some((entry.offset, self.record(entry)?)),
            other => {
                return Err(Broken(format!(
                    "chunks of kind {other} are known only to a newer memtrack; skipped"
                )));
            }
        }
        Ok(())
    }

    fn unpacked(&self, entry: &Entry) -> Result<Vec<u8>, Broken> {
        match self.source.unpacked(entry) {
            Ok((_, bytes)) => Ok(bytes),
            Err(crate::Error::Malformed { what, .. }) => Err(Broken(what)),
            Err(other) => Err(Broken(other.to_string())),
        }
    }

    fn record<T: DeserializeOwned>(&self, entry: &Entry) -> Result<T, Broken> {
        records::decode_only(&self.unpacked(entry)?)
    }

    fn count_events(&mut self, table: EventTable<'_>) {
        for shape in table.shapes() {
            match EventKind::from_byte(shape.kind) {
                Some(kind) => {
                    *self.contents.event_counts.entry(kind).or_default() += u64::from(shape.count);
                }
                None => self.unknown_events += u64::from(shape.count),
            }
        }
    }

    fn module_records(&mut self, entry: &Entry) -> Result<(), Broken> {
        self.record_memory.check()?;
        let bytes = self.unpacked(entry)?;
        let mut input = Input(&bytes);
        let mut unreadable = 0u64;
        let mut first_reason = None;
        while let Some(record) = records::next(&mut input)? {
            match records::decode::<ModuleRecord>(record) {
                Ok(record) => {
                    let memory = size_of::<ModuleRecord>() + record.heap_bytes();
                    self.record_memory.spend(memory)?;
                    self.contents.records.push(record);
                }
                Err(Broken(what)) => {
                    unreadable += 1;
                    first_reason.get_or_insert(what);
                }
            }
        }
        match first_reason {
            None => Ok(()),
            Some(what) => Err(Broken(format!(
                "{unreadable} module records are broken or of a newer memtrack ({what})"
            ))),
        }
    }

    fn module(&mut self, entry: &Entry, header: &ChunkHeader) -> Result<(), Broken> {
        let id = usize::try_from(header.first)
            .ok()
            .filter(|&id| id < MAX_MODULES)
            .ok_or_else(|| Broken(format!("module id {} is too large", header.first)))?;
        self.module_memory.check()?;
        let mut module: Module = self.record(entry)?;
        module.id = ModuleId(id as u32);
        let gap = (id + 1).saturating_sub(self.contents.modules.len());
        self.module_memory
            .spend(module.heap_bytes() + gap * size_of::<Module>())?;
        while self.contents.modules.len() <= id {
            let id = ModuleId(self.contents.modules.len() as u32);
            self.contents.modules.push(missing_module(id));
        }
        if let Some(slot) = self.contents.modules.get_mut(id) {
            *slot = module;
        }
        Ok(())
    }

    fn finish(mut self) -> Contents {
        self.contents.records.sort_by_key(|record| record.time_ns);
        self.contents.parts = Parts::new(std::mem::take(&mut self.parts));
        self.contents.index_modules();
        if self.unknown_events > 0 {
            self.completeness.note(
                0,
                format!(
                    "this file holds {} events of a newer memtrack, which are skipped",
                    self.unknown_events
                ),
            );
        }
        if let Some((offset, footer)) = self.footer.take() {
            self.completeness.finished = true;
            self.found.remove(&kind::FOOTER);
            if footer.kinds != self.found {
                self.completeness
                    .note(offset, "the footer counts other chunks than the file holds");
            }
        }
        if !self.completeness.finished {
            let note = if self.has_losses {
                "the file was cut: losses after the last flush are not known"
            } else {
                "the file was cut before its losses were written: they are not known"
            };
            self.contents.losses.notes.push(note.into());
        }
        self.contents
    }
}

/// Stands for a module whose description is damaged, so that the ids of the
/// others stay right.
fn missing_module(id: ModuleId) -> Module {
    Module {
        id,
        key: ModuleKey::Content([0; 16]),
        mapped_as: Vec::new(),
        machine: 0,
        elf_type: 0,
        file_bytes: 0,
        segments: Vec::new(),
        sections: Vec::new(),
        debug_files: Vec::new(),
        notes: vec!["its description in the artifact is damaged".into()],
    }
}
