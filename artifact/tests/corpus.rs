//! Runs the fuzz functions over the stored corpus, and over files whose
//! checksums are right but whose payloads are changed at random.
//!
//! ```text
//! cargo test -p memtrack-artifact --test corpus -- --ignored
//! ```
//!
//! writes the corpus' own files anew. A fuzzer's finds are added by hand.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    forge::{self, Chunk},
    fuzz,
};
use memtrack_artifact::write_symbols;
use proptest::prelude::*;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn corpus(name: &str) -> PathBuf {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    testdata.join("corpus").join(name)
}

fn run_over(name: &str, function: fn(&[u8])) {
    let mut count = 0;
    for entry in fs::read_dir(corpus(name)).unwrap() {
        let path = entry.unwrap().path();
        eprintln!("{}", path.display());
        function(&fs::read(path).unwrap());
        count += 1;
    }
    assert!(count > 3, "the corpus of {name} is gone");
}

#[test]
fn no_artifact_of_the_corpus_panics() {
    run_over("artifact", fuzz::artifact);
}

#[test]
fn no_symbol_file_of_the_corpus_panics() {
    run_over("symbols", fuzz::symbols);
}

const ARTIFACT: &[u8] = b"\x8fMTK\r\n\x1a\n";
const SYMBOLS: &[u8] = b"\x8fMTS\r\n\x1a\n";

/// Changes to one chunk: which, where in it, to what.
type Change = (prop::sample::Index, prop::sample::Index, u8, u8);

fn changed(bytes: &[u8], magic: &[u8], changes: &[Change]) -> Vec<u8> {
    let (salt, mut chunks) = forge::take_apart(bytes);
    for (which, at, how, with) in changes {
        let chunk = which.get(&chunks).clone();
        let which = which.index(chunks.len());
        let payload = &mut chunks[which].payload;
        if payload.is_empty() {
            continue;
        }
        // The beginnings hold the counts and lengths: prefer them.
        let end = if how % 2 == 0 {
            payload.len()
        } else {
            payload.len().min(64)
        };
        let at = at.index(end);
        match how / 2 % 6 {
            0 => payload[at] ^= 1 << (with % 8),
            1 => payload[at] = *with,
            2 => payload.truncate(at),
            3 => payload.insert(at, *with),
            4 => chunks[which].count = chunk.count.wrapping_add(u32::from(*with)),
            _ => chunks[which].kind = with % 40,
        }
    }
    forge::put_together(magic, salt, &chunks)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn changed_payloads_with_right_checksums_are_safe(
        changes in prop::collection::vec(any::<Change>(), 1..6),
    ) {
        fuzz::artifact(&changed(&common::small_parts(1), ARTIFACT, &changes));
        let symbols = write_symbols(Vec::new(), &common::symbols()).unwrap();
        fuzz::symbols(&changed(&symbols, SYMBOLS, &changes));
    }
}

#[test]
#[ignore = "writes the corpus"]
fn write_corpus() {
    let bytes = common::small_parts(1);
    let (salt, chunks) = forge::take_apart(&bytes);
    let with = |change: &dyn Fn(&mut Vec<Chunk>)| {
        let mut chunks = chunks.clone();
        change(&mut chunks);
        forge::put_together(ARTIFACT, salt, &chunks)
    };
    let position = |kind| chunks.iter().position(|chunk| chunk.kind == kind).unwrap();
    let (events, stacks, module) = (position(2), position(3), position(5));
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("cut-in-preamble", bytes[..20].to_vec()),
        ("cut-in-chunk", bytes[..bytes.len() / 2].to_vec()),
        ("without-footer", with(&|chunks| drop(chunks.pop()))),
        ("without-header", with(&|chunks| drop(chunks.remove(0)))),
        ("kind-unknown", with(&|chunks| chunks[events].kind = 77)),
        // Fewer events than the columns have, and more than a chunk may have.
        ("events-fewer", with(&|chunks| chunks[events].count -= 1)),
        (
            "events-absurd",
            with(&|chunks| chunks[events].count = u32::MAX),
        ),
        (
            "shapes-absurd",
            with(&|chunks| chunks[events].payload[1] = 0xff),
        ),
        (
            "columns-absurd",
            with(&|chunks| chunks[events].payload[3] = 0xff),
        ),
        (
            "mask-of-all-ones",
            with(&|chunks| chunks[events].payload[6] = 0xff),
        ),
        (
            "stacks-absurd",
            with(&|chunks| chunks[stacks].count = u32::MAX),
        ),
        (
            "stacks-cut",
            with(&|chunks| chunks[stacks].payload.truncate(100)),
        ),
        (
            "module-id-absurd",
            with(&|chunks| chunks[module].first = u64::MAX),
        ),
        (
            "module-id-hole",
            with(&|chunks| chunks[module].first = 60_000),
        ),
        (
            "section-longer-than-its-parts",
            with(&|chunks| chunks.retain(|chunk| chunk.kind != 6)),
        ),
    ];
    for (name, bytes) in files {
        fs::write(corpus("artifact").join(name), bytes).unwrap();
    }
    let bytes = write_symbols(Vec::new(), &common::symbols()).unwrap();
    let (salt, chunks) = forge::take_apart(&bytes);
    let with = |change: &dyn Fn(&mut Vec<Chunk>)| {
        let mut chunks = chunks.clone();
        change(&mut chunks);
        forge::put_together(SYMBOLS, salt, &chunks)
    };
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("cut", bytes[..bytes.len() / 2].to_vec()),
        (
            "without-strings",
            with(&|chunks| chunks.retain(|chunk| chunk.kind != 33)),
        ),
        ("without-totals", with(&|chunks| drop(chunks.remove(0)))),
        ("frames-absurd", with(&|chunks| chunks[2].count = u32::MAX)),
        (
            "strings-not-utf8",
            with(&|chunks| {
                *chunks[1].payload.last_mut().unwrap() = 0xff;
            }),
        ),
    ];
    for (name, bytes) in files {
        fs::write(corpus("symbols").join(name), bytes).unwrap();
    }
}
