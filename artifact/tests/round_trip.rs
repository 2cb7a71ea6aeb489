//! What is written comes back.

#![allow(clippy::unwrap_used)]

mod common;

use memtrack_artifact::{
    Artifact, ArtifactWriter, Columns, Event, EventBatch, EventDecoder, EventFlags, EventKind,
    ModuleEvent, ModuleId, ModuleRecord, Pid, StackId, Tid,
};
use proptest::prelude::*;

const KINDS: [EventKind; 12] = [
    EventKind::Malloc,
    EventKind::Calloc,
    EventKind::Realloc,
    EventKind::AlignedAlloc,
    EventKind::Memalign,
    EventKind::PosixMemalign,
    EventKind::Valloc,
    EventKind::Pvalloc,
    EventKind::Free,
    EventKind::Fork,
    EventKind::Exec,
    EventKind::Exit,
];

/// Small, middling and extreme values.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(1 << 63),
        0..1000u64,
        any::<u64>(),
        any::<u64>().prop_map(|value| value << 4),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (
        (0..KINDS.len(), any::<u8>()),
        (number(), number()),
        (any::<u8>(), any::<u8>(), any::<bool>()),
        (number(), number(), number(), number()),
        any::<Option<u32>>(),
    )
        .prop_map(
            |((kind, flags), times, (pid, tid, wide), numbers, stack)| Event {
                kind: KINDS[kind],
                flags: EventFlags(flags % 8),
                start_ns: times.0,
                time_ns: times.1,
                pid: Pid(u32::from(pid % 3) + if wide { u32::MAX - 2 } else { 0 }),
                tid: Tid(u32::from(tid % 5)),
                address: numbers.0,
                size: numbers.1,
                old_address: numbers.2,
                alignment: numbers.3,
                stack: stack.map(StackId),
            },
        )
}

fn write(events: &[Event]) -> Artifact {
    let mut writer = ArtifactWriter::new(Vec::new(), &common::header()).unwrap();
    for event in events {
        writer.event(event).unwrap();
    }
    let (bytes, summary) = writer.finish(&common::losses(), &common::ending()).unwrap();
    assert_eq!(summary.events, events.len() as u64);
    assert_eq!(summary.file_bytes, bytes.len() as u64);
    Artifact::from_bytes("test", bytes).unwrap()
}

fn read(artifact: &Artifact) -> Vec<Event> {
    let mut events = Vec::new();
    for chunk in artifact.event_chunks() {
        let batch = chunk.decode().unwrap();
        assert_eq!(batch.len(), chunk.count);
        assert_eq!(batch.start_ns.iter().min(), Some(&chunk.min_start_ns));
        assert_eq!(batch.time_ns.iter().max(), Some(&chunk.max_time_ns));
        events.extend(batch.iter());
    }
    events
}

proptest! {
    #[test]
    fn any_events_come_back(events in prop::collection::vec(event(), 0..300)) {
        let artifact = write(&events);
        prop_assert!(artifact.completeness().is_whole());
        prop_assert_eq!(&read(&artifact), &events);
        for (kind, &count) in artifact.event_counts() {
            let of_kind = events.iter().filter(|event| event.kind == *kind);
            prop_assert_eq!(of_kind.count() as u64, count);
        }
    }

    #[test]
    fn wanted_columns_are_those_of_a_whole_decode(
        events in prop::collection::vec(event(), 1..200),
        mask in 0..256u16,
    ) {
        let parts = [
            Columns::START, Columns::TIME, Columns::THREAD, Columns::ADDRESS,
            Columns::SIZE, Columns::OLD_ADDRESS, Columns::ALIGNMENT, Columns::STACK,
        ];
        let wanted = parts.iter().enumerate()
            .filter(|(bit, _)| mask & (1 << bit) != 0)
            .fold(Columns::NONE, |wanted, (_, part)| wanted.and(*part));
        let artifact = write(&events);
        let chunk = artifact.event_chunks()[0];
        let mut all = chunk.decode().unwrap();
        let mut some = EventBatch::default();
        let mut decoder = EventDecoder::default();
        // The second time the decoder's memory is not fresh.
        for _ in 0..2 {
            decoder.decode(&chunk, wanted, &mut some).unwrap();
        }
        if !wanted.contains(Columns::START) { all.start_ns.clear() }
        if !wanted.contains(Columns::TIME) { all.time_ns.clear() }
        if !wanted.contains(Columns::THREAD) { all.pids.clear(); all.tids.clear() }
        if !wanted.contains(Columns::ADDRESS) { all.addresses.clear() }
        if !wanted.contains(Columns::SIZE) { all.sizes.clear() }
        if !wanted.contains(Columns::OLD_ADDRESS) { all.old_addresses.clear() }
        if !wanted.contains(Columns::ALIGNMENT) { all.alignments.clear() }
        if !wanted.contains(Columns::STACK) { all.stacks.clear() }
        prop_assert_eq!(some, all);
    }
}

#[test]
fn many_events_fill_several_chunks() {
    let events: Vec<Event> = (0..200_000u64)
        .map(|step| Event {
            tid: Tid((step % 300) as u32),
            ..common::malloc(1_000_000 + step * 700, 0x1000 + step * 32, step % 99, 5)
        })
        .collect();
    let artifact = write(&events);
    assert!(artifact.event_chunks().len() > 2);
    assert_eq!(read(&artifact), events);
}

#[test]
fn more_shapes_than_a_chunk_can_name_begin_a_new_one() {
    let events: Vec<Event> = (0..1000u64)
        .map(|step| Event {
            flags: EventFlags(step as u8),
            alignment: step / 256,
            ..common::malloc(1_000_000 + step, 0x1000, 1, 5)
        })
        .collect();
    let artifact = write(&events);
    assert!(artifact.event_chunks().len() > 1);
    assert_eq!(read(&artifact), events);
}

