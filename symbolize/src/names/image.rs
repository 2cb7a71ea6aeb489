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
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

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

/// Reads so many bytes from a position.
type Reader<'a> = &'a mut dyn FnMut(u64, usize) -> io::Result<Vec<u8>>;

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
        let failed = |error: io::Error| error.to_string();
        let mut file = File::open(path).map_err(failed)?;
        let cache = ReadCache::new(file.try_clone().map_err(failed)?);
        let mut read = |offset, len| {
            file.seek(SeekFrom::Start(offset))?;
            let mut content = vec![0; len];
            file.read_exact(&mut content)?;
            Ok(content)
        };
        // Headers by the cache, which keeps what it reads; sections without it.
        let image = Self::parse(&cache, &mut read, Some(build_id))?;
        if image.machine != machine {
            return Err(format!(
                "it is for another architecture (e_machine {})",
                image.machine
            ));
        }
        Ok(Some(image))
    }

    /// Reads a file in memory.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut read = |offset, len| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let content = bytes.get(start..).and_then(|rest| rest.get(..len));
            content
                .map(<[u8]>::to_vec)
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        Self::parse(bytes, &mut read, None)
    }

    /// With `build_id`, only when it is the file's.
    fn parse<'data, R: ReadRef<'data>>(
        data: R,
        read: Reader<'_>,
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
        image.take(&table, data, read)?;
        Ok(image)
    }

    /// Takes each wanted name once, so that a hostile table cannot ask for the
    /// same bytes many times.
    fn take<'data, R: ReadRef<'data>>(
        &mut self,
        table: &SectionTable<'data, Header, R>,
        data: R,
        read: Reader<'_>,
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
            let (offset, size) = (section.sh_offset(ENDIAN), section.sh_size(ENDIAN));
            let file_bytes = data.len().unwrap_or(0);
            if offset.checked_add(size).is_none_or(|end| end > file_bytes) {
                return Err(format!("{text} lies outside of the file"));
            }
            let len = usize::try_from(size.min(MAX_SECTION_BYTES + 1)).unwrap_or(usize::MAX);
            if len as u64 > MAX_SECTION_BYTES {
                return Err(format!("{text} has {size} bytes"));
            }
            let content = read(offset, len).map_err(|error| format!("{text}: {error}"))?;
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
            self.contents.push(content);
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
