//! The bytes of keyed modules, put together from their parts.

use super::Artifact;
use crate::{
    error::Result,
    id::ModuleId,
    raw::v1::{
        input::Broken,
        kind,
        section::{FREE_BYTES, MAX_RATIO},
    },
    scan::Entry,
};

/// See [`Artifact::section`].
pub(super) fn read(artifact: &Artifact, module: ModuleId, name: &str) -> Result<Option<Vec<u8>>> {
    let source = &artifact.source;
    let Some((number, info)) = artifact.modules().get(module.index()).and_then(|module| {
        let mut sections = module.sections.iter().enumerate();
        sections.find(|(_, info)| info.name == name)
    }) else {
        return Ok(None);
    };
    let key = u64::from(module.0) << 32 | number as u64;
    let parts = artifact.contents.section_parts(key);
    let mut first_offset = 0;
    let mut stored = 0u64;
    let mut end = 0u64;
    for (index, part) in parts.iter().enumerate() {
        let header = source.header(part)?;
        if index == 0 {
            first_offset = part.offset;
        }
        if header.last != end {
            return Err(source.malformed(
                part.offset,
                Broken(format!(
                    "bytes {end} to {} of section {name} of module {module} are missing",
                    header.last
                )),
            ));
        }
        stored += u64::from(header.stored_bytes);
        end += u64::from(header.raw_bytes);
    }
    if end != info.len || end > FREE_BYTES as u64 + MAX_RATIO as u64 * stored {
        return Err(source.malformed(
            first_offset,
            Broken(format!(
                "section {name} of module {module} should have {} bytes, the file has {end} \
                 (from {stored} compressed)",
                info.len
            )),
        ));
    }
    let mut bytes = Vec::with_capacity(end as usize);
    for part in &parts {
        bytes.extend_from_slice(&source.unpacked(part)?.1);
    }
    Ok(Some(bytes))
}

/// Sections' parts, sorted by section and place.
#[derive(Default)]
pub(super) struct Parts(Vec<(u64, u64, Entry)>);

impl Parts {
    pub(super) fn new(mut parts: Vec<(u64, u64, Entry)>) -> Self {
        parts.sort_by_key(|&(key, place, _)| (key, place));
        Self(parts)
    }

    /// The parts of one section.
    pub(super) fn of(&self, wanted: u64) -> Vec<Entry> {
        let begin = self.0.partition_point(|&(key, ..)| key < wanted);
        self.0
            .iter()
            .skip(begin)
            .take_while(|&&(key, ..)| key == wanted)
            .map(|&(.., entry)| entry)
            .collect()
    }
}

/// The kind of chunk that holds parts.
pub(super) const KIND: u8 = kind::SECTION;