#[test]
fn everything_else_comes_back() {
    let artifact = Artifact::from_bytes("small", common::small()).unwrap();
    assert!(artifact.completeness().is_whole(), "{artifact:?}");
    assert_eq!(artifact.header(), &common::header());
    assert_eq!(artifact.ending(), Some(&common::ending()));
    assert_eq!(artifact.losses(), &common::losses());
    assert_eq!(artifact.refused_modules().len(), 1);
    assert_eq!(artifact.modules().len(), 1);
    let module = &artifact.modules()[0];
    assert_eq!(module.key, common::module().key);
    assert_eq!(module.sections[0].len, 20_000);
    let id = ModuleId(0);
    assert_eq!(artifact.module_of(&common::mapping()), Some(id));
    let section = |name| artifact.section(id, name).unwrap();
    assert_eq!(section(".eh_frame"), Some(common::eh_frame()));
    assert_eq!(section(".empty"), Some(Vec::new()));
    assert_eq!(section(".debug_info"), None);
    assert_eq!(artifact.section(ModuleId(9), ".eh_frame").unwrap(), None);
    let times: Vec<u64> = artifact
        .module_records()
        .iter()
        .map(|record| record.time_ns)
        .collect();
    assert!(times.is_sorted() && times.len() == 3, "{times:?}");
    let stacks: Vec<_> = artifact
        .stack_chunks()
        .iter()
        .flat_map(|chunk| {
            let batch = chunk.decode().unwrap();
            batch
                .iter()
                .map(|stack| (stack.id.0, stack.window.len()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(stacks, [(0, 2400), (1, 2400), (2, 2400)]);
    let sizes = artifact.part_sizes();
    assert_eq!(sizes.file_bytes, common::small().len() as u64);
    assert!(
        sizes.parts.iter().any(|part| part.0 == "sections"),
        "{sizes:?}"
    );
}

#[test]
fn a_mapping_is_found_by_build_id_under_another_name() {
    let artifact = Artifact::from_bytes("small", common::small()).unwrap();
    let mut mapping = common::mapping();
    mapping.path = b"/proc/self/root/srv/server".to_vec();
    assert_eq!(artifact.module_of(&mapping), Some(ModuleId(0)));
    mapping.file.build_id = None;
    assert_eq!(artifact.module_of(&mapping), None);
}

#[test]
fn a_long_section_is_cut_into_parts() {
    let long: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    let mut writer = ArtifactWriter::new(Vec::new(), &common::header()).unwrap();
    writer.module(common::module(), &[&long, b"x"]).unwrap();
    let mut second = common::module();
    second.sections.pop();
    assert_eq!(writer.module(second, &[b"other"]).unwrap(), ModuleId(1));
    let bytes = writer
        .finish(&common::losses(), &common::ending())
        .unwrap()
        .0;
    let artifact = Artifact::from_bytes("test", bytes).unwrap();
    let section = |id, name| artifact.section(ModuleId(id), name).unwrap();
    assert_eq!(section(0, ".eh_frame"), Some(long));
    assert_eq!(section(0, ".empty"), Some(b"x".to_vec()));
    assert_eq!(section(1, ".eh_frame"), Some(b"other".to_vec()));
}

#[test]
fn a_very_long_section_of_zeros_is_no_bomb() {
    let zeros = vec![0; 100 << 20];
    let mut writer = ArtifactWriter::new(Vec::new(), &common::header()).unwrap();
    writer.module(common::module(), &[&zeros, b""]).unwrap();
    let bytes = writer
        .finish(&common::losses(), &common::ending())
        .unwrap()
        .0;
    let artifact = Artifact::from_bytes("test", bytes).unwrap();
    let section = artifact.section(ModuleId(0), ".eh_frame").unwrap();
    assert!(section == Some(zeros));
}

#[test]
fn the_same_records_give_the_same_bytes() {
    assert_eq!(common::small(), common::small());
    let artifact = |bytes| Artifact::from_bytes("t", bytes).unwrap().fingerprint();
    assert_eq!(artifact(common::small()), artifact(common::small()));
    assert_ne!(artifact(common::small()), artifact(common::small_parts(4)));
}

#[test]
fn a_file_is_read_as_bytes_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mtk");
    std::fs::write(&path, common::small()).unwrap();
    let artifact = Artifact::open(&path).unwrap();
    assert_eq!(artifact.header(), &common::header());
    std::fs::write(&path, b"").unwrap();
    let error = Artifact::open(&path).unwrap_err().to_string();
    assert!(error.contains("not a memtrack artifact"), "{error}");
    let error = Artifact::open(folder.path()).unwrap_err();
    assert!(error.to_string().starts_with("cannot read /"), "{error}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("not a regular file"), "{source}");
}

#[test]
fn losses_noted_on_the_way_survive_a_cut() {
    let mut writer = ArtifactWriter::new(Vec::new(), &common::header()).unwrap();
    writer
        .module_record(&ModuleRecord {
            time_ns: 5,
            pid: Pid(1),
            tid: Tid(1),
            event: ModuleEvent::Exec,
        })
        .unwrap();
    writer.losses(&common::losses()).unwrap();
    writer.losses(&common::losses()).unwrap();
    let (mut bytes, _) = writer.finish(&common::losses(), &common::ending()).unwrap();
    bytes.truncate(bytes.len() - 1);
    let artifact = Artifact::from_bytes("cut", bytes).unwrap();
    assert!(!artifact.completeness().finished);
    assert_eq!(artifact.losses().counts, common::losses().counts);
    assert!(artifact.losses().notes.last().unwrap().contains("cut"));
}
