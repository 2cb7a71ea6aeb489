//! Naming the addresses of one module.

use super::{
    companions::Companions,
    dwarf::{Call, DebugBytes, Dwarf},
    scopes::CALL_OPERATOR,
    strings::Strings,
    symbols::SymbolTables,
};
use crate::{
    demangle::{Language, demangle},
    shield::shield,
};
use memtrack_artifact::{Artifact, Module, NameSource, Svma};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::path::PathBuf;

/// The answer for every address asked of one module.
#[derive(Debug, Default)]
pub(crate) struct ModuleNames {
    /// Function names and files; the calls name them by position.
    pub(crate) strings: Vec<String>,
    /// Calls of all addresses, one after another, innermost first.
    calls: Vec<NamedCall>,
    /// Where each address's calls end.
    ends: Vec<usize>,
    /// What is missing or was wrong, for people.
    pub(crate) notes: Vec<String>,
}

/// One call, named as far as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedCall {
    pub(crate) function: Option<u32>,
    pub(crate) file: Option<u32>,
    pub(crate) line: u32,
    pub(crate) inline: bool,
    pub(crate) source: NameSource,
}

impl ModuleNames {
    /// The calls at the address with this position in the request.
    pub(crate) fn calls(&self, position: usize) -> &[NamedCall] {
        let end = self.ends.get(position).copied().unwrap_or(0);
        let start = position
            .checked_sub(1)
            .and_then(|before| self.ends.get(before).copied())
            .unwrap_or(0);
        self.calls.get(start..end).unwrap_or_default()
    }

    fn append(&mut self, part: Part) {
        // A module has far fewer than 2^32 strings: each stands in its debug
        // sections or symbol table, which are bounded.
        let shift = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        let moved = |id: Option<u32>| id.map(|id| id.saturating_add(shift));
        let base = self.calls.len();
        self.strings.extend(part.strings);
        self.calls.extend(part.calls.iter().map(|call| NamedCall {
            function: moved(call.function),
            file: moved(call.file),
            ..*call
        }));
        self.ends.extend(part.ends.iter().map(|end| end + base));
    }
}

/// The answer for some of the addresses.
#[derive(Debug, Default)]
struct Part {
    strings: Vec<String>,
    calls: Vec<NamedCall>,
    ends: Vec<usize>,
    /// Addresses at which the debug information is malformed, and the first
    /// thing that is wrong.
    malformed: u64,
    first_fault: Option<String>,
    /// Split debug information was met.
    split: bool,
}

/// Names `addresses`, which are sorted and distinct, in up to `pieces` parallel
/// parts.
pub(crate) fn name_all(
    artifact: &Artifact,
    module: &Module,
    addresses: &[Svma],
    debug_dirs: &[PathBuf],
    pieces: usize,
) -> ModuleNames {
    /// Fewer addresses than this are not worth a list of units of their own.
    const PIECE: usize = 512;
    let mut names = ModuleNames::default();
    let companions = Companions::find(artifact, module, debug_dirs, &mut names.notes);
    let symbols = SymbolTables::load(&companions.own(), &companions.symbols());
    names.notes.extend(symbols.notes.iter().cloned());
    let mut debug = DebugBytes::load(&companions.debug(), &mut names.notes);
    if let Some(alternate) = companions.alternate() {
        debug = debug.with_alternate(DebugBytes::load(&alternate, &mut names.notes));
    }
    if !debug.is_empty() && shield(|| debug.is_bounded()) != Some(true) {
        names
            .notes
            .push("debug information is malformed: entries nested too deep; not read".to_owned());
        debug = DebugBytes::default();
    }

    let piece = addresses.len().div_ceil(pieces.max(1)).max(PIECE);
    let parts: Option<Vec<Part>> = addresses
        .par_chunks(piece)
        .map(|part| shield(|| name_part(&symbols, &debug, part)))
        .collect();
    // A reader that panics costs the module its lines, whichever part it was.
    let parts = parts.unwrap_or_else(|| {
        debug = DebugBytes::default();
        names.notes.push(
            "debug information is malformed; names come from the symbol tables alone".to_owned(),
        );
        vec![Naming::new(&symbols, None).name(addresses)]
    });
    names.notes.extend(faults(&parts, addresses.len()));
    parts.into_iter().for_each(|part| names.append(part));

    if let Some(note) = missing(module, !debug.is_empty(), symbols.has_symtab()) {
        names.notes.push(note);
    }
    names
}

/// What a reader of the audit can do about names that are not there.
fn missing(module: &Module, debug: bool, symtab: bool) -> Option<String> {
    let what = match (debug, symtab) {
        (true, _) => return None,
        (false, true) => {
            "no debug information: functions by .symtab, without inlined calls, files and lines"
        }
        (false, false) => {
            "no debug information and no .symtab (stripped): only exported functions have names"
        }
    };
    Some(format!(
        "{what}; for more, install the debug symbols of {} and symbolize with --debug-dir \
         /usr/lib/debug, or build it with -g and capture again",
        match &module.key {
            memtrack_artifact::ModuleKey::BuildId(id) => format!("build id {id}"),
            memtrack_artifact::ModuleKey::Content(_) => "this file".to_owned(),
        }
    ))
}

/// What went wrong at single addresses: the same, however they were parted.
fn faults(parts: &[Part], asked: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let malformed: u64 = parts.iter().map(|part| part.malformed).sum();
    if let Some(first) = parts.iter().find_map(|part| part.first_fault.as_ref()) {
        notes.push(format!("{first} (at {malformed} of {asked} addresses)"));
    }
    if parts.iter().any(|part| part.split) {
        notes.push(
            "split debug information: its .dwo or .dwp files are not in the artifact, so \
             functions are named by symbol tables, without inlined calls; link the program \
             without -gsplit-dwarf for more"
                .to_owned(),
        );
    }
    notes
}

