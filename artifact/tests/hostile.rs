//! Files made to do harm, with right checksums: they are refused or read in
//! part, in bounded memory.
//!
//! The tests of this file run one after another, since they measure the peak
//! of the whole process.

#![allow(clippy::unwrap_used)]

mod common;

use common::forge::{self, Chunk};
use memtrack_artifact::{
    Artifact, Avma, Event, FileIdentity, FileOffset, Mapping, ModuleEvent, ModuleRecord, Pid, Tid,
};
use peak_alloc::PeakAlloc;
use std::{io::BufWriter, sync::Mutex};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

static ALONE: Mutex<()> = Mutex::new(());

/// What no file may exceed, beyond what its caller holds.
const LIMIT_MIB: usize = 256;

const EVENTS: u8 = 2;
const STACKS: u8 = 3;
const MODULE_RECORDS: u8 = 4;
const MODULE: u8 = 5;
const SECTION: u8 = 6;
const LOSSES: u8 = 8;

/// Opens a file of these chunks and reads everything, in bounded memory.
/// Gives what is noted as damaged, and what decoding says.
fn read_bounded<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> Vec<String> {
    let alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let file = tempfile::NamedTempFile::new().unwrap();
    forge::write_file(BufWriter::new(file.as_file()), chunks);
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let mut said = Vec::new();
    match Artifact::open(file.path()) {
        Err(error) => said.push(error.to_string()),
        Ok(artifact) => {
            let damage = &artifact.completeness().damage;
            said.extend(damage.iter().map(|damage| damage.what.clone()));
            let mut errors = Vec::new();
            let mut keep = |error: memtrack_artifact::Error| {
                if errors.len() < 100 {
                    errors.push(error.to_string());
                }
            };
            for chunk in artifact.event_chunks() {
                chunk.decode().map_or_else(&mut keep, |_| ());
            }
            for chunk in artifact.stack_chunks() {
                chunk.decode().map_or_else(&mut keep, |_| ());
            }
            for module in artifact.modules() {
                for section in &module.sections {
                    let bytes = artifact.section(module.id, &section.name);
                    bytes.map_or_else(&mut keep, |_| ());
                }
            }
            said.extend(errors);
        }
    }
    let peak = (ALLOCATOR.peak_usage() - before) >> 20;
    assert!(peak < LIMIT_MIB, "{peak} MiB");
    drop(alone);
    said
}

fn says(said: &[String], what: &str) {
    assert!(said.iter().any(|said| said.contains(what)), "{said:?}");
}

#[test]
fn millions_of_tiny_chunks() {
    // One shape, one event, no columns: enough to be counted when opened.
    let payload = [&[1, 0, 0, 0, 1, 0, 0, 0][..], &1u32.to_le_bytes()].concat();
    let tiny = Chunk::stored(EVENTS, 1, payload);
    let said = read_bounded((0..2_200_000).map(|_| &tiny));
    says(&said, "the rest is not read");
}

#[test]
fn headers_that_overlap_their_payloads() {
    // Each header claims the following 16 MiB; no payload is right.
    let liar = Chunk::stored(EVENTS, 1, Vec::new());
    let mut bytes = forge::file([]);
    for sequence in 1..300_000u32 {
        let mut header = forge::chunk(77, sequence, &liar);
        header[16..20].copy_from_slice(&(16u32 << 20).to_le_bytes());
        let check = twox_hash::XxHash3_64::oneshot_with_seed(77, &header[..48]);
        header[48..56].copy_from_slice(&check.to_le_bytes());
        // One byte between them, so that no header follows another.
        header.push(0);
        bytes.extend_from_slice(&header);
    }
    let artifact = Artifact::from_bytes("t", bytes).unwrap();
    let damage = &artifact.completeness().damage;
    assert!((1000..1010).contains(&damage.len()), "{}", damage.len());
}

#[test]
fn absurd_lengths() {
    let long = Chunk {
        raw_bytes: u32::MAX,
        ..Chunk::packed(STACKS, 1, &[0; 100])
    };
    let short = Chunk {
        raw_bytes: 1,
        ..Chunk::packed(STACKS, 1, &[0; 1 << 20])
    };
    let many = Chunk::stored(EVENTS, u32::MAX, vec![0; 100]);
    let said = read_bounded([&long, &short, &many]);
    says(&said, "longer than the format allows");
    says(&said, "zstd data are broken");
    says(&said, "4294967295 events in one chunk are too many");
}

#[test]
fn module_records_that_unpack_to_gigabytes() {
    let record = ModuleRecord {
        time_ns: 0,
        pid: Pid(1),
        tid: Tid(1),
        event: ModuleEvent::Map(Mapping {
            start: Avma(0),
            len: 0,
            file_offset: FileOffset(0),
            protection: 0,
            file: FileIdentity::default(),
            path: vec![0; 500_000],
        }),
    };
    let raw = forge::record(&record).repeat(30);
    let bomb = Chunk::packed(MODULE_RECORDS, 30, &raw);
    assert!(bomb.payload.len() < 20_000);
    let said = read_bounded((0..300).map(|_| &bomb));
    says(&said, "more memory than is allowed");
}

