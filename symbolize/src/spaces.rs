//! Address spaces through time: which file a process had mapped at an address
//! at a moment.
//!
//! The kernel reports mappings that appear, never those that go. A mapping
//! therefore lives until another covers its addresses, the process replaces its
//! image, or the recording ends; an address is always judged by the time of the
//! stack that holds it.

use memtrack_artifact::{Avma, FileOffset, Mapping, ModuleEvent, ModuleId, ModuleRecord, Pid};
use rpds::RedBlackTreeMapSync;
use rustc_hash::FxHashMap;

/// All address spaces of a recording.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    by_pid: FxHashMap<Pid, Vec<Epoch>>,
    mappings: Vec<MappedRange>,
}

/// A [`Mapping`] record: position in [`Spaces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MappingId(pub(crate) u32);

/// What is kept of a mapping record.
#[derive(Debug)]
pub(crate) struct MappedRange {
    /// The keyed module it shows.
    pub(crate) module: Option<ModuleId>,
    /// The file position of its first byte, as mapped.
    pub(crate) file_offset: FileOffset,
    /// The last part of its path, for display.
    pub(crate) name: String,
}

/// Names one state of one address space: two stacks with the same epoch see the
/// same mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EpochId(pub(crate) u32);

/// An address space from `time_ns` until the next epoch of the process.
#[derive(Debug)]
pub(crate) struct Epoch {
    time_ns: u64,
    pub(crate) id: EpochId,
    live: Live,
}

/// Live ranges by their first address. They do not overlap.
type Live = RedBlackTreeMapSync<u64, Span>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// First address past the range.
    end: u64,
    /// File position of the range's first byte.
    file_offset: u64,
    mapping: MappingId,
}

/// An address placed in a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) mapping: MappingId,
    /// The position in the mapped file.
    pub(crate) offset: FileOffset,
}

impl Spaces {
    /// Replays the module stream, which is in time order. `module_of` tells
    /// which keyed module a mapping shows.
    pub(crate) fn replay(
        records: &[ModuleRecord],
        mut module_of: impl FnMut(&Mapping) -> Option<ModuleId>,
    ) -> Self {
        let mut spaces = Self::default();
        let mut epochs = 0_u32;
        for record in records {
            let live = match &record.event {
                ModuleEvent::Map(mapping) => {
                    let Some(id) = spaces.add(mapping, &mut module_of) else {
                        continue;
                    };
                    insert(spaces.last(record.pid), mapping, id)
                }
                ModuleEvent::Fork { parent } => spaces.last(*parent),
                ModuleEvent::Exec => Live::new_sync(),
                ModuleEvent::Comm { .. } | ModuleEvent::Exit | ModuleEvent::Lost { .. } => continue,
            };
            spaces.by_pid.entry(record.pid).or_default().push(Epoch {
                time_ns: record.time_ns,
                id: EpochId(epochs),
                live,
            });
            // More than 2^32 records would need an artifact of terabytes; the
            // last id then repeats and only costs the cache its precision.
            epochs = epochs.saturating_add(1);
        }
        spaces
    }

    /// The state of a process's address space at a time; `None` when nothing
    /// is known of it.
    pub(crate) fn at(&self, pid: Pid, time_ns: u64) -> Option<&Epoch> {
        let epochs = self.by_pid.get(&pid)?;
        let later = epochs.partition_point(|epoch| epoch.time_ns <= time_ns);
        epochs.get(later.checked_sub(1)?)
    }

    /// A mapping record.
    pub(crate) fn mapping(&self, id: MappingId) -> Option<&MappedRange> {
        self.mappings.get(id.0 as usize)
    }

    fn last(&self, pid: Pid) -> Live {
        self.by_pid
            .get(&pid)
            .and_then(|epochs| epochs.last())
            .map_or_else(Live::new_sync, |epoch| epoch.live.clone())
    }

    fn add(
        &mut self,
        mapping: &Mapping,
        module_of: &mut impl FnMut(&Mapping) -> Option<ModuleId>,
    ) -> Option<MappingId> {
        if mapping.len == 0 || mapping.start.checked_add(mapping.len).is_none() {
            return None;
        }
        let id = MappingId(u32::try_from(self.mappings.len()).ok()?);
        self.mappings.push(MappedRange {
            module: module_of(mapping),
            file_offset: mapping.file_offset,
            name: display_name(&mapping.path),
        });
        Some(id)
    }
}

