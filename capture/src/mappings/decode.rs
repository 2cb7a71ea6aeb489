//! From the bytes of a ring to records.

use linux_perf_event_reader::{
    BranchSampleFormat, CpuMode, Endianness, EventRecord, Mmap2FileId, Mmap2Record, RawData,
    RawEventRecord, ReadFormat, RecordIdParseInfo, RecordParseInfo, RecordType, SampleFormat,
};
use memtrack_artifact::{
    Avma, BuildId, FileIdentity, FileOffset, Mapping, ModuleEvent, ModuleRecord, Pid, Tid,
};

/// Which event wrote a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The one with device and inode, comm, fork and exit.
    Main,
    /// The one with build ids.
    BuildIds,
}

/// `struct perf_event_header`: type, misc, size.
const HEADER_BYTES: usize = 8;

pub(super) struct Decoder {
    info: RecordParseInfo,
    build_id_event: Option<u64>,
}

impl Decoder {
    /// For a ring to which the event with this id writes besides the main one.
    pub(super) fn new(build_id_event: Option<u64>) -> Self {
        let endian = if cfg!(target_endian = "little") {
            Endianness::LittleEndian
        } else {
            Endianness::BigEndian
        };
        // The tail of every record: pid and tid, time, id.
        let info = RecordParseInfo {
            endian,
            sample_format: SampleFormat::TID | SampleFormat::TIME | SampleFormat::IDENTIFIER,
            branch_sample_format: BranchSampleFormat::empty(),
            read_format: ReadFormat::empty(),
            common_data_offset_from_end: Some(24),
            sample_regs_user: 0,
            user_regs_count: 0,
            sample_regs_intr: 0,
            intr_regs_count: 0,
            id_parse_info: RecordIdParseInfo {
                nonsample_record_id_offset_from_end: Some(8),
                sample_record_id_offset_from_start: Some(0),
            },
            nonsample_record_time_offset_from_end: Some(16),
            sample_record_time_offset_from_start: None,
        };
        Self {
            info,
            build_id_event,
        }
    }

    /// Gives `sink` the records in `bytes`. A record that cannot be read is
    /// reported as lost.
    pub(super) fn decode(&self, bytes: &[u8], sink: &mut dyn FnMut(Source, ModuleRecord)) {
        let mut rest = bytes;
        while let Some((header, _)) = rest.split_at_checked(HEADER_BYTES) {
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let misc = u16::from_ne_bytes([header[4], header[5]]);
            let len = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            let Some(body) = rest.get(HEADER_BYTES..len) else {
                break;
            };
            self.decode_one(RecordType(kind), misc, body, sink);
            rest = rest.get(len..).unwrap_or_default();
        }
    }

    fn decode_one(
        &self,
        kind: RecordType,
        misc: u16,
        body: &[u8],
        sink: &mut dyn FnMut(Source, ModuleRecord),
    ) {
        let mut raw = RawEventRecord::new(kind, misc, RawData::Single(body), self.info);
        let Ok(common) = raw.common_data() else {
            return;
        };
        let source = match (common.id, self.build_id_event) {
            (Some(id), Some(build_ids)) if id == build_ids => Source::BuildIds,
            _ => Source::Main,
        };
        if kind == RecordType::MMAP2 {
            raw.misc = trusted_misc(misc, source, body);
        }
        let time_ns = common.timestamp.unwrap_or(0);
        let mut give = |pid: i32, tid: i32, event| {
            sink(
                source,
                ModuleRecord {
                    time_ns,
                    pid: Pid(pid.cast_unsigned()),
                    tid: Tid(tid.cast_unsigned()),
                    event,
                },
            );
        };
        match raw.parse() {
            Ok(EventRecord::Mmap2(map)) if map.cpu_mode == CpuMode::User => {
                give(map.pid, map.tid, ModuleEvent::Map(mapping(&map)));
            }
            Ok(EventRecord::Comm(comm)) => {
                if comm.is_execve {
                    give(comm.pid, comm.tid, ModuleEvent::Exec);
                }
                let name = comm.name.as_slice().into_owned();
                give(comm.pid, comm.tid, ModuleEvent::Comm { name });
            }
            // A new thread has the pid of its parent.
            Ok(EventRecord::Fork(fork)) if fork.pid != fork.ppid => {
                let parent = Pid(fork.ppid.cast_unsigned());
                give(fork.pid, fork.tid, ModuleEvent::Fork { parent });
            }
            Ok(EventRecord::Exit(exit)) => give(exit.pid, exit.tid, ModuleEvent::Exit),
            Ok(EventRecord::Lost(lost)) => {
                // Whichever event found room again: the ring is what was full.
                sink(
                    Source::Main,
                    ModuleRecord {
                        time_ns,
                        pid: Pid(common.pid.unwrap_or(0).cast_unsigned()),
                        tid: Tid(common.tid.unwrap_or(0).cast_unsigned()),
                        event: ModuleEvent::Lost { count: lost.count },
                    },
                );
            }
            Ok(_) => {}
            Err(_) => give(
                common.pid.unwrap_or(0),
                common.tid.unwrap_or(0),
                ModuleEvent::Lost { count: 1 },
            ),
        }
    }
}

/// The flags of an MMAP2 record, where the one that tells a build id from a
/// device number may be believed.
///
/// The kernel makes one header for all events that want the record and sets
/// the flag in it for the first that asks for build ids
/// (`perf_event_mmap_output` in kernel/events/core.c); the events after that
/// have the flag although their record holds device and inode.
fn trusted_misc(misc: u16, source: Source, body: &[u8]) -> u16 {
    /// `PERF_RECORD_MISC_MMAP_BUILD_ID`
    const BUILD_ID: u16 = 1 << 14;
    /// After pid, tid, address, length and offset.
    const LEN_AT: usize = 32;
    /// `BUILD_ID_SIZE_MAX`
    const MAX_LEN: u8 = 20;
    match source {
        Source::BuildIds if body.get(LEN_AT).is_some_and(|len| *len <= MAX_LEN) => misc,
        Source::BuildIds | Source::Main => misc & !BUILD_ID,
    }
}

fn mapping(map: &Mmap2Record<'_>) -> Mapping {
    let file = match &map.file_id {
        Mmap2FileId::InodeAndVersion(file) => FileIdentity {
            device: (file.major, file.minor),
            inode: file.inode,
            generation: file.inode_generation,
            build_id: None,
        },
        Mmap2FileId::BuildId(id) => FileIdentity {
            build_id: (!id.is_empty()).then(|| BuildId(id.clone())),
            ..FileIdentity::default()
        },
    };
    Mapping {
        start: Avma(map.address),
        len: map.length,
        file_offset: FileOffset(map.page_offset),
        protection: map.protection,
        file,
        path: map.path.as_slice().into_owned(),
    }
}
