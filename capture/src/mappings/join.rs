//! Makes one mapping of the two records that the kernel writes about it.

use super::decode::Source;
use memtrack_artifact::{Mapping, ModuleEvent, ModuleRecord};

/// Joins the records of one CPU. The kernel writes both records of a mapping
/// with preemption off (`perf_iterate_sb` in kernel/events/core.c), so they
/// are neighbours; which comes first depends on how the events were inherited.
/// A record whose partner was dropped goes out alone.
#[derive(Default)]
pub(super) struct Joiner {
    waiting: Option<(Source, ModuleRecord)>,
}

impl Joiner {
    /// Adds a record; appends to `out` what is complete.
    pub(super) fn push(
        &mut self,
        source: Source,
        mut record: ModuleRecord,
        out: &mut Vec<ModuleRecord>,
    ) {
        let first = self.waiting.take();
        if !matches!(record.event, ModuleEvent::Map(_)) {
            out.extend(first.map(|(_, first)| first));
            out.push(record);
            return;
        }
        match first {
            Some((other, first)) if other != source && is_same(&first, &record) => {
                let (from, build_ids) = match source {
                    Source::Main => (&mut record, first),
                    Source::BuildIds => {
                        let build_ids = std::mem::replace(&mut record, first);
                        (&mut record, build_ids)
                    }
                };
                if let (ModuleEvent::Map(map), ModuleEvent::Map(named)) =
                    (&mut from.event, build_ids.event)
                {
                    map.file.build_id = named.file.build_id;
                }
                out.push(record);
            }
            first => {
                out.extend(first.map(|(_, first)| first));
                self.waiting = Some((source, record));
            }
        }
    }

    /// The record that waits for its partner, when it has waited since before
    /// `time_ns`.
    pub(super) fn take_older_than(&mut self, time_ns: u64) -> Option<ModuleRecord> {
        self.waiting
            .take_if(|(_, record)| record.time_ns < time_ns)
            .map(|(_, record)| record)
    }

    /// The record that waits for its partner.
    pub(super) fn take(&mut self) -> Option<ModuleRecord> {
        self.waiting.take().map(|(_, record)| record)
    }
}

/// Whether two records are about the same mapping, apart from what each says
/// of the file's identity.
fn is_same(first: &ModuleRecord, second: &ModuleRecord) -> bool {
    let place = |map: &Mapping| (map.start, map.len, map.file_offset, map.protection);
    match (&first.event, &second.event) {
        (ModuleEvent::Map(a), ModuleEvent::Map(b)) => {
            (first.pid, first.tid) == (second.pid, second.tid)
                && place(a) == place(b)
                && a.path == b.path
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrack_artifact::{Avma, BuildId, FileIdentity, FileOffset, Pid, Tid};

    fn map(source: Source, start: u64, time_ns: u64) -> (Source, ModuleRecord) {
        let file = match source {
            Source::Main => FileIdentity {
                device: (8, 1),
                inode: 42,
                ..FileIdentity::default()
            },
            Source::BuildIds => FileIdentity {
                build_id: Some(BuildId(vec![9; 20])),
                ..FileIdentity::default()
            },
        };
        let event = ModuleEvent::Map(Mapping {
            start: Avma(start),
            len: 4096,
            file_offset: FileOffset(0),
            protection: 5,
            file,
            path: b"/lib/x.so".to_vec(),
        });
        (
            source,
            ModuleRecord {
                time_ns,
                pid: Pid(1),
                tid: Tid(1),
                event,
            },
        )
    }

    /// Start, inode, whether there is a build id.
    fn joined(records: Vec<(Source, ModuleRecord)>) -> Vec<(u64, u64, bool)> {
        let mut joiner = Joiner::default();
        let mut out = Vec::new();
        for (source, record) in records {
            joiner.push(source, record, &mut out);
        }
        out.extend(joiner.take());
        out.into_iter()
            .filter_map(|record| match record.event {
                ModuleEvent::Map(map) => {
                    Some((map.start.0, map.file.inode, map.file.build_id.is_some()))
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn either_order_makes_one_mapping() {
        for sources in [
            [Source::Main, Source::BuildIds],
            [Source::BuildIds, Source::Main],
        ] {
            let records = sources.map(|source| map(source, 0x1000, 5)).to_vec();
            assert_eq!(joined(records), [(0x1000, 42, true)]);
        }
    }

    #[test]
    fn a_record_without_partner_goes_out_alone() {
        let records = vec![
            map(Source::Main, 0x1000, 1),
            map(Source::Main, 0x2000, 2),
            map(Source::BuildIds, 0x2000, 3),
            map(Source::BuildIds, 0x3000, 4),
        ];
        assert_eq!(
            joined(records),
            [(0x1000, 42, false), (0x2000, 42, true), (0x3000, 0, true)]
        );
    }

    #[test]
    fn the_same_place_mapped_twice_stays_two_mappings() {
        let records = vec![
            map(Source::Main, 0x1000, 1),
            map(Source::BuildIds, 0x1000, 1),
            map(Source::BuildIds, 0x1000, 2),
            map(Source::Main, 0x1000, 2),
        ];
        assert_eq!(joined(records).len(), 2);
    }

    #[test]
    fn a_waiting_record_is_given_up_after_a_time() {
        let mut joiner = Joiner::default();
        let mut out = Vec::new();
        let (source, record) = map(Source::Main, 0x1000, 100);
        joiner.push(source, record, &mut out);
        assert!(joiner.take_older_than(100).is_none());
        assert!(joiner.take_older_than(101).is_some());
        assert!(joiner.take().is_none());
    }
}