impl Epoch {
    /// The mapping that shows `address`.
    pub(crate) fn locate(&self, address: Avma) -> Option<Located> {
        let (start, span) = self.live.range(..=address.0).next_back()?;
        (address.0 < span.end).then_some(Located {
            mapping: span.mapping,
            offset: FileOffset(span.file_offset.wrapping_add(address.0 - start)),
        })
    }
}

/// `live` with `mapping` on top of whatever it covers.
fn insert(mut live: Live, mapping: &Mapping, id: MappingId) -> Live {
    let start = mapping.start.0;
    let end = start.saturating_add(mapping.len);
    let below = live
        .range(..start)
        .next_back()
        .filter(|(_, span)| span.end > start)
        .map(|(at, span)| (*at, *span));
    let covered: Vec<(u64, Span)> = below
        .into_iter()
        .chain(live.range(start..end).map(|(at, span)| (*at, *span)))
        .collect();
    for (at, span) in covered {
        live.remove_mut(&at);
        if at < start {
            live.insert_mut(at, Span { end: start, ..span });
        }
        if span.end > end {
            let file_offset = span.file_offset.wrapping_add(end - at);
            live.insert_mut(
                end,
                Span {
                    file_offset,
                    ..span
                },
            );
        }
    }
    live.insert_mut(
        start,
        Span {
            end,
            file_offset: mapping.file_offset.0,
            mapping: id,
        },
    );
    live
}

