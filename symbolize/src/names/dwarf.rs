//! DWARF: the chain of inlined calls at an address, with file and line.
//!
//! Paths are joined as the line table says (DWARF 5, section 6.2.4): the
//! compile directory of the unit, then the entry's directory, then its file
//! name, where an absolute part replaces what stands before it. Nothing is
//! normalised or looked up on the disk; a compile directory that is itself
//! relative stays so.

use super::{nesting, scopes::Scopes, sections::Sections};
use crate::demangle::Language;
use addr2line::{Context, LookupResult};
use gimli::{DwLang, EndianSlice, LittleEndian, SectionId, UnitOffset};
use memtrack_artifact::Svma;
use rayon::prelude::*;
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What line and function look-ups read.
const WANTED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// A module's debug sections, decompressed.
#[derive(Debug, Default)]
pub(crate) struct DebugBytes<'f> {
    sections: Vec<(SectionId, Cow<'f, [u8]>)>,
    /// Those of the file that it shares with others.
    alternate: Option<Box<DebugBytes<'f>>>,
}

impl<'f> DebugBytes<'f> {
    /// Reads what there is; what cannot be read is noted.
    pub(crate) fn load(sections: &Sections<'f>, notes: &mut Vec<String>) -> Self {
        // Decompressing takes longer than looking up a few hundred addresses.
        let loaded: Vec<_> = WANTED
            .par_iter()
            .map(|id| (*id, sections.load(id.name())))
            .collect();
        let mut bytes = Self::default();
        for (id, content) in loaded {
            match content {
                Ok(Some(content)) => bytes.sections.push((id, content)),
                Ok(None) => {}
                Err(note) => notes.push(note),
            }
        }
        bytes
    }

    /// The same with the file that it refers to.
    pub(crate) fn with_alternate(self, alternate: Self) -> Self {
        Self {
            alternate: Some(Box::new(alternate)),
            ..self
        }
    }

    /// Whether there is anything to look up.
    pub(crate) fn is_empty(&self) -> bool {
        self.section(SectionId::DebugInfo).is_empty()
    }

    /// Whether a reader may follow it by recursion.
    pub(crate) fn is_bounded(&self) -> bool {
        let own = self
            .plain()
            .is_ok_and(|mut dwarf| nesting::is_bounded(&mut dwarf));
        own && self
            .alternate
            .as_ref()
            .is_none_or(|alternate| alternate.is_bounded())
    }

    fn dwarf(&self) -> gimli::Result<gimli::Dwarf<Slice<'_>>> {
        let mut dwarf = self.plain()?;
        if let Some(alternate) = &self.alternate {
            dwarf.set_sup(alternate.plain()?);
        }
        Ok(dwarf)
    }

    fn plain(&self) -> gimli::Result<gimli::Dwarf<Slice<'_>>> {
        gimli::Dwarf::load(|id| Ok(EndianSlice::new(self.section(id), LittleEndian)))
    }

    fn section(&self, id: SectionId) -> &[u8] {
        self.sections
            .iter()
            .find(|(section, _)| *section == id)
            .map_or(&[], |(_, bytes)| bytes)
    }
}

/// Look-ups in one module. It may move to a worker but is not shared.
pub(crate) struct Dwarf<'a> {
    context: Context<Slice<'a>>,
    scopes: RefCell<Scopes>,
    /// A unit was met whose functions are in another file.
    split: Cell<bool>,
}

/// One call at an address, inlined or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Linkage name, or the short name where there is none.
    pub(crate) function: Option<&'a [u8]>,
    pub(crate) language: Language,
    /// Where the unit keeps the function.
    pub(crate) entry: Option<UnitOffset>,
    pub(crate) file: Option<&'a str>,
    pub(crate) line: u32,
}

impl<'a> Dwarf<'a> {
    /// Reads the list of units.
    pub(crate) fn new(bytes: &'a DebugBytes<'_>) -> Result<Self, String> {
        let dwarf = bytes.dwarf().map_err(malformed)?;
        let context = Context::from_dwarf(dwarf).map_err(malformed)?;
        Ok(Self {
            context,
            scopes: RefCell::default(),
            split: Cell::new(false),
        })
    }

    /// The calls at an address, innermost first, appended to `out`. A location
    /// without function is one call without name.
    pub(crate) fn calls<'s>(&'s self, address: Svma, out: &mut Vec<Call<'s>>) -> Result<(), String>
    where
        'a: 's,
    {
        let lookup = self.context.find_frames(address.0);
        if matches!(lookup, LookupResult::Load { .. }) {
            self.split.set(true);
        }
        let mut frames = lookup.skip_all_loads().map_err(malformed)?;
        while let Some(frame) = frames.next().map_err(malformed)? {
            let location = frame.location.as_ref();
            out.push(Call {
                function: frame.function.as_ref().map(|name| name.name.slice()),
                language: frame
                    .function
                    .as_ref()
                    .and_then(|name| name.language)
                    .map_or(Language::Unknown, language),
                entry: frame.dw_die_offset,
                file: location.and_then(|location| location.file),
                line: location.and_then(|location| location.line).unwrap_or(0),
            });
        }
        Ok(())
    }

    /// Whether look-ups met split debug information.
    pub(crate) fn is_split(&self) -> bool {
        self.split.get()
    }

    /// The name with its scopes of a lambda's call operator, which is inlined
    /// at `address`.
    pub(crate) fn scoped_name(&self, address: Svma, entry: UnitOffset) -> Option<String> {
        let unit = self
            .context
            .find_dwarf_and_unit(address.0)
            .skip_all_loads()?;
        self.scopes.borrow_mut().full_name(unit, entry)
    }

    /// The range of the function at `entry` that holds `address`.
    pub(crate) fn range(&self, address: Svma, entry: UnitOffset) -> Option<(Svma, Svma)> {
        let unit = self
            .context
            .find_dwarf_and_unit(address.0)
            .skip_all_loads()?;
        let entry = unit.entry(entry).ok()?;
        let mut ranges = unit.die_ranges(&entry).ok()?;
        while let Some(range) = ranges.next().ok()? {
            if (range.begin..range.end).contains(&address.0) {
                return Some((Svma(range.begin), Svma(range.end)));
            }
        }
        None
    }
}

fn malformed(error: gimli::Error) -> String {
    format!("debug information is malformed: {error}")
}

fn language(language: DwLang) -> Language {
    match language {
        gimli::DW_LANG_Rust => Language::Rust,
        gimli::DW_LANG_C_plus_plus
        | gimli::DW_LANG_C_plus_plus_03
        | gimli::DW_LANG_C_plus_plus_11
        | gimli::DW_LANG_C_plus_plus_14
        | gimli::DW_LANG_C_plus_plus_17
        | gimli::DW_LANG_C_plus_plus_20
        | gimli::DW_LANG_ObjC_plus_plus => Language::Cpp,
        // Link-time optimisation names the language of the whole program, and
        // vendors their own: the name decides.
        other if other.0 >= gimli::DW_LANG_lo_user.0 => Language::Unknown,
        _ => Language::Plain,
    }
}
