//! Symbol tables: the function that covers an address.
//!
//! The rule, the same in every run:
//!
//! 1. Only functions count (`STT_FUNC`, `STT_GNU_IFUNC`, defined).
//! 2. Of those that cover the address with their size the one that begins last,
//!    then the smallest.
//! 3. Where none covers it, a function of size 0 that begins before it, if no
//!    other symbol begins in between and it is not past its section.
//! 4. Of several with one range: global and weak before local, then fewest
//!    leading underscores, then the shortest, then bytewise. That shows
//!    `malloc` rather than `__libc_malloc`, `free` rather than `cfree`.

use super::{
    ranges::{Range, Symbol, flatten},
    sections::Sections,
};
use memtrack_artifact::{NameSource, Svma};
use object::{LittleEndian, elf, pod};
use std::cmp::Ordering;

/// The functions of one symbol table, as ranges that do not overlap.
#[derive(Debug, Default)]
pub(crate) struct SymbolMap {
    /// By first address. A gap is a range without name.
    ranges: Vec<Range>,
    strings: Vec<u8>,
}

/// A function found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    /// The symbol's name as in the file.
    pub(crate) name: &'a str,
    /// Its first address.
    pub(crate) start: Svma,
    /// Its size, 0 when the table gives none.
    pub(crate) bytes: u64,
}

/// The symbol tables of a module in the order asked.
#[derive(Debug, Default)]
pub(crate) struct SymbolTables {
    symtab: Option<SymbolMap>,
    dynsym: Option<SymbolMap>,
    /// What was wrong with them.
    pub(crate) notes: Vec<String>,
}

impl SymbolTables {
    /// Reads `.symtab` of `symbols` and `.dynsym` of the module itself.
    pub(crate) fn load(own: &Sections<'_>, symbols: &Sections<'_>) -> Self {
        let mut tables = Self::default();
        let mut table = |sections, name| match SymbolMap::load(sections, own, name) {
            Ok(table) => table,
            Err(note) => {
                tables.notes.push(note);
                None
            }
        };
        let (symtab, dynsym) = (table(symbols, ".symtab"), table(own, ".dynsym"));
        tables.symtab = symtab;
        tables.dynsym = dynsym;
        tables
    }

    /// Whether there is a `.symtab`.
    pub(crate) fn has_symtab(&self) -> bool {
        self.symtab.is_some()
    }

    /// The function at an address, and the table that knows it.
    pub(crate) fn find(&self, address: Svma) -> Option<(Found<'_>, NameSource)> {
        let of = |table: &'_ Option<SymbolMap>, source| {
            table
                .as_ref()
                .and_then(|table| table.find(address))
                .map(|_| source)
        };
        let source = of(&self.symtab, NameSource::Symtab)
            .or_else(|| of(&self.dynsym, NameSource::Dynsym))?;
        let table = match source {
            NameSource::Symtab => self.symtab.as_ref(),
            _ => self.dynsym.as_ref(),
        };
        Some((table?.find(address)?, source))
    }
}

