//! Which parts of a file are taken.

use crate::elf::{ElfError, ElfFile};
use memtrack_artifact::{FileOffset, Module, ModuleId, ModuleKey, SectionInfo, Svma};
use object::{LittleEndian, SectionIndex, elf, read::elf::SectionHeader as _};
use std::collections::HashSet;

const ENDIAN: LittleEndian = LittleEndian;

/// What unwinding needs, what names functions, and what names lines and
/// inlined calls. Types and variables (`.debug_loc`, `.debug_macro`, ...) are
/// of no use to either.
const WANTED: &[&[u8]] = &[
    b".eh_frame",
    b".eh_frame_hdr",
    b".debug_frame",
    b".symtab",
    b".strtab",
    b".dynsym",
    b".dynstr",
    b".note.gnu.build-id",
    b".gnu_debuglink",
    b".gnu_debugaltlink",
    b".gnu_debugdata",
    b".debug_info",
    b".debug_abbrev",
    b".debug_line",
    b".debug_line_str",
    b".debug_str",
    b".debug_str_offsets",
    b".debug_addr",
    b".debug_ranges",
    b".debug_rnglists",
    b".debug_aranges",
    b".debug_types",
];

fn is_wanted(name: &[u8]) -> bool {
    // The older form of compressed debug sections.
    let plain = name.strip_prefix(b".zdebug_");
    WANTED.iter().any(|wanted| {
        *wanted == name || plain.is_some_and(|plain| wanted.strip_prefix(b".debug_") == Some(plain))
    })
}

/// The module without the names it was mapped under. Its sections lie within
/// the file; each name is taken once, so that a hostile table cannot ask for
/// the same bytes many times.
pub(super) fn module(file: &ElfFile<'_>, key: ModuleKey) -> Module {
    let table = file.sections();
    let name_of = |section: &elf::SectionHeader64<LittleEndian>| {
        table.section_name(ENDIAN, section).unwrap_or_default()
    };
    let mut notes = Vec::new();
    let mut taken = HashSet::new();
    let mut sections = Vec::new();
    for section in table.iter() {
        let name = name_of(section);
        if !is_wanted(name) || section.sh_type(ENDIAN) == elf::SHT_NOBITS {
            continue;
        }
        let text = String::from_utf8_lossy(name).into_owned();
        let info = SectionInfo {
            kind: section.sh_type(ENDIAN).0,
            flags: section.sh_flags(ENDIAN).0,
            address: Svma(section.sh_addr(ENDIAN)),
            file_offset: FileOffset(section.sh_offset(ENDIAN)),
            len: section.sh_size(ENDIAN),
            entry_bytes: section.sh_entsize(ENDIAN),
            link: match section.sh_link(ENDIAN) {
                0 => None,
                link => table
                    .section(SectionIndex(link as usize))
                    .ok()
                    .map(|linked| String::from_utf8_lossy(name_of(linked)).into_owned()),
            },
            name: text,
        };
        if section_bytes(file.bytes(), &info).len() as u64 != info.len {
            notes.push(format!("{} lies outside of the file", info.name));
        } else if !taken.insert(name) {
            notes.push(format!("a second {} was left out", info.name));
        } else {
            sections.push(info);
        }
    }
    let has = |name: &[u8]| taken.contains(name);
    if !(has(b".eh_frame") || has(b".debug_frame")) {
        notes.push("has no unwind tables".into());
    }
    if !(has(b".symtab") || has(b".gnu_debugdata") || has(b".debug_info")) {
        notes.push(if has(b".dynsym") {
            "stripped: only exported functions have names".into()
        } else {
            "stripped: no function has a name".to_owned()
        });
    }
    Module {
        id: ModuleId(0),
        key,
        mapped_as: Vec::new(),
        machine: file.machine(),
        elf_type: file.elf_type(),
        file_bytes: file.bytes().len() as u64,
        segments: file.segments().to_vec(),
        sections,
        debug_files: Vec::new(),
        notes,
    }
}

/// A module of which nothing but the key is known.
pub(super) fn unreadable(key: &ModuleKey, error: &ElfError) -> Module {
    Module {
        id: ModuleId(0),
        key: key.clone(),
        mapped_as: Vec::new(),
        machine: 0,
        elf_type: 0,
        file_bytes: 0,
        segments: Vec::new(),
        sections: Vec::new(),
        debug_files: Vec::new(),
        notes: vec![error.to_string()],
    }
}

/// The bytes of a section; none when it does not lie within the file.
pub(super) fn section_bytes<'a>(file: &'a [u8], section: &SectionInfo) -> &'a [u8] {
    let range = || {
        let start = usize::try_from(section.file_offset.0).ok()?;
        let end = usize::try_from(section.file_offset.checked_add(section.len)?.0).ok()?;
        file.get(start..end)
    };
    range().unwrap_or_default()
}
