//! Where a lambda stands: GCC gives its call operator no linkage name, and
//! `operator()` alone says nothing in a profile.

use crate::demangle::{Language, demangle};
use gimli::{AttributeValue, DwAt, EndianSlice, LittleEndian, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// The name of a lambda's call operator.
pub(crate) const CALL_OPERATOR: &[u8] = b"operator()";

/// Scopes deeper than this are not followed; real ones have a few levels.
const MAX_DEPTH: usize = 64;

/// Full names of the call operators of some units, each unit read once when it
/// is first asked about.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    units: FxHashMap<usize, FxHashMap<UnitOffset, String>>,
}

impl Scopes {
    /// The full name of the call operator whose entry (or inlined instance) is
    /// at `entry`: `outer(int)::{lambda}::operator()`.
    pub(crate) fn full_name(
        &mut self,
        unit: UnitRef<'_, Slice<'_>>,
        entry: UnitOffset,
    ) -> Option<String> {
        let declared = declaration(unit, entry)?;
        let key = unit.header.debug_info_offset()?.0;
        let operators = self.units.entry(key).or_insert_with(|| operators(unit));
        operators.get(&declared).cloned()
    }
}

/// The entry in its scope, from an inlined instance or a definition elsewhere.
fn declaration(unit: UnitRef<'_, Slice<'_>>, entry: UnitOffset) -> Option<UnitOffset> {
    /// Inlined instance, abstract instance, declaration.
    const HOPS: usize = 4;
    let mut at = entry;
    for _ in 0..HOPS {
        let entry = unit.entry(at).ok()?;
        let origin = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification]
            .into_iter()
            .find_map(|attribute| entry.attr_value(attribute));
        match origin {
            None => return Some(at),
            Some(AttributeValue::UnitRef(next)) => at = next,
            Some(_) => return None,
        }
    }
    None
}

/// All call operators of a unit with their full names.
fn operators(unit: UnitRef<'_, Slice<'_>>) -> FxHashMap<UnitOffset, String> {
    let mut found = FxHashMap::default();
    // Names of the open scopes, with their depth in the tree.
    let mut scopes: Vec<(isize, String)> = Vec::new();
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        let depth = entry.depth();
        while scopes.last().is_some_and(|(open, _)| *open >= depth) {
            scopes.pop();
        }
        match entry.tag() {
            gimli::DW_TAG_namespace
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type => {
                let name = text(unit, entry, gimli::DW_AT_name);
                let name = name.as_deref().unwrap_or(match entry.tag() {
                    gimli::DW_TAG_namespace => "(anonymous namespace)",
                    // The type of a lambda has no name.
                    _ => "{lambda}",
                });
                if scopes.len() < MAX_DEPTH {
                    scopes.push((depth, join(&scopes, name)));
                }
            }
            gimli::DW_TAG_subprogram => {
                let name = text(unit, entry, gimli::DW_AT_name);
                if name
                    .as_deref()
                    .is_some_and(|name| name.as_bytes() == CALL_OPERATOR)
                {
                    found.insert(entry.offset(), join(&scopes, "operator()"));
                }
                // A linkage name has the outer scopes in itself.
                let full = text(unit, entry, gimli::DW_AT_linkage_name)
                    .map(|name| demangle(&name, Language::Cpp))
                    .or_else(|| name.map(|name| join(&scopes, &name)));
                if let Some(full) = full
                    && scopes.len() < MAX_DEPTH
                {
                    scopes.push((depth, full));
                }
            }
            _ => {}
        }
    }
    found
}

fn text<'a>(unit: UnitRef<'_, Slice<'a>>, entry: &Entry<'a>, name: DwAt) -> Option<String> {
    let value = entry.attr_value(name)?;
    let text = unit.attr_string(value).ok()?;
    Some(text.to_string_lossy().into_owned())
}

fn join(scopes: &[(isize, String)], name: &str) -> String {
    match scopes.last() {
        Some((_, scope)) => format!("{scope}::{name}"),
        None => name.to_owned(),
    }
}
