//! From a file position to a link-time address, by the program header that
//! put the position where it is executed.

use memtrack_artifact::{FileOffset, Module, Segment, Svma};

/// `PT_LOAD` (System V ABI, program header types).
const PT_LOAD: u32 = 1;
/// `PF_X`.
const PF_X: u32 = 1;

/// Program headers looked at. Linux maps no program with more: the table may
/// have 64 KiB (`load_elf_phdrs` in `fs/binfmt_elf.c`), an entry has 56 bytes.
const MAX_HEADERS: usize = 65_536 / 56;

/// The link-time address of the byte at `offset`, seen through an executable
/// mapping that begins at file position `mapping_offset`.
///
/// A mapping covers whole pages, so its last page can show bytes of the next
/// segment, and its first page bytes of the one before: the same file position
/// is then mapped twice, at two addresses. Only the segment that was mapped
/// *executable* counts:
///
/// ```text
/// file    |..headers..|....text....|..data..|
/// pages   |  page 0        |   page 1       |
/// mapping   text (R X) = pages 0 and 1, data (RW) = page 1
/// ```
///
/// First choice is an executable segment that holds the position, second the
/// one whose page-aligned start is the mapping's start (the position lies in
/// the padding of its pages), third any segment that holds the position (code
/// made executable by `mprotect`).
pub(crate) fn to_svma(
    module: &Module,
    mapping_offset: FileOffset,
    offset: FileOffset,
    page_bytes: u64,
) -> Option<Svma> {
    let loads = || loads(module);
    let executable = || loads().filter(|segment| segment.flags & PF_X != 0);
    let page_start = |offset: u64| offset - offset.checked_rem(page_bytes).unwrap_or(0);

    executable()
        .find(|segment| holds(segment, offset))
        .or_else(|| {
            executable().find(|segment| page_start(segment.file_offset.0) == mapping_offset.0)
        })
        .or_else(|| loads().find(|segment| holds(segment, offset)))
        .map(|segment| {
            // Modulo 2^64: in the padding before a segment the difference is
            // negative.
            let delta = segment.address.0.wrapping_sub(segment.file_offset.0);
            Svma(offset.0.wrapping_add(delta))
        })
}

fn loads(module: &Module) -> impl Iterator<Item = &Segment> {
    let headers = module.segments.iter().take(MAX_HEADERS);
    headers.filter(|segment| segment.kind == PT_LOAD)
}

fn holds(segment: &Segment, offset: FileOffset) -> bool {
    offset
        .offset_from(segment.file_offset)
        .is_some_and(|inside| inside < segment.file_bytes)
}

/// Whether `address` lies in a segment that is mapped executable, or whether
/// the module names no such segment at all.
pub(crate) fn is_executable(module: &Module, address: Svma) -> bool {
    let mut any = false;
    for segment in loads(module) {
        if segment.flags & PF_X != 0 {
            any = true;
            if address
                .offset_from(segment.address)
                .is_some_and(|inside| inside < segment.memory_bytes)
            {
                return true;
            }
        }
    }
    !any
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{load, module};

    const PAGE: u64 = 4096;

    #[test]
    fn lld_layout_has_other_addresses_than_offsets() {
        // lld: each segment begins at the file position where the last ended,
        // and at the next page plus that position in memory.
        let module = module(vec![
            load(4, 0, 0x20_0000, 0x5a4),
            load(5, 0x5b0, 0x20_15b0, 0x200),
            load(6, 0x7b0, 0x20_27b0, 0x1b0),
        ]);
        // The text mapping begins at page 0 of the file.
        let at = |offset| to_svma(&module, FileOffset(0), FileOffset(offset), PAGE);
        assert_eq!(at(0x5b0), Some(Svma(0x20_15b0)));
        assert_eq!(at(0x7af), Some(Svma(0x20_17af)));
        // Padding after the text: still the text's own page.
        assert_eq!(at(0x7b0), Some(Svma(0x20_17b0)));
        // Bytes of the read-only segment, seen through the text mapping.
        assert_eq!(at(0x10), Some(Svma(0x20_1010)));
    }

    #[test]
    fn two_executable_segments_in_one_page_are_told_apart() {
        let module = module(vec![
            load(5, 0x1000, 0x1000, 0x100),
            load(5, 0x1100, 0x3100, 0x100),
        ]);
        let at = |offset| to_svma(&module, FileOffset(0x1000), FileOffset(offset), PAGE);
        assert_eq!(at(0x10ff), Some(Svma(0x10ff)));
        assert_eq!(at(0x1100), Some(Svma(0x3100)));
    }

    #[test]
    fn a_position_outside_every_segment_has_no_address() {
        let module = module(vec![load(5, 0x1000, 0x1000, 0x100)]);
        assert_eq!(
            to_svma(&module, FileOffset(0x5000), FileOffset(0x5010), PAGE),
            None
        );
        assert_eq!(
            to_svma(&module, FileOffset(0), FileOffset(u64::MAX), 0),
            None
        );
    }

    #[test]
    fn executable_addresses_are_those_of_executable_segments() {
        let module = module(vec![load(4, 0, 0, 0x100), load(5, 0x1000, 0x1000, 0x100)]);
        assert!(!is_executable(&module, Svma(0x10)));
        assert!(is_executable(&module, Svma(0x10ff)));
        assert!(!is_executable(&module, Svma(0x1100)));
    }
}
