//! What the integration tests build artifacts from.
#![allow(dead_code)] // Each test uses its own part of it.

pub(crate) mod forge;
pub(crate) mod fuzz;

use memtrack_artifact::{
    Architecture, ArtifactWriter, Avma, BuildId, ByteString, Ending, Event, EventFlags, EventKind,
    ExitStatus, FileIdentity, FileOffset, Frame, FrameId, Header, LossReason, Losses, MappedFile,
    Mapping, Module, ModuleAudit, ModuleEvent, ModuleId, ModuleKey, ModuleRecord, NameSource,
    Pause, PauseReason, Pid, RefusedModule, SectionInfo, Segment, StackForm, StackId, StackRecord,
    StringId, Svma, SymbolizedStack, Symbols, Termination, Tid,
};

/// A header with something in every field.
pub(crate) fn header() -> Header {
    Header {
        memtrack_version: "0.1.0".into(),
        architecture: Architecture::X86_64,
        page_bytes: 4096,
        start_monotonic_ns: 1_000_000_000,
        start_wall_ns: 1_700_000_000_000_000_000,
        kernel: "6.1.0 #1 SMP".into(),
        command: vec![
            ByteString(b"./server".to_vec()),
            ByteString(b"\xff".to_vec()),
        ],
        environment_names: vec![ByteString(b"PATH".to_vec())],
        working_directory: ByteString(b"/srv".to_vec()),
        options: vec!["stacks=raw".into()],
        backend: "bpf".into(),
    }
}

/// A malloc by thread 100 of process 100.
pub(crate) fn malloc(time_ns: u64, address: u64, size: u64, stack: u32) -> Event {
    Event {
        kind: EventKind::Malloc,
        flags: EventFlags::default(),
        start_ns: time_ns - 500,
        time_ns,
        pid: Pid(100),
        tid: Tid(100),
        address,
        size,
        old_address: 0,
        alignment: 0,
        stack: Some(StackId(stack)),
    }
}

/// The free of a block.
pub(crate) fn free(time_ns: u64, address: u64) -> Event {
    Event {
        kind: EventKind::Free,
        start_ns: time_ns,
        size: 0,
        stack: None,
        ..malloc(time_ns, address, 0, 0)
    }
}

/// How a test run ended.
pub(crate) fn ending() -> Ending {
    Ending {
        end_monotonic_ns: 2_000_000_000,
        status: Some(ExitStatus::Code(3)),
        root_pid: Some(Pid(100)),
        null_frees: 7,
    }
}

/// Losses with something in every field.
pub(crate) fn losses() -> Losses {
    let mut losses = Losses::default();
    losses.add(LossReason::EventRingFull, 12, 1_500_000_000);
    losses.pauses.push(Pause {
        pid: Pid(100),
        reason: PauseReason::Pressure,
        start_ns: 1_200_000_000,
        end_ns: 1_200_100_000,
    });
    losses.notes.push("a remark".into());
    losses
}

/// An executable mapping of [`module`].
pub(crate) fn mapping() -> Mapping {
    Mapping {
        start: Avma(0x5555_0000_0000),
        len: 0x2000,
        file_offset: FileOffset(0x1000),
        protection: 5,
        file: FileIdentity {
            device: (8, 1),
            inode: 42,
            generation: 1,
            build_id: Some(BuildId(vec![0xab; 20])),
        },
        path: b"/srv/server".to_vec(),
    }
}

/// A keyed module with two sections.
pub(crate) fn module() -> Module {
    let section = |name: &str| SectionInfo {
        name: name.into(),
        kind: 1,
        flags: 2,
        address: Svma(0x3000),
        file_offset: FileOffset(0x3000),
        len: 0,
        entry_bytes: 0,
        link: None,
    };
    Module {
        id: ModuleId(0),
        key: ModuleKey::BuildId(BuildId(vec![0xab; 20])),
        mapped_as: vec![MappedFile {
            path: mapping().path,
            file: mapping().file,
        }],
        machine: 62,
        elf_type: 3,
        file_bytes: 123_456,
        segments: vec![Segment {
            kind: 1,
            flags: 5,
            file_offset: FileOffset(0x1000),
            address: Svma(0x1000),
            file_bytes: 0x2000,
            memory_bytes: 0x2000,
        }],
        sections: vec![section(".eh_frame"), section(".empty")],
        debug_files: Vec::new(),
        notes: vec!["no .debug_info".into()],
    }
}