/// The last part of a path, as text.
pub(crate) fn display_name(path: &[u8]) -> String {
    let last = path
        .rsplit(|byte| *byte == b'/')
        .next()
        .filter(|part| !part.is_empty())
        .unwrap_or(path);
    String::from_utf8_lossy(last).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{mapping, record};
    use proptest::prelude::*;

    fn replay(records: &[ModuleRecord]) -> Spaces {
        Spaces::replay(records, |_| None)
    }

    fn seen(spaces: &Spaces, pid: u32, time_ns: u64, address: u64) -> Option<(String, u64)> {
        let located = spaces.at(Pid(pid), time_ns)?.locate(Avma(address))?;
        let name = spaces.mapping(located.mapping)?.name.clone();
        Some((name, located.offset.0))
    }

    fn map(time_ns: u64, pid: u32, path: &str, start: u64, len: u64, offset: u64) -> ModuleRecord {
        record(
            time_ns,
            pid,
            ModuleEvent::Map(mapping(path, start, len, offset)),
        )
    }

    #[test]
    fn a_reused_range_is_judged_by_time() {
        let spaces = replay(&[
            map(10, 1, "/lib/one.so", 0x1000, 0x1000, 0),
            map(20, 1, "/lib/two.so", 0x1000, 0x1000, 0x3000),
        ]);
        assert_eq!(seen(&spaces, 1, 9, 0x1010), None);
        assert_eq!(seen(&spaces, 1, 10, 0x1010), Some(("one.so".into(), 0x10)));
        assert_eq!(seen(&spaces, 1, 19, 0x1010), Some(("one.so".into(), 0x10)));
        assert_eq!(
            seen(&spaces, 1, 20, 0x1010),
            Some(("two.so".into(), 0x3010))
        );
    }

    #[test]
    fn a_mapping_in_the_middle_splits_the_older_one() {
        let spaces = replay(&[
            map(1, 1, "old", 0x1000, 0x3000, 0x8000),
            map(2, 1, "new", 0x2000, 0x1000, 0),
        ]);
        assert_eq!(seen(&spaces, 1, 5, 0x1fff), Some(("old".into(), 0x8fff)));
        assert_eq!(seen(&spaces, 1, 5, 0x2000), Some(("new".into(), 0)));
        assert_eq!(seen(&spaces, 1, 5, 0x3000), Some(("old".into(), 0xa000)));
        assert_eq!(seen(&spaces, 1, 5, 0x4000), None);
    }

    #[test]
    fn a_fork_copies_what_lives_then_and_no_more() {
        let spaces = replay(&[
            map(1, 1, "base", 0x1000, 0x1000, 0),
            record(2, 2, ModuleEvent::Fork { parent: Pid(1) }),
            map(3, 1, "later", 0x5000, 0x1000, 0),
            map(4, 2, "own", 0x1000, 0x1000, 0),
        ]);
        assert_eq!(seen(&spaces, 2, 3, 0x1000), Some(("base".into(), 0)));
        assert_eq!(seen(&spaces, 2, 9, 0x5000), None);
        assert_eq!(seen(&spaces, 2, 9, 0x1000), Some(("own".into(), 0)));
        assert_eq!(seen(&spaces, 1, 9, 0x1000), Some(("base".into(), 0)));
        assert_eq!(seen(&spaces, 2, 1, 0x1000), None);
    }

    #[test]
    fn an_exec_drops_everything() {
        let spaces = replay(&[
            map(1, 1, "before", 0x1000, 0x1000, 0),
            record(2, 1, ModuleEvent::Exec),
            map(3, 1, "after", 0x9000, 0x1000, 0),
        ]);
        assert_eq!(seen(&spaces, 1, 2, 0x1000), None);
        assert_eq!(seen(&spaces, 1, 3, 0x9000), Some(("after".into(), 0)));
        assert_eq!(seen(&spaces, 1, 1, 0x1000), Some(("before".into(), 0)));
    }

    #[test]
    fn an_unknown_process_has_no_space() {
        assert!(replay(&[]).at(Pid(7), 1).is_none());
    }

    #[test]
    fn ranges_that_leave_the_address_space_are_ignored() {
        let spaces = replay(&[
            map(1, 1, "x", u64::MAX - 4, 100, 0),
            map(1, 1, "y", 5, 0, 0),
        ]);
        assert!(spaces.at(Pid(1), 5).is_none());
    }

    #[test]
    fn names_are_the_last_path_part() {
        assert_eq!(display_name(b"/usr/lib/libc.so.6"), "libc.so.6");
        assert_eq!(display_name(b"[vdso]"), "[vdso]");
        assert_eq!(display_name(b"//anon"), "anon");
        assert_eq!(display_name(b"/"), "/");
    }

    /// What is mapped at each of a few pages, by the plainest means.
    type Pages = [Option<(u64, u64)>; 16];

    proptest! {
        /// Random streams of three processes, page by page against a table.
        #[test]
        fn any_stream_agrees_with_a_table_of_pages(
            events in prop::collection::vec((1_u32..4, 0_u64..12, 1_u64..6, 0_u8..8), 1..60),
        ) {
            const PAGE: u64 = 0x1000;
            let mut records = Vec::new();
            let mut tables: Vec<[Pages; 4]> = Vec::new();
            let mut now = [[None; 16]; 4];
            for (time, (pid, start, len, kind)) in (1_u64..).zip(events) {
                let event = match kind {
                    0 => {
                        let parent = 1 + start as u32 % 3;
                        now[pid as usize] = now[parent as usize];
                        ModuleEvent::Fork { parent: Pid(parent) }
                    }
                    1 => {
                        now[pid as usize] = [None; 16];
                        ModuleEvent::Exec
                    }
                    _ => {
                        for page in start..(start + len).min(16) {
                            now[pid as usize][page as usize] = Some((time, (page - start) * PAGE));
                        }
                        let len = ((start + len).min(16) - start) * PAGE;
                        ModuleEvent::Map(mapping(&time.to_string(), start * PAGE, len, 0))
                    }
                };
                records.push(record(time, pid, event));
                tables.push(now);
            }
            let spaces = replay(&records);
            for (time, table) in (1_u64..).zip(tables) {
                for pid in 1..4 {
                    for page in 0..16 {
                        let expected = table[pid as usize][page as usize]
                            .map(|(name, offset): (u64, u64)| (name.to_string(), offset + 5));
                        let found = seen(&spaces, pid, time, page * PAGE + 5);
                        prop_assert_eq!(found, expected, "pid {} page {} at {}", pid, page, time);
                    }
                }
            }
        }
    }
}
