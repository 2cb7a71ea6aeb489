//! Unwinding and naming real stacks, recorded when the bench starts: python3
//! (with debug information where it has some) and a C compiler. `framehop` is
//! the same work by another unwinder, without decompressing the artifact.
//!
//! ```sh
//! cargo bench -p memtrack-symbolize
//! ```
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../tests/recording/mod.rs"]
mod recording;

use divan::{Bencher, counter::ItemsCount};
use memtrack_artifact::Artifact;
use memtrack_symbolize::stages;
use recording::{Plan, Recording, record};
use std::{process::Command, sync::LazyLock};

fn main() {
    divan::main();
}

struct Set {
    recording: Recording,
    artifact: Artifact,
}

fn set(mut command: Command, plan: Plan) -> Set {
    let folder = tempfile::tempdir().unwrap();
    command
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null());
    let recording = record(folder.path(), &mut command, plan);
    let artifact = recording.artifact();
    Set {
        recording,
        artifact,
    }
}

fn answer(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

static PYTHON: LazyLock<Set> = LazyLock::new(|| {
    let mut command = Command::new(answer(
        "python3",
        &["-c", "import sys; print(sys.executable)"],
    ));
    command.env("PYTHONMALLOC", "malloc").args([
        "-c",
        "import json; print(len(json.dumps([{'a': [i, str(i)]} for i in range(99999)])))",
    ]);
    let plan = Plan {
        skip: 20_000,
        every: 7,
        max: 20_000,
        bytes: 32_768,
    };
    set(command, plan)
});

static COMPILER: LazyLock<Set> = LazyLock::new(|| {
    let mut command = Command::new(answer("gcc", &["-print-prog-name=cc1"]));
    let input = std::env::temp_dir().join("memtrack-bench-input.c");
    std::fs::write(
        &input,
        "#include <stdio.h>\n#include <stdlib.h>\n#include <math.h>\n",
    )
    .unwrap();
    command
        .args(["-quiet", "-O2", "-imultiarch", "x86_64-linux-gnu"])
        .arg(input)
        .args(["-o", "/dev/null"]);
    let plan = Plan {
        max: 20_000,
        bytes: 32_768,
        ..Plan::default()
    };
    set(command, plan)
});

fn pick(name: &str) -> &'static Set {
    match name {
        "python" => &PYTHON,
        _ => &COMPILER,
    }
}

const SETS: [&str; 2] = ["python", "compiler"];

/// Decoding the stacks alone: what the walk cannot be faster than.
#[divan::bench(args = SETS)]
fn decode(bencher: Bencher<'_, '_>, name: &str) {
    let set = pick(name);
    bencher
        .counter(ItemsCount::new(set.recording.stacks.len()))
        .bench_local(|| {
            let chunks = set.artifact.stack_chunks();
            let batches = chunks.iter().map(|chunk| chunk.decode().unwrap());
            batches.map(|batch| batch.iter().count()).sum::<usize>()
        });
}

/// Decoding and walking, one thread, unwind tables built each time.
#[divan::bench(args = SETS)]
fn unwind(bencher: Bencher<'_, '_>, name: &str) {
    let set = pick(name);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    bencher
        .counter(ItemsCount::new(set.recording.stacks.len()))
        .bench_local(|| {
            pool.install(|| stages::unwind(&set.artifact, false).unwrap().frame_count())
        });
}

/// Walking alone, one thread, decoded before, unwind tables built before.
#[divan::bench(args = SETS)]
fn walk(bencher: Bencher<'_, '_>, name: &str) {
    let set = pick(name);
    let decoded = stages::Decoded::new(&set.artifact).unwrap();
    decoded.walk();
    bencher
        .counter(ItemsCount::new(set.recording.stacks.len()))
        .bench_local(|| decoded.walk());
}

/// Walking by framehop, one thread, windows not compressed.
#[divan::bench(args = SETS)]
fn framehop(bencher: Bencher<'_, '_>, name: &str) {
    let set = pick(name);
    let mut peer = recording::peer::Peer::new(&set.recording);
    let mut out = Vec::new();
    bencher
        .counter(ItemsCount::new(set.recording.stacks.len()))
        .bench_local(|| {
            let stacks = set.recording.stacks.iter();
            stacks
                .map(|stack| {
                    peer.walk(stack, &mut out);
                    out.len()
                })
                .sum::<usize>()
        });
}

/// Naming each distinct address, one thread, sections read each time.
#[divan::bench(args = SETS)]
fn name(bencher: Bencher<'_, '_>, name: &str) {
    let set = pick(name);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let walked = stages::unwind(&set.artifact, false).unwrap();
    let requests = stages::requests(&set.artifact, &walked);
    let addresses = stages::name(&set.artifact, &requests);
    bencher
        .counter(ItemsCount::new(addresses))
        .bench_local(|| pool.install(|| stages::name(&set.artifact, &requests)));
}

/// Building the unwind table of the largest module: rows.
#[divan::bench(args = SETS)]
fn compile(bencher: Bencher<'_, '_>, name: &str) {
    let set = pick(name);
    let largest = set
        .artifact
        .modules()
        .iter()
        .max_by_key(|module| {
            let sections = module.sections.iter();
            sections
                .filter(|section| section.name == ".eh_frame")
                .map(|section| section.len)
                .sum::<u64>()
        })
        .unwrap();
    let rows = stages::compile(&set.artifact, largest);
    bencher
        .counter(ItemsCount::new(rows))
        .bench_local(|| stages::compile(&set.artifact, largest));
}
