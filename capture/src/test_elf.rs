//! Small ELF files for tests, laid out by hand so that a test can break any
//! part of them.
//!
//! ```text
//! 0       file header, 2 program headers
//! 0x1000  code, loaded at 0x401000 (offsets and addresses differ)
//! then    build id note, .symtab, .strtab, .shstrtab, section headers
//! ```

use object::elf;

pub(crate) const CODE_OFFSET: u64 = 0x1000;
pub(crate) const LOAD_BIAS: u64 = 0x40_0000;

/// A function symbol: name, `st_info`, offset into the code, size.
pub(crate) struct TestSymbol {
    pub(crate) name: &'static str,
    pub(crate) info: u8,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// A global function.
pub(crate) fn function(name: &'static str, at: u64, len: u64) -> TestSymbol {
    TestSymbol {
        name,
        info: 0x12,
        at,
        len,
    }
}

/// An x86_64 executable with this code and these symbols.
pub(crate) fn image(code: &[u8], symbols: &[TestSymbol], build_id: Option<&[u8]>) -> Vec<u8> {
    let mut strings = vec![0];
    let mut table = vec![0; 24];
    for symbol in symbols {
        table.extend((strings.len() as u32).to_le_bytes());
        table.extend([symbol.info, 0]);
        table.extend(1u16.to_le_bytes());
        table.extend((LOAD_BIAS + CODE_OFFSET + symbol.at).to_le_bytes());
        table.extend(symbol.len.to_le_bytes());
        strings.extend(symbol.name.as_bytes());
        strings.push(0);
    }
    let mut note = Vec::new();
    if let Some(id) = build_id {
        note.extend(4u32.to_le_bytes());
        note.extend((id.len() as u32).to_le_bytes());
        note.extend(elf::NT_GNU_BUILD_ID.0.to_le_bytes());
        note.extend(b"GNU\0");
        note.extend(id);
        note.resize(note.len().next_multiple_of(8), 0);
    }
    let names = b"\0.text\0.note.gnu.build-id\0.symtab\0.strtab\0.shstrtab\0";
    let name = |wanted: &str| {
        let wanted = [b"\0", wanted.as_bytes(), b"\0"].concat();
        let at = names.windows(wanted.len()).position(|part| part == wanted);
        at.unwrap() as u32 + 1
    };

    let mut file = vec![0; CODE_OFFSET as usize];
    let mut append = |bytes: &[u8]| {
        let at = file.len() as u64;
        file.extend(bytes);
        file.resize(file.len().next_multiple_of(8), 0);
        at
    };
    append(code);
    let note_at = append(&note);
    let table_at = append(&table);
    let strings_at = append(&strings);
    let names_at = append(names);

    // name, type, flags, address, offset, size, link, entry size
    let sections = [
        (0, elf::SHT_NULL, 0, 0, 0, 0, 0, 0),
        (
            name(".text"),
            elf::SHT_PROGBITS,
            6,
            LOAD_BIAS + CODE_OFFSET,
            CODE_OFFSET,
            code.len(),
            0,
            0,
        ),
        (
            name(".note.gnu.build-id"),
            elf::SHT_NOTE,
            2,
            LOAD_BIAS + note_at,
            note_at,
            note.len(),
            0,
            0,
        ),
        (
            name(".symtab"),
            elf::SHT_SYMTAB,
            0,
            0,
            table_at,
            table.len(),
            4,
            24,
        ),
        (
            name(".strtab"),
            elf::SHT_STRTAB,
            0,
            0,
            strings_at,
            strings.len(),
            0,
            0,
        ),
        (
            name(".shstrtab"),
            elf::SHT_STRTAB,
            0,
            0,
            names_at,
            names.len(),
            0,
            0,
        ),
    ];
    let sections_at = file.len() as u64;
    for (name, kind, flags, address, offset, size, link, entry) in sections {
        file.extend(name.to_le_bytes());
        file.extend(kind.0.to_le_bytes());
        file.extend(u64::to_le_bytes(flags));
        file.extend(u64::to_le_bytes(address));
        file.extend(offset.to_le_bytes());
        file.extend((size as u64).to_le_bytes());
        file.extend(u32::to_le_bytes(link));
        file.extend(1u32.to_le_bytes());
        file.extend(8u64.to_le_bytes());
        file.extend(u64::to_le_bytes(entry));
    }

    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    header.extend(elf::ET_EXEC.0.to_le_bytes());
    header.extend(elf::EM_X86_64.0.to_le_bytes());
    header.extend(1u32.to_le_bytes());
    header.extend((LOAD_BIAS + CODE_OFFSET).to_le_bytes());
    header.extend(64u64.to_le_bytes());
    header.extend(sections_at.to_le_bytes());
    header.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 2, 64, sections.len() as u16, 5] {
        header.extend(half.to_le_bytes());
    }
    for (kind, flags, offset, len) in [
        (elf::PT_LOAD, 5, CODE_OFFSET, code.len() as u64),
        (elf::PT_NOTE, 4, note_at, note.len() as u64),
    ] {
        header.extend(kind.0.to_le_bytes());
        header.extend(u32::to_le_bytes(flags));
        header.extend(offset.to_le_bytes());
        header.extend((LOAD_BIAS + offset).to_le_bytes());
        header.extend((LOAD_BIAS + offset).to_le_bytes());
        header.extend(len.to_le_bytes());
        header.extend(len.to_le_bytes());
        header.extend(4u64.to_le_bytes());
    }
    file[..header.len()].copy_from_slice(&header);
    file
}