/// The address ranges of sigreturn trampolines, by the names that C libraries
/// and kernels give them. One without size is taken for 16 bytes: load a
/// number, make a system call.
pub(crate) fn signal_trampolines(files: &[Sections<'_>]) -> Vec<(Svma, Svma)> {
    const NAMES: [&[u8]; 5] = [
        b"__restore_rt",
        b"__restore",
        b"restore_rt",
        b"__kernel_rt_sigreturn",
        b"__vdso_rt_sigreturn",
    ];
    let mut out = Vec::new();
    let tables = files
        .iter()
        .flat_map(|sections| [".symtab", ".dynsym"].map(|name| (sections, name)));
    for (sections, table) in tables {
        let Ok(Some(raw)) = RawTable::load(sections, table) else {
            continue;
        };
        for symbol in raw.symbols() {
            let name = raw.name(symbol.st_name.get(LittleEndian));
            if symbol.st_shndx.get(LittleEndian) == elf::SHN_UNDEF
                || !name.is_some_and(|name| NAMES.contains(&name))
            {
                continue;
            }
            let start = symbol.st_value.get(LittleEndian);
            let bytes = match symbol.st_size.get(LittleEndian) {
                0 => 16,
                bytes => bytes.min(64),
            };
            out.push((Svma(start), Svma(start.saturating_add(bytes))));
        }
    }
    out
}

struct RawTable {
    symbols: Vec<u8>,
    strings: Vec<u8>,
}

type RawSymbol = elf::Sym64<LittleEndian>;

impl RawTable {
    fn load(sections: &Sections<'_>, name: &str) -> Result<Option<Self>, String> {
        let Some(info) = sections.info(name) else {
            return Ok(None);
        };
        let Some(symbols) = sections.load(name)? else {
            return Ok(None);
        };
        let usual = if name == ".symtab" {
            ".strtab"
        } else {
            ".dynstr"
        };
        let link = info.link.as_deref().unwrap_or(usual);
        let strings = sections
            .load(link)?
            .ok_or_else(|| format!("{name}: its string table {link} is missing"))?;
        Ok(Some(Self {
            symbols: symbols.into_owned(),
            strings: strings.into_owned(),
        }))
    }

    fn symbols(&self) -> &[RawSymbol] {
        let whole = self.symbols.len() - self.symbols.len() % size_of::<RawSymbol>();
        self.symbols
            .get(..whole)
            .and_then(|bytes| pod::slice_from_all_bytes(bytes).ok())
            .unwrap_or_default()
    }

    fn name(&self, at: u32) -> Option<&[u8]> {
        name_at(&self.strings, at)
    }
}

fn name_at(strings: &[u8], at: u32) -> Option<&[u8]> {
    /// Names end at a NUL; this bounds the search for it.
    const LONGEST: usize = 1 << 16;
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let rest = rest.get(..LONGEST).unwrap_or(rest);
    let end = rest.iter().position(|byte| *byte == 0)?;
    rest.get(..end)
}

impl SymbolMap {
    /// `own` is the module itself, whose sections bound symbols without size.
    fn load(
        sections: &Sections<'_>,
        own: &Sections<'_>,
        name: &str,
    ) -> Result<Option<Self>, String> {
        let Some(raw) = RawTable::load(sections, name)? else {
            return Ok(None);
        };
        let mut ranges: Vec<(u64, u64)> = own.loaded_ranges().collect();
        ranges.sort_unstable();
        Ok(Some(Self::build(raw, &ranges)))
    }

    /// `sections` are the known section ranges, by start.
    fn build(raw: RawTable, sections: &[(u64, u64)]) -> Self {
        let mut functions = Vec::new();
        // First addresses of everything that is not a sized function.
        let mut others = Vec::new();
        for symbol in raw.symbols() {
            let start = symbol.st_value.get(LittleEndian);
            let section = symbol.st_shndx.get(LittleEndian);
            if section == elf::SHN_UNDEF || section == elf::SHN_ABS || section == elf::SHN_COMMON {
                continue;
            }
            let kind = symbol.st_type();
            let function = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
            let name = symbol.st_name.get(LittleEndian);
            let text = name_at(&raw.strings, name).unwrap_or_default();
            // Mapping symbols ($x, $d) mark code and data; they are no names
            // (ELF for the Arm 64-bit Architecture, section 5.5.4).
            if text.starts_with(b"$") {
                continue;
            }
            if function && !text.is_empty() {
                functions.push(Symbol {
                    start,
                    bytes: symbol.st_size.get(LittleEndian),
                    name,
                    name_bytes: u32::try_from(text.len()).unwrap_or(u32::MAX),
                    underscores: u32::try_from(leading_underscores(text)).unwrap_or(u32::MAX),
                    local: symbol.st_bind() == elf::STB_LOCAL,
                });
            } else if kind != elf::STT_TLS && kind != elf::STT_FILE {
                others.push(start);
            }
        }
        let ranges = flatten(functions, others, sections, |left, right| {
            preference(&raw.strings, left, right)
        });
        Self {
            ranges,
            strings: raw.strings,
        }
    }

    /// The function at an address.
    pub(crate) fn find(&self, address: Svma) -> Option<Found<'_>> {
        let after = self
            .ranges
            .partition_point(|range| range.start <= address.0);
        let symbol = self.ranges.get(after.checked_sub(1)?)?.symbol?;
        let name = std::str::from_utf8(name_at(&self.strings, symbol.name)?).ok()?;
        Some(Found {
            name,
            start: Svma(symbol.start),
            bytes: symbol.bytes,
        })
    }
}