fn name_part(symbols: &SymbolTables, debug: &DebugBytes<'_>, addresses: &[Svma]) -> Part {
    if debug.is_empty() {
        return Naming::new(symbols, None).name(addresses);
    }
    match Dwarf::new(debug) {
        Ok(dwarf) => Naming::new(symbols, Some(&dwarf)).name(addresses),
        Err(fault) => Part {
            malformed: addresses.len() as u64,
            first_fault: Some(fault),
            ..Naming::new(symbols, None).name(addresses)
        },
    }
}

/// Inlined calls kept of one address. The deepest seen in large programs are
/// some dozens.
const MAX_INLINED: usize = 255;

struct Naming<'a> {
    symbols: &'a SymbolTables,
    dwarf: Option<&'a Dwarf<'a>>,
    strings: Strings,
    /// Names and files by where their bytes lie, so that each is demangled and
    /// compared once.
    known: FxHashMap<(usize, usize, Language), Option<u32>>,
    /// Symbol names by table and range.
    symbol_names: FxHashMap<(NameSource, Svma, u64), Option<u32>>,
}

impl<'a> Naming<'a> {
    fn new(symbols: &'a SymbolTables, dwarf: Option<&'a Dwarf<'a>>) -> Self {
        Self {
            symbols,
            dwarf,
            strings: Strings::default(),
            known: FxHashMap::default(),
            symbol_names: FxHashMap::default(),
        }
    }

    fn name(mut self, addresses: &[Svma]) -> Part {
        let mut part = Part::default();
        let mut found = Vec::new();
        for address in addresses {
            found.clear();
            if let Some(dwarf) = self.dwarf
                && let Err(fault) = dwarf.calls(*address, &mut found)
            {
                // What was found before the error is right, but the chain may
                // lack its outer part: the symbol says more.
                found.clear();
                part.malformed += 1;
                part.first_fault.get_or_insert(fault);
            }
            self.add(*address, &found, &mut part.calls);
            part.ends.push(part.calls.len());
        }
        part.split = self.dwarf.is_some_and(Dwarf::is_split);
        part.strings = self.strings.into_inner();
        part
    }

    fn add(&mut self, address: Svma, found: &[Call<'a>], out: &mut Vec<NamedCall>) {
        let Some((physical, inlined)) = found.split_last() else {
            let (function, source) = self.by_symbol(address);
            out.push(NamedCall {
                function,
                file: None,
                line: 0,
                inline: false,
                source,
            });
            return;
        };
        // The innermost ones, where there are more than a compiler would make.
        for call in inlined.iter().take(MAX_INLINED) {
            let function = self.lambda(address, call).or_else(|| self.by_name(call));
            out.push(NamedCall {
                function,
                file: self.file(call.file),
                line: call.line,
                inline: true,
                source: function.map_or(NameSource::None, |_| NameSource::Dwarf),
            });
        }
        let (function, source) = match self.full_symbol(address, physical) {
            Some(better) => better,
            None => match self.by_name(physical) {
                Some(function) => (Some(function), NameSource::Dwarf),
                // Lines without a function: assembly.
                None => self.by_symbol(address),
            },
        };
        out.push(NamedCall {
            function,
            file: self.file(physical.file),
            line: physical.line,
            inline: false,
            source,
        });
    }

    /// The symbol's name for a function of which the debug information has only
    /// the short name, though the language mangles: namespace and parameters
    /// would be missing. Only a symbol of exactly this function counts.
    fn full_symbol(&mut self, address: Svma, call: &Call<'a>) -> Option<(Option<u32>, NameSource)> {
        let name = call.function?;
        if !matches!(call.language, Language::Cpp | Language::Rust) || is_mangled(name) {
            return None;
        }
        let (found, source) = self.symbols.find(address)?;
        if !is_mangled(found.name.as_bytes()) {
            return None;
        }
        let (start, end) = self.dwarf?.range(address, call.entry?)?;
        let exact = start == found.start && found.start.checked_add(found.bytes) == Some(end);
        if !exact {
            return None;
        }
        let function = self.strings.intern(&demangle(found.name, call.language));
        Some((function, source))
    }

    /// The name with its scopes of a lambda that has only a short one.
    fn lambda(&mut self, address: Svma, call: &Call<'a>) -> Option<u32> {
        if call.language != Language::Cpp || call.function != Some(CALL_OPERATOR) {
            return None;
        }
        let name = self.dwarf?.scoped_name(address, call.entry?)?;
        self.strings.intern(&name)
    }

    fn by_symbol(&mut self, address: Svma) -> (Option<u32>, NameSource) {
        let Some((found, source)) = self.symbols.find(address) else {
            return (None, NameSource::None);
        };
        let strings = &mut self.strings;
        let function = *self
            .symbol_names
            .entry((source, found.start, found.bytes))
            .or_insert_with(|| strings.intern(&demangle(found.name, Language::Unknown)));
        (function, source)
    }

    fn by_name(&mut self, call: &Call<'a>) -> Option<u32> {
        let name = call.function.filter(|name| !name.is_empty())?;
        let strings = &mut self.strings;
        *self
            .known
            .entry((name.as_ptr().addr(), name.len(), call.language))
            .or_insert_with(|| {
                let name = String::from_utf8_lossy(name);
                strings.intern(&demangle(&name, call.language))
            })
    }

    fn file(&mut self, file: Option<&'a str>) -> Option<u32> {
        let file = file.filter(|file| !file.is_empty())?;
        let strings = &mut self.strings;
        *self
            .known
            .entry((file.as_ptr().addr(), file.len(), Language::Plain))
            .or_insert_with(|| strings.intern(file))
    }
}

fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}