/// The bytes of [`module`]'s first section.
pub(crate) fn eh_frame() -> Vec<u8> {
    (0..5000u32)
        .flat_map(|word| (word / 7).to_le_bytes())
        .collect()
}

/// A small artifact with chunks of every kind, in several flushes. The same
/// bytes at every call.
pub(crate) fn small() -> Vec<u8> {
    small_parts(3)
}

/// The same with a number of flushes.
pub(crate) fn small_parts(flushes: u64) -> Vec<u8> {
    let mut writer = ArtifactWriter::new(Vec::new(), &header()).unwrap();
    let window: Vec<u8> = (0..600u32).flat_map(u32::to_le_bytes).collect();
    let registers: Vec<u64> = (0..17).map(|register| 0x1000 * register).collect();
    for part in 0..flushes {
        for step in 0..40 {
            let time = 1_000_000_000 + part * 100_000 + step * 2_000;
            let address = 0x5555_5555_0000 + step * 0x40;
            writer
                .event(&malloc(time, address, 24 + step, step as u32 % 5))
                .unwrap();
            if step % 2 == 0 {
                writer.event(&free(time + 900, address)).unwrap();
            }
        }
        writer
            .stack(&StackRecord {
                id: StackId(part as u32),
                pid: Pid(100),
                tid: Tid(100),
                time_ns: 1_000_000_000 + part,
                form: StackForm::Raw,
                registers: &registers,
                stack_pointer: Avma(0x7fff_ffff_0000),
                window: &window,
                available_bytes: 9000,
                frame_pointer_chain: &[0x5555_0000_1234, 0x5555_0000_1000 + part],
            })
            .unwrap();
        writer
            .module_record(&ModuleRecord {
                time_ns: 1_000_000_000 - part,
                pid: Pid(100),
                tid: Tid(100),
                event: ModuleEvent::Map(mapping()),
            })
            .unwrap();
        writer.flush().unwrap();
    }
    writer.module(module(), &[&eh_frame(), &[]]).unwrap();
    writer
        .refused(&RefusedModule {
            mapped_as: MappedFile {
                path: b"/srv/libgone.so".to_vec(),
                file: FileIdentity::default(),
            },
            reason: "changed since it was mapped".into(),
        })
        .unwrap();
    writer.finish(&losses(), &ending()).unwrap().0
}

/// A symbol file's content with every kind of row.
pub(crate) fn symbols() -> Symbols {
    let frame = |function: Option<u32>, address, inline| Frame {
        function: function.map(StringId),
        file: Some(StringId(2)),
        line: 17,
        module: Some(ModuleId(0)),
        address: Svma(address),
        module_name: Some(StringId(1)),
        inline,
        signal: !inline,
        frame_pointer: false,
        source: NameSource::Dwarf,
    };
    Symbols {
        artifact_fingerprint: 0x1234_5678_9abc_def0,
        strings: ["main", "server", "src/main.c", ""]
            .map(String::from)
            .into(),
        frames: vec![frame(Some(0), 0x1234, true), frame(None, 0x1000, false)],
        stack_frames: vec![FrameId(0), FrameId(1), FrameId(1)],
        stacks: vec![
            SymbolizedStack {
                start: 0,
                len: 2,
                termination: Termination::Root,
            },
            SymbolizedStack {
                start: 2,
                len: 1,
                termination: Termination::CopyTooShort { needed_bytes: 64 },
            },
        ],
        audits: vec![ModuleAudit {
            asked: 2,
            named: 1,
            with_lines: 2,
            with_inlines: 1,
            notes: vec!["fetch the debug file".into()],
        }],
    }
}
