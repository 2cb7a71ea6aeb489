//! A guard against debug information made to overflow a reader's stack.
//!
//! Readers of DWARF follow inlined calls by recursion, and a panic can be
//! caught where an overflow cannot. Compilers nest entries some dozens deep; a
//! file can nest them millions deep in as many bytes. One pass that only counts
//! (2 to 4 ms per MB) tells the two apart before anything recursive is run.

use gimli::{AbbreviationsCacheStrategy, EndianSlice, LittleEndian};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Deepest nesting that is read. The deepest seen in large C++ and Rust
/// programs is below 100.
const MAX_DEPTH: isize = 1000;

/// Whether no unit nests its entries deeper than a compiler does. Malformed
/// units end their own count: the reader will meet the same error.
pub(crate) fn is_bounded(dwarf: &mut gimli::Dwarf<Slice<'_>>) -> bool {
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(abbreviations) = dwarf.abbreviations(&header) else {
            continue;
        };
        let Ok(mut entries) = header.entries_raw(&abbreviations, None) else {
            continue;
        };
        while !entries.is_empty() {
            if entries.next_depth() > MAX_DEPTH {
                return false;
            }
            match entries.read_abbreviation() {
                Ok(Some(abbreviation)) => {
                    if entries.skip_attributes(abbreviation.attributes()).is_err() {
                        break;
                    }
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit of DWARF 4 with `depth` nested inlined calls.
    fn nested(depth: usize) -> (Vec<u8>, Vec<u8>) {
        // 1: DW_TAG_compile_unit, 2: DW_TAG_inlined_subroutine, both with
        // children and without attributes.
        let abbreviations = vec![1, 0x11, 1, 0, 0, 2, 0x1d, 1, 0, 0, 0];
        let mut body = vec![4, 0, 0, 0, 0, 0, 8, 1];
        body.resize(body.len() + depth, 2);
        body.resize(body.len() + depth + 1, 0);
        let len = u32::try_from(body.len()).unwrap();
        let mut info = len.to_le_bytes().to_vec();
        // unit_length, version, abbreviations' offset, address size.
        info.extend(&body);
        (abbreviations, info)
    }

    fn bounded(depth: usize) -> bool {
        let (abbreviations, info) = nested(depth);
        let mut dwarf = gimli::Dwarf::load(|id| {
            let bytes: &[u8] = match id {
                gimli::SectionId::DebugAbbrev => &abbreviations,
                gimli::SectionId::DebugInfo => &info,
                _ => &[],
            };
            gimli::Result::Ok(EndianSlice::new(bytes, LittleEndian))
        })
        .unwrap();
        is_bounded(&mut dwarf)
    }

    #[test]
    fn entries_nested_deeper_than_compilers_do_are_refused() {
        assert!(bounded(0));
        assert!(bounded(900));
        assert!(!bounded(1001));
        assert!(!bounded(3_000_000));
    }
}
