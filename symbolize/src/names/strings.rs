//! Strings, each kept once.

use rustc_hash::FxHashMap;

/// Gives each distinct string a number, in the order of first use.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    strings: Vec<String>,
    index: FxHashMap<String, u32>,
}

impl Strings {
    /// The number of `string`; `None` when 2^32 numbers are used up.
    pub(crate) fn intern(&mut self, string: &str) -> Option<u32> {
        if let Some(id) = self.index.get(string) {
            return Some(*id);
        }
        let id = u32::try_from(self.strings.len()).ok()?;
        self.strings.push(string.to_owned());
        self.index.insert(string.to_owned(), id);
        Some(id)
    }

    /// The string of a number.
    pub(crate) fn get(&self, id: u32) -> Option<&str> {
        self.strings.get(id as usize).map(String::as_str)
    }

    /// All strings by number.
    pub(crate) fn into_inner(self) -> Vec<String> {
        self.strings
    }
}
