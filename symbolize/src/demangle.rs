//! Names as people wrote them.
//!
//! A name that only looks mangled stays as it is: a C program may well define
//! `_R`, `_ZN` or `__ZN3foo3barE17h05af221e174051e9E`. Where the unit's
//! language is known only its scheme is tried; where it is not (plain symbols),
//! a scheme must accept the whole name.

use crate::shield::shield;
use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt;

/// What is known of the language a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Language {
    /// C++ and its like: Itanium mangling.
    Cpp,
    /// Rust: legacy or v0 mangling.
    Rust,
    /// A language without mangling.
    Plain,
    /// Not known.
    Unknown,
}

/// The longest name that is taken apart; longer ones are shown as they are.
/// Nested templates of this length read no better demangled, and a hostile
/// name can grow a thousandfold.
const MAX_MANGLED_BYTES: usize = 16_384;
/// The longest result that is used in place of the mangled name. Substitutions
/// can double a name's length with every few bytes of it.
const MAX_DEMANGLED_BYTES: usize = 65_536;

/// The name to show for a symbol or linkage name.
pub(crate) fn demangle(name: &str, language: Language) -> String {
    let name = function_of(name);
    if name.len() > MAX_MANGLED_BYTES {
        return name.to_owned();
    }
    let shown = shield(|| match language {
        Language::Plain => None,
        Language::Cpp => cpp(name),
        Language::Rust => rust(name),
        Language::Unknown => rust(name).or_else(|| cpp(name)),
    });
    shown
        .flatten()
        .filter(|shown| !shown.is_empty())
        .unwrap_or_else(|| name.to_owned())
}

/// The function that a compiler's or linker's clone was made from: without
/// symbol version and without suffixes such as `.cold` or `.constprop.0`.
pub(crate) fn function_of(name: &str) -> &str {
    /// Suffixes that GCC (`ipa-*.cc`, `symtab.cc`, `lto-partition.cc`) and LLVM
    /// append to the name of what they clone, split or make local, with a
    /// number behind.
    const NUMBERED: [&str; 5] = [".part", ".constprop", ".isra", ".llvm", ".lto_priv"];
    /// The same, with a number or without.
    const BARE: [&str; 4] = [".cold", ".localalias", ".localversion", ".resolver"];
    let mut base = match name.find('@') {
        None | Some(0) => name,
        Some(at) => name.get(..at).unwrap_or(name),
    };
    loop {
        let numbered = base
            .trim_end_matches(|digit: char| digit.is_ascii_hexdigit())
            .strip_suffix('.')
            .filter(|unnumbered| unnumbered.len() + 1 < base.len());
        let strip = |name: &'_ str, suffixes: &[&str]| {
            suffixes
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .map(str::len)
        };
        let cut = numbered
            .and_then(|name| strip(name, &NUMBERED).or_else(|| strip(name, &BARE)))
            .or_else(|| strip(base, &BARE));
        match cut.and_then(|len| base.get(..len)) {
            Some(shorter) if !shorter.is_empty() => base = shorter,
            _ => return base,
        }
    }
}

fn rust(name: &str) -> Option<String> {
    let legacy = name.starts_with("_ZN") && has_legacy_hash(name);
    // v0 (RFC 2603): "_R", then a path, which begins with a capital letter.
    let v0 = name
        .strip_prefix("_R")
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()));
    if !(legacy || v0) {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut shown = Bounded::default();
    fmt::write(&mut shown, format_args!("{demangled:#}")).ok()?;
    let shown = shown.0;
    // v0 keeps generic arguments, in the form that expressions need; types and
    // debug information write `Vec<u8>`.
    Some(if v0 { shown.replace("::<", "<") } else { shown })
}

/// Whether a name ends as legacy Rust names do: `17h`, sixteen hexadecimal
/// digits, `E`.
fn has_legacy_hash(name: &str) -> bool {
    name.strip_suffix('E')
        .and_then(|rest| rest.get(rest.len().checked_sub(19)?..))
        .and_then(|tail| tail.strip_prefix("17h"))
        .is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = Symbol::new(name).ok()?;
    let mut shown = Bounded::default();
    let options = DemangleOptions::new().no_return_type();
    symbol.structured_demangle(&mut shown, &options).ok()?;
    Some(shown.0)
}

/// Text up to [`MAX_DEMANGLED_BYTES`]; beyond it writing fails.
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        demangle(name, Language::Unknown)
    }

    #[test]
    fn rust_names_read_the_same_in_both_manglings_and_have_no_hash() {
        assert_eq!(shown("_ZN4prog4main17h05af221e174051e9E"), "prog::main");
        assert_eq!(shown("_RNvCsdVsJQ1oQpXP_4prog4main"), "prog::main");
        assert_eq!(
            shown("_RINvCsdVsJQ1oQpXP_4prog7generichEB2_"),
            "prog::generic<u8>"
        );
        assert_eq!(
            shown(
                "_ZN51_$LT$prog..Shelf$LT$T$GT$$u20$as$u20$prog..Fill$GT$4fill17h0123456789abcdefE"
            ),
            "<prog::Shelf<T> as prog::Fill>::fill"
        );
        assert_eq!(
            shown("_ZN4prog4main17h05af221e174051e9E.llvm.1234567890"),
            "prog::main"
        );
    }

    #[test]
    fn cpp_names_lose_their_return_type_and_keep_their_parameters() {
        assert_eq!(shown("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(shown("_Z3maxIiET_S0_S0_"), "max<int>(int, int)");
        assert_eq!(shown("_ZN3FooC4Ev"), "Foo::Foo()");
    }

    #[test]
    fn names_that_only_look_mangled_stay() {
        for name in [
            "R",
            "Reset",
            "_Rx",
            "_Z",
            "_ZN",
            "_R",
            "_ZNx",
            "__ZN3foo3barE17h05af221e174051e9E",
            "_ZN3foo3barEi_not_this",
        ] {
            assert_eq!(shown(name), name);
        }
        assert_eq!(demangle("_ZN3foo3barEi", Language::Plain), "_ZN3foo3barEi");
    }

    #[test]
    fn clones_are_shown_as_their_function() {
        for (name, function) in [
            ("work.cold", "work"),
            ("work.part.0", "work"),
            ("work.constprop.0.isra.0", "work"),
            ("work.isra.0.cold", "work"),
            ("work.llvm.17203948", "work"),
            ("work.lto_priv.3", "work"),
            ("work@@GLIBC_2.2.5", "work"),
            ("work.cold.1", "work"),
            ("main.part", "main.part"),
            ("a.b", "a.b"),
            (".cold", ".cold"),
            ("work.1", "work.1"),
        ] {
            assert_eq!(function_of(name), function, "{name}");
        }
        assert_eq!(shown("_ZN3foo3barEi.cold"), "foo::bar(int)");
    }

    #[test]
    fn long_names_and_names_that_grow_without_bound_stay_as_they_are() {
        let name = format!("_ZN{}", "3foo".repeat(10_000));
        assert_eq!(shown(&name), name);
        // Each template holds the one before twice.
        let mut name = "_Z1fI1aS_E".to_owned();
        for digit in ('0'..='9').chain('A'..='Z') {
            name.push_str(&format!("1bIS{digit}_S{digit}_E"));
        }
        let shown = shown(&name);
        assert!(shown.len() <= MAX_DEMANGLED_BYTES.max(name.len()));
    }

    proptest::proptest! {
        #[test]
        fn anything_is_shown_somehow(name in "_(Z|ZN|R|RNv)?[a-zA-Z0-9_.$]{0,60}") {
            let _ = shown(&name);
        }
    }
}
