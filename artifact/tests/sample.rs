//! The stored samples of format version 1, which must be read for ever.
//!
//! ```text
//! cargo test -p memtrack-artifact --test sample -- --ignored
//! ```
//!
//! writes them anew. Do so only before a version is released.

#![allow(clippy::unwrap_used)]

mod common;

use memtrack_artifact::{
    Artifact, ArtifactWriter, Event, EventFlags, EventKind, StackId, Symbols, Tid, read_symbols,
    write_symbols,
};
use std::{fmt::Write, fs, path::PathBuf};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testdata/artifact")
}

/// One event of each kind, then some that refer back to each other.
fn events() -> Vec<Event> {
    let mut events = Vec::new();
    for byte in 0..=255u8 {
        let Some(kind) = EventKind::from_byte(byte) else {
            continue;
        };
        let step = events.len() as u64;
        events.push(Event {
            kind,
            flags: EventFlags(byte % 3),
            tid: Tid(100 + byte as u32 % 2),
            old_address: if kind == EventKind::Realloc {
                0x5555_0000_0040
            } else {
                0
            },
            alignment: if byte == 4 { 64 } else { 0 },
            stack: kind.is_allocation().then_some(StackId(step as u32)),
            ..common::malloc(
                1_000_000_000 + step * 1_000,
                0x5555_0000_0010 + step * 32,
                24 * step,
                0,
            )
        });
    }
    events.push(common::malloc(u64::MAX, u64::MAX, u64::MAX, u32::MAX));
    for step in 0..20 {
        let address = 0x7fff_0000_0010 + step % 3 * 16;
        events.push(common::malloc(1_000_100_000 + step * 700, address, 16, 2));
        events.push(common::free(1_000_100_300 + step * 700, address));
    }
    events
}

fn artifact() -> Vec<u8> {
    // The other chunks of the small test artifact, and these events.
    let (salt, mut chunks) = common::forge::take_apart(&common::small_parts(1));
    let mut writer = ArtifactWriter::new(Vec::new(), &common::header()).unwrap();
    for event in events() {
        writer.event(&event).unwrap();
    }
    let own = writer
        .finish(&common::losses(), &common::ending())
        .unwrap()
        .0;
    let (_, own) = common::forge::take_apart(&own);
    let events = chunks.iter().position(|chunk| chunk.kind == 2).unwrap();
    chunks[events] = own.into_iter().find(|chunk| chunk.kind == 2).unwrap();
    // The footer counts the events that were replaced.
    let footer = chunks.pop().unwrap();
    #[derive(serde::Serialize)]
    struct Footer {
        chunks: usize,
        kinds: std::collections::BTreeMap<u8, (u64, u64)>,
    }
    let mut kinds = std::collections::BTreeMap::<u8, (u64, u64)>::new();
    for chunk in &chunks {
        let counts = kinds.entry(chunk.kind).or_default();
        counts.0 += 1;
        counts.1 += u64::from(chunk.count);
    }
    chunks.push(common::forge::Chunk {
        payload: common::forge::record(&Footer {
            chunks: chunks.len(),
            kinds,
        }),
        ..footer
    });
    common::forge::put_together(b"\x8fMTK\r\n\x1a\n", salt, &chunks)
}

/// Everything that an artifact holds, as text.
fn describe(artifact: &Artifact) -> String {
    let mut text = String::new();
    let out = &mut text;
    writeln!(out, "{:#?}", artifact.header()).unwrap();
    writeln!(out, "{:#?}", artifact.completeness()).unwrap();
    writeln!(out, "{:#?}", artifact.ending()).unwrap();
    writeln!(out, "{:#?}", artifact.losses()).unwrap();
    writeln!(out, "{:#?}", artifact.modules()).unwrap();
    writeln!(out, "{:#?}", artifact.refused_modules()).unwrap();
    writeln!(out, "{:#?}", artifact.module_records()).unwrap();
    for module in artifact.modules() {
        for section in &module.sections {
            let bytes = artifact.section(module.id, &section.name).unwrap().unwrap();
            let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
            writeln!(out, "{}: {} bytes, sum {sum}", section.name, bytes.len()).unwrap();
        }
    }
    for chunk in artifact.event_chunks() {
        for event in chunk.decode().unwrap().iter() {
            writeln!(out, "{event:?}").unwrap();
        }
    }
    for chunk in artifact.stack_chunks() {
        for stack in chunk.decode().unwrap().iter() {
            let window = stack.window;
            let sum: u64 = window.iter().map(|&byte| u64::from(byte)).sum();
            let shown = memtrack_artifact::StackRecord {
                window: &[],
                ..stack
            };
            writeln!(out, "{shown:?}").unwrap();
            writeln!(out, "window: {} bytes, sum {sum}", window.len()).unwrap();
        }
    }
    writeln!(out, "fingerprint {:x}", artifact.fingerprint()).unwrap();
    text
}

#[test]
fn the_artifact_of_version_1_is_read_as_ever() {
    let artifact = Artifact::open(&folder().join("v1-small.mtk")).unwrap();
    let expected = fs::read_to_string(folder().join("v1-small.mtk.txt")).unwrap();
    assert_eq!(describe(&artifact), expected);
    let decoded: Vec<Event> = artifact.event_chunks()[0]
        .decode()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(decoded, events());
}

#[test]
fn the_symbol_file_of_version_1_is_read_as_ever() {
    let symbols: Symbols = read_symbols(&folder().join("v1-small.mts")).unwrap();
    assert_eq!(symbols, common::symbols());
}

#[test]
#[ignore = "writes the samples"]
fn write_samples() {
    let bytes = artifact();
    fs::create_dir_all(folder()).unwrap();
    fs::write(folder().join("v1-small.mtk"), &bytes).unwrap();
    let artifact = Artifact::from_bytes("v1-small.mtk", bytes).unwrap();
    assert!(artifact.completeness().is_whole(), "{artifact:?}");
    fs::write(folder().join("v1-small.mtk.txt"), describe(&artifact)).unwrap();
    let bytes = write_symbols(Vec::new(), &common::symbols()).unwrap();
    fs::write(folder().join("v1-small.mts"), bytes).unwrap();
}
