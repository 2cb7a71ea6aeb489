//! An ELF file beside the artifact, or inside of a section of it: the sections
//! that names are taken from, in memory.

use memtrack_artifact::{BuildId, FileOffset, SectionInfo, Svma};
use object::{
    LittleEndian, SectionIndex, elf,
    read::{
        ReadCache, ReadRef,
        elf::{FileHeader, SectionHeader as _, SectionTable},
    },
};
use std::{fs::File, path::Path};

type Header = elf::FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

/// Largest section that is read, bytes, as for sections of the artifact.
const MAX_SECTION_BYTES: u64 = 8 << 30;

/// What look-ups read of such a file, without `.debug_` and `.zdebug_`, which
/// are all taken.
const WANTED: [&[u8]; 3] = [b".symtab", b".strtab", b".gnu_debugaltlink"];
/// Of types, variables and macros names take nothing.
const UNWANTED: [&[u8]; 5] = [
    b"debug_loc",
    b"debug_loclists",
    b"debug_macro",
    b"debug_pubnames",
    b"debug_pubtypes",
];

/// The sections of one file.
#[derive(Debug, Default)]
pub(crate) struct Image {
    build_id: Option<BuildId>,
    machine: u16,
    infos: Vec<SectionInfo>,
    contents: Vec<Vec<u8>>,
}

impl Image {
    /// Reads a file of the machine, if it is one with this build id: nothing
    /// else of another file is looked at. `None` when there is no file.
    pub(crate) fn open(
        path: &Path,
        machine: u16,
        build_id: &BuildId,
    ) -> Result<Option<Self>, String> {
        let Ok(metadata) = path.metadata() else {
            return Ok(None);
        };
        // A pipe would wait for a writer.
        if !metadata.is_file() {
            return Err("not a regular file".to_owned());
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        let cache = ReadCache::new(file);
        let image = Self::parse(&cache, Some(build_id))?;
        if image.machine != machine {
            return Err(format!(
                "it is for another architecture (e_machine {})",
                image.machine
            ));
        }
        Ok(Some(image))
    }

    /// Reads bytes; with `build_id`, only when it is theirs.
    pub(crate) fn parse<'data, R: ReadRef<'data>>(
        data: R,
        build_id: Option<&BuildId>,
    ) -> Result<Self, String> {
        let failed = |error: object::read::Error| error.to_string();
        let header = Header::parse(data).map_err(failed)?;
        if header.e_ident().class != elf::ELFCLASS64 || header.e_ident().data != elf::ELFDATA2LSB {
            return Err("not a 64-bit little-endian ELF file".to_owned());
        }
        let table = header.sections(ENDIAN, data).map_err(failed)?;
        let mut image = Self {
            build_id: find_build_id(&table, data),
            machine: header.e_machine(ENDIAN).0,
            ..Self::default()
        };
        if let Some(wanted) = build_id
            && image.build_id.as_ref() != Some(wanted)
        {
            return Err(format!(
                "its build id differs: {}, wanted is {wanted}",
                image
                    .build_id
                    .map_or_else(|| "none".to_owned(), |id| id.to_string())
            ));
        }
        image.take(&table, data)?;
        Ok(image)
    }

    /// Takes each wanted name once, so that a hostile table cannot ask for the
    /// same bytes many times.
    fn take<'data, R: ReadRef<'data>>(
        &mut self,
        table: &SectionTable<'data, Header, R>,
        data: R,
    ) -> Result<(), String> {
        for section in table.iter() {
            let name = table.section_name(ENDIAN, section).unwrap_or_default();
            let kind = section.sh_type(ENDIAN);
            let text = String::from_utf8_lossy(name);
            if !is_wanted(name)
                || kind == elf::SHT_NOBITS
                || self.infos.iter().any(|info| info.name == text)
            {
                continue;
            }
            if section.sh_size(ENDIAN) > MAX_SECTION_BYTES {
                return Err(format!("{text} has {} bytes", section.sh_size(ENDIAN)));
            }
            let content = section
                .data(ENDIAN, data)
                .map_err(|_| format!("{text} lies outside of the file"))?;
            let link = match section.sh_link(ENDIAN) {
                0 => None,
                link => table
                    .section(SectionIndex(link as usize))
                    .and_then(|linked| table.section_name(ENDIAN, linked))
                    .ok()
                    .map(|name| String::from_utf8_lossy(name).into_owned()),
            };
            self.infos.push(SectionInfo {
                name: text.into_owned(),
                kind: kind.0,
                flags: section.sh_flags(ENDIAN).0,
                address: Svma(section.sh_addr(ENDIAN)),
                file_offset: FileOffset(section.sh_offset(ENDIAN)),
                len: content.len() as u64,
                entry_bytes: section.sh_entsize(ENDIAN),
                link,
            });
            self.contents.push(content.to_vec());
        }
        Ok(())
    }

    pub(crate) fn infos(&self) -> &[SectionInfo] {
        &self.infos
    }

    /// The bytes of a section of [`infos`](Self::infos).
    pub(crate) fn content(&self, info: &SectionInfo) -> Option<&[u8]> {
        let at = self.infos.iter().position(|one| one.name == info.name)?;
        self.contents.get(at).map(Vec::as_slice)
    }
}

fn is_wanted(name: &[u8]) -> bool {
    let debug = [b".z".as_slice(), b"."].into_iter().find_map(|start| {
        let rest = name.strip_prefix(start)?;
        rest.starts_with(b"debug_").then_some(rest)
    });
    match debug {
        Some(debug) => !UNWANTED.contains(&debug),
        None => WANTED.contains(&name),
    }
}

fn find_build_id<'data, R: ReadRef<'data>>(
    table: &SectionTable<'data, Header, R>,
    data: R,
) -> Option<BuildId> {
    for section in table.iter() {
        let Ok(Some(mut notes)) = section.notes(ENDIAN, data) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(ENDIAN) == elf::NT_GNU_BUILD_ID {
                return Some(BuildId(note.desc().to_vec()));
            }
        }
    }
    None
}