#[test]
fn descriptions_that_unpack_to_many_empty_strings() {
    let mut module = common::module();
    module.notes = vec![String::new(); 500_000];
    let module = Chunk::packed(MODULE, 1, &forge::record(&module));
    let modules: Vec<Chunk> = (0..200)
        .map(|id| Chunk {
            first: id,
            ..module.clone()
        })
        .collect();
    let far = Chunk {
        first: u64::MAX,
        ..module
    };
    let said = read_bounded(modules.iter().chain([&far]));
    says(&said, "more memory than is allowed");
    says(&said, "is too large");
}

#[test]
fn records_longer_than_the_format_allows() {
    let long = u32::MAX.to_le_bytes();
    let chunks: Vec<Chunk> = [MODULE_RECORDS, MODULE, 7, LOSSES, 9, 10]
        .map(|kind| Chunk::stored(kind, 1, long.to_vec()))
        .into();
    let said = read_bounded(&chunks);
    assert_eq!(said.len(), 6, "{said:?}");
    says(&said, "too long");
}

#[test]
fn sections_that_unpack_to_gigabytes() {
    let mut module = common::module();
    module.sections[0].len = 2000 * (4 << 20);
    module.sections[1].len = u64::MAX;
    let mut chunks = vec![Chunk::packed(MODULE, 1, &forge::record(&module))];
    let part = Chunk::packed(SECTION, 1, &vec![0; 4 << 20]);
    chunks.extend((0..2000u64).map(|number| Chunk {
        last: number * (4 << 20),
        ..part.clone()
    }));
    let said = read_bounded(&chunks);
    says(&said, "section .eh_frame of module 0");
    says(&said, "section .empty of module 0");
}

#[test]
fn stacks_with_millions_of_empty_registers() {
    // 11 empty streams would be noticed; the twelfth has 32 million values of
    // length 0, half a byte each.
    let mut raw = [0u8; 8 * 10].to_vec();
    raw.extend_from_slice(&30_000_000u32.to_le_bytes());
    raw.extend_from_slice(&0u32.to_le_bytes());
    raw.resize(raw.len() + 15_000_000, 0);
    raw.extend_from_slice(&[0; 8]);
    let said = read_bounded([&Chunk::packed(STACKS, 0, &raw)]);
    says(&said, "30000000 registers in one chunk");
}

#[test]
fn losses_with_millions_of_pauses() {
    let mut raw = forge::record(&std::collections::BTreeMap::from([
        ("counts", Vec::<u8>::new()),
        ("notes", Vec::new()),
    ]));
    // An empty list is no map: the table itself is broken first.
    let said = read_bounded([&Chunk::packed(LOSSES, 1, &raw)]);
    says(&said, "a record is broken");
    #[derive(serde::Serialize)]
    struct Table {
        counts: std::collections::BTreeMap<String, u64>,
        notes: Vec<String>,
    }
    raw = forge::record(&Table {
        counts: Default::default(),
        notes: Vec::new(),
    });
    raw.extend_from_slice(&20_000_000u32.to_le_bytes());
    raw.extend_from_slice(&0u32.to_le_bytes());
    raw.resize(raw.len() + 10_000_000, 0);
    let said = read_bounded([&Chunk::packed(LOSSES, 1, &raw)]);
    says(&said, "20000000 pauses are too many");
}

#[test]
fn what_a_newer_memtrack_writes_is_skipped_and_said() {
    let newer_chunk = Chunk::stored(200, 3, b"whatever".to_vec());
    let said = read_bounded([&newer_chunk]);
    says(&said, "kind 200");
    says(&said, "newer memtrack");

    // An artifact's own chunk of events, with one shape's kind changed.
    let bytes = common::small_parts(1);
    let artifact = Artifact::from_bytes("t", bytes.clone()).unwrap();
    let events: Vec<Event> = artifact.event_chunks()[0]
        .decode()
        .unwrap()
        .iter()
        .collect();
    let offset = {
        let header = u32::from_le_bytes(bytes[24 + 16..24 + 20].try_into().unwrap());
        24 + 56 + header as usize
    };
    let stored = u32::from_le_bytes(bytes[offset + 16..offset + 20].try_into().unwrap());
    let mut payload = bytes[offset + 56..offset + 56 + stored as usize].to_vec();
    let freed = payload[4..]
        .iter()
        .step_by(8)
        .position(|&kind| kind == 16)
        .unwrap();
    payload[4 + 8 * freed] = 99;
    let chunk = Chunk::stored(EVENTS, events.len() as u32, payload);
    let said = read_bounded([&chunk]);
    says(&said, "events of a newer memtrack");
    let artifact = Artifact::from_bytes("t", forge::file([&chunk])).unwrap();
    let left: Vec<Event> = artifact.event_chunks()[0]
        .decode()
        .unwrap()
        .iter()
        .collect();
    let known: Vec<Event> = events
        .iter()
        .filter(|event| event.kind != memtrack_artifact::EventKind::Free)
        .copied()
        .collect();
    assert!(left.len() < events.len());
    assert!(left.len() >= known.len());
    assert!(known.iter().all(|event| left.contains(event)));
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let mut bytes = forge::preamble(2, 5);
    bytes.extend_from_slice(b"anything");
    let error = Artifact::from_bytes("f.mtk", bytes)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("f.mtk") && error.contains("version 2") && error.contains("newer memtrack"),
        "{error}"
    );
}