/// Which of two symbols with the same range is shown: the lesser one. Names are
/// compared last: a table can hold many long ones.
fn preference(strings: &[u8], left: &Symbol, right: &Symbol) -> Ordering {
    let key = |symbol: &Symbol| (symbol.local, symbol.underscores, symbol.name_bytes);
    key(left).cmp(&key(right)).then_with(|| {
        if left.name == right.name {
            return Ordering::Equal;
        }
        name_at(strings, left.name).cmp(&name_at(strings, right.name))
    })
}

fn leading_underscores(name: &[u8]) -> usize {
    name.iter().take_while(|byte| **byte == b'_').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(symbols: &[(&str, u64, u64, u8, u8)]) -> SymbolMap {
        let mut raw = RawTable {
            symbols: Vec::new(),
            strings: vec![0],
        };
        for (name, start, bytes, bind, kind) in symbols {
            let at = u32::try_from(raw.strings.len()).unwrap();
            raw.strings.extend(name.as_bytes());
            raw.strings.push(0);
            raw.symbols.extend(at.to_le_bytes());
            raw.symbols.push(bind << 4 | kind);
            raw.symbols.push(0);
            raw.symbols.extend(1_u16.to_le_bytes());
            raw.symbols.extend(start.to_le_bytes());
            raw.symbols.extend(bytes.to_le_bytes());
        }
        SymbolMap::build(raw, &[(0x1000, 0x2000)])
    }

    fn at(map: &SymbolMap, address: u64) -> Option<&str> {
        map.find(Svma(address)).map(|found| found.name)
    }

    const LOCAL: u8 = 0;
    const GLOBAL: u8 = 1;
    const WEAK: u8 = 2;
    const NOTYPE: u8 = 0;
    const OBJECT: u8 = 1;
    const FUNC: u8 = 2;

    #[test]
    fn aliases_follow_one_rule() {
        let map = table(&[
            ("__libc_malloc", 0x1000, 16, GLOBAL, FUNC),
            ("malloc", 0x1000, 16, WEAK, FUNC),
            ("m", 0x1000, 16, LOCAL, FUNC),
            ("cfree", 0x1100, 16, WEAK, FUNC),
            ("free", 0x1100, 16, GLOBAL, FUNC),
        ]);
        assert_eq!(at(&map, 0x1000), Some("malloc"));
        assert_eq!(at(&map, 0x100f), Some("malloc"));
        assert_eq!(at(&map, 0x1010), None);
        assert_eq!(at(&map, 0x1108), Some("free"));
    }

    #[test]
    fn labels_inside_a_sized_function_do_not_name_it() {
        let map = table(&[
            ("zero_size_label", 0x1000, 0, LOCAL, NOTYPE),
            ("labelled", 0x1000, 32, GLOBAL, FUNC),
            ("inner_label", 0x1004, 0, LOCAL, FUNC),
            ("after_label", 0x1009, 0, LOCAL, NOTYPE),
        ]);
        for address in [0x1000, 0x1004, 0x1008, 0x1009, 0x101f] {
            assert_eq!(at(&map, address), Some("labelled"));
        }
        assert_eq!(at(&map, 0x1020), None);
    }

    #[test]
    fn a_function_of_size_zero_reaches_to_the_next_symbol_of_its_section() {
        let map = table(&[
            ("first", 0x1000, 0, GLOBAL, FUNC),
            ("data", 0x1010, 4, GLOBAL, OBJECT),
            ("last", 0x1ff0, 0, GLOBAL, FUNC),
        ]);
        assert_eq!(at(&map, 0x100f), Some("first"));
        assert_eq!(at(&map, 0x1010), None);
        assert_eq!(at(&map, 0x1fff), Some("last"));
        assert_eq!(at(&map, 0x2000), None);
    }

    #[test]
    fn nested_functions_give_way_to_the_inner_one() {
        let map = table(&[
            ("outer", 0x1000, 0x100, GLOBAL, FUNC),
            ("inner", 0x1040, 0x10, GLOBAL, FUNC),
        ]);
        assert_eq!(at(&map, 0x103f), Some("outer"));
        assert_eq!(at(&map, 0x1040), Some("inner"));
        assert_eq!(at(&map, 0x1050), Some("outer"));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(symbols: Vec<u8>, strings: Vec<u8>, address: u64) {
            let map = SymbolMap::build(RawTable { symbols, strings }, &[]);
            let _ = map.find(Svma(address));
        }
    }
}
