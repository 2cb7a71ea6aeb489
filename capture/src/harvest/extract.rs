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

/// Whether it is wanted of a file that holds only debug information.
fn is_wanted_of_debug_file(name: &[u8]) -> bool {
    let is_debug = name.starts_with(b".debug_") || name.starts_with(b".zdebug_");
    let is_other = matches!(name, b".symtab" | b".strtab" | b".gnu_debugaltlink");
    (is_debug && is_wanted(name)) || is_other
}

/// The module without the names it was mapped under.
pub(super) fn module(file: &ElfFile<'_>, key: ModuleKey) -> Module {
    let mut sections = Vec::new();
    let notes = take(file, is_wanted, "", &mut sections);
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

/// What is taken of a debug file, under names with `prefix`.
pub(super) fn debug_sections(file: &ElfFile<'_>, prefix: &str, sections: &mut Vec<SectionInfo>) {
    take(file, is_wanted_of_debug_file, prefix, sections);
}

/// Whether debug information is among the sections with `prefix`.
pub(super) fn has_debug_info(sections: &[SectionInfo], prefix: &str) -> bool {
    sections.iter().any(|info| {
        matches!(
            info.name.strip_prefix(prefix),
            Some(".debug_info" | ".zdebug_info")
        )
    })
}

/// Takes note of the wanted sections. They lie within the file; each name is
/// taken once, so that a hostile table cannot ask for the same bytes many
/// times. Gives remarks.
fn take(
    file: &ElfFile<'_>,
    is_wanted: fn(&[u8]) -> bool,
    prefix: &str,
    sections: &mut Vec<SectionInfo>,
) -> Vec<String> {
    let table = file.sections();
    let name_of = |section: &elf::SectionHeader64<LittleEndian>| {
        table.section_name(ENDIAN, section).unwrap_or_default()
    };
    let mut notes = Vec::new();
    let mut taken = HashSet::new();
    for section in table.iter() {
        let name = name_of(section);
        if !is_wanted(name) || section.sh_type(ENDIAN) == elf::SHT_NOBITS {
            continue;
        }
        let info = SectionInfo {
            name: format!("{prefix}{}", String::from_utf8_lossy(name)),
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
        };
        if section_bytes(file.bytes(), &info).len() as u64 != info.len {
            notes.push(format!("{} lies outside of the file", info.name));
        } else if !taken.insert(name) {
            notes.push(format!("a second {} was left out", info.name));
        } else {
            sections.push(info);
        }
    }
    notes
}

/// What an unwinder or a reader of names will miss in all that was taken.
pub(super) fn missing(module: &Module) -> Vec<String> {
    let has = |wanted: &[&str]| {
        let mut names = module.sections.iter().map(|info| {
            let name = info.name.as_str();
            name.split_once(':').map_or(name, |(_, name)| name)
        });
        names.any(|name| wanted.contains(&name))
    };
    let mut notes = Vec::new();
    if !has(&[".eh_frame", ".debug_frame", ".zdebug_frame"]) {
        notes.push("has no unwind tables".into());
    }
    let symbols = [".symtab", ".gnu_debugdata", ".debug_info", ".zdebug_info"];
    if !has(&symbols) {
        notes.push(if has(&[".dynsym"]) {
            "stripped: only exported functions have names".into()
        } else {
            "stripped: no function has a name".to_owned()
        });
    }
    notes
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
