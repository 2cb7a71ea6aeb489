//! Damaged files: they open and say what is missing, or fail with an error
//! that names the place. They never panic and never take much memory.

#![allow(clippy::unwrap_used)]

mod common;

use memtrack_artifact::{Artifact, Error};
use proptest::prelude::*;

/// Reads everything that can be read.
fn read_all(artifact: &Artifact) -> (usize, usize) {
    let mut events = 0;
    for chunk in artifact.event_chunks() {
        events += chunk.decode().unwrap().iter().count();
    }
    let mut stacks = 0;
    for chunk in artifact.stack_chunks() {
        stacks += chunk.decode().unwrap().iter().count();
    }
    for module in artifact.modules() {
        for section in &module.sections {
            // A lost part is an error that names it.
            let _ = artifact.section(module.id, &section.name);
        }
    }
    artifact.part_sizes();
    (events, stacks)
}

/// Opens changed bytes, which must be noticed.
fn open_changed(what: &str, bytes: Vec<u8>) -> Option<Artifact> {
    match Artifact::from_bytes("t", bytes) {
        Ok(artifact) => {
            assert!(!artifact.completeness().is_whole(), "{what} is not noticed");
            read_all(&artifact);
            Some(artifact)
        }
        Err(Error::NotOurs { .. } | Error::UnsupportedVersion { .. }) => None,
        Err(error @ Error::Malformed { .. }) => {
            assert!(error.to_string().contains("at byte"), "{error}");
            None
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Where chunks begin: offset and length of each.
fn chunks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut chunks = Vec::new();
    let mut offset = 24;
    while offset < bytes.len() {
        let stored = u32::from_le_bytes(bytes[offset + 16..offset + 20].try_into().unwrap());
        let len = 56 + stored as usize;
        chunks.push((offset, len));
        offset += len;
    }
    assert_eq!(offset, bytes.len());
    chunks
}

#[test]
fn every_cut_is_noticed() {
    let bytes = common::small();
    let borders = chunks(&bytes);
    let (events, stacks) = read_all(&Artifact::from_bytes("t", bytes.clone()).unwrap());
    let mut best = (0, 0);
    for len in 0..bytes.len() {
        let opened = open_changed(&format!("a cut at {len}"), bytes[..len].to_vec());
        let first = borders[0];
        assert_eq!(opened.is_some(), len >= first.0 + first.1, "{len}");
        let Some(artifact) = opened else { continue };
        let completeness = artifact.completeness();
        assert!(!completeness.finished);
        let inside = borders
            .iter()
            .find(|(offset, chunk)| len > *offset && len < offset + chunk);
        assert_eq!(completeness.cut_at, inside.map(|border| border.0 as u64));
        assert_eq!(completeness.damage, []);
        // Nothing that was there with less of the file is gone with more.
        let now = read_all(&artifact);
        assert!(now >= best, "{len}");
        best = now;
    }
    assert_eq!(best, (events, stacks));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = common::small_parts(1);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        open_changed(&format!("a flip at {at}"), changed);
    }
}

#[test]
fn a_damaged_chunk_costs_no_other() {
    let bytes = common::small();
    let (events, _) = read_all(&Artifact::from_bytes("t", bytes.clone()).unwrap());
    for (number, &(offset, len)) in chunks(&bytes).iter().enumerate().skip(1) {
        for at in [
            offset,
            offset + 20,
            offset + 50,
            offset + 56,
            offset + len - 1,
        ] {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            let artifact = open_changed("a flip", changed).unwrap();
            let damage = &artifact.completeness().damage;
            assert!(damage.len() <= 3, "{damage:?}");
            assert_eq!(damage[0].offset, offset as u64, "{damage:?}");
            let left = read_all(&artifact).0;
            assert!(
                left == events || left == events * 2 / 3,
                "chunk {number}: {left}"
            );
        }
    }
}

#[test]
fn dropped_doubled_and_swapped_chunks_are_noticed() {
    let bytes = common::small();
    let whole = read_all(&Artifact::from_bytes("t", bytes.clone()).unwrap());
    let borders = chunks(&bytes);
    for (number, &(offset, len)) in borders.iter().enumerate() {
        let (before, after) = (&bytes[..offset], &bytes[offset + len..]);
        let chunk = &bytes[offset..offset + len];
        let dropped = open_changed("a drop", [before, after].concat());
        assert_eq!(dropped.is_some(), number != 0);
        let doubled = open_changed("a double", [before, chunk, chunk, after].concat()).unwrap();
        assert_eq!(read_all(&doubled), whole);
        let Some(&(next, next_len)) = borders.get(number + 1) else {
            continue;
        };
        let (next, rest) = (&bytes[next..next + next_len], &after[next_len..]);
        let swapped = open_changed("a swap", [before, next, chunk, rest].concat()).unwrap();
        assert_eq!(read_all(&swapped), whole);
    }
}

#[test]
fn what_follows_the_end_is_noticed() {
    let bytes = common::small();
    for tail in [&[0u8; 4096][..], b"this is no part of it\n", b"M"] {
        let artifact = open_changed("a tail", [&bytes, tail].concat()).unwrap();
        assert!(artifact.completeness().finished);
    }
    let twice = open_changed("twice", [&bytes[..], &bytes[..]].concat()).unwrap();
    let whole = Artifact::from_bytes("t", bytes).unwrap();
    assert_eq!(read_all(&twice), read_all(&whole));
}

#[test]
fn a_chunk_of_another_file_is_not_taken() {
    let bytes = common::small();
    let mut other_header = common::header();
    other_header.start_wall_ns += 1;
    let mut writer = memtrack_artifact::ArtifactWriter::new(Vec::new(), &other_header).unwrap();
    writer.event(&common::malloc(1_000_000, 16, 1, 0)).unwrap();
    let other = writer
        .finish(&common::losses(), &common::ending())
        .unwrap()
        .0;
    let (offset, len) = chunks(&other)[1];
    let end = chunks(&bytes)[1].0;
    let spliced = [&bytes[..end], &other[offset..offset + len], &bytes[end..]].concat();
    let artifact = open_changed("a splice", spliced).unwrap();
    assert_eq!(
        read_all(&artifact),
        read_all(&Artifact::from_bytes("t", bytes).unwrap())
    );
}

#[test]
fn a_changed_version_is_damage_not_a_newer_version() {
    let mut bytes = common::small();
    bytes[8] = 2;
    let error = Artifact::from_bytes("f.mtk", bytes)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("f.mtk: ") && error.contains("checksum"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_damage_is_noticed(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..20),
    ) {
        let bytes = common::small();
        let mut changed = bytes.clone();
        for (at, bit) in flips {
            changed[at.index(bytes.len())] ^= 1u8 << bit;
        }
        if changed != bytes {
            open_changed("random flips", changed);
        }
    }

    #[test]
    fn any_bytes_are_safe(bytes: Vec<u8>) {
        prop_assert!(Artifact::from_bytes("t", bytes).is_err());
    }
}
