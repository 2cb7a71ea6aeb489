//! Encoding and decoding of artifacts, on generated events and stacks.
//!
//! ```text
//! cargo bench -p memtrack-artifact
//! ```
//!
//! Items are events or stacks. "max alloc" of the encoders is the writer's
//! peak memory for a million events (or 20,000 stacks), without the 0.7 MB
//! that zstd takes by itself. Bytes per event are printed first.

mod synthetic;

use divan::{Bencher, black_box, counter::ItemsCount};
use memtrack_artifact::{
    Artifact, ArtifactWriter, Columns, Ending, Event, EventBatch, EventDecoder, Header, Losses,
};
use std::{io, sync::LazyLock};
use synthetic::Stack;

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

/// Events per run: peak memory is told per million.
const EVENTS: usize = 1_000_000;
/// Stacks per run: about 180 MB of windows.
const STACKS: usize = 20_000;

static ONE_THREAD: LazyLock<Vec<Event>> = LazyLock::new(|| synthetic::events(EVENTS, 1));
static EIGHT_THREADS: LazyLock<Vec<Event>> = LazyLock::new(|| synthetic::events(EVENTS, 8));
static RECORDED: LazyLock<Vec<Stack>> = LazyLock::new(|| synthetic::stacks(STACKS));
static ARTIFACT: LazyLock<Artifact> = LazyLock::new(|| open(write(Vec::new(), &ONE_THREAD, &[])));
static STACK_ARTIFACT: LazyLock<Artifact> =
    LazyLock::new(|| open(write(Vec::new(), &[], &RECORDED)));

fn main() {
    for (name, events) in [
        ("one thread", &ONE_THREAD),
        ("eight threads", &EIGHT_THREADS),
    ] {
        let artifact = open(write(Vec::new(), events, &[]));
        let bytes = part(&artifact, "events");
        println!(
            "{name}: {:.2} bytes per event",
            bytes as f64 / EVENTS as f64
        );
    }
    let windows: usize = RECORDED.iter().map(|stack| stack.window.len()).sum();
    println!(
        "stacks: {} bytes of window each, {} stored",
        windows / STACKS,
        part(&STACK_ARTIFACT, "stacks") as usize / STACKS
    );
    divan::main();
}

fn part(artifact: &Artifact, name: &str) -> u64 {
    let sizes = artifact.part_sizes();
    let part = sizes.parts.iter().find(|part| part.0 == name);
    part.map_or(0, |part| part.2)
}

fn write<W: io::Write>(sink: W, events: &[Event], stacks: &[Stack]) -> W {
    let header: Header = synthetic::header();
    let mut writer = ArtifactWriter::new(sink, &header).expect("a sink that takes everything");
    for event in events {
        writer.event(event).expect("a sink that takes everything");
    }
    for stack in stacks {
        writer
            .stack(&stack.record())
            .expect("a sink that takes everything");
    }
    let ending = Ending {
        end_monotonic_ns: 0,
        status: None,
        root_pid: None,
        null_frees: 0,
    };
    let finished = writer.finish(&Losses::default(), &ending);
    finished.expect("a sink that takes everything").0
}

fn open(bytes: Vec<u8>) -> Artifact {
    Artifact::from_bytes("generated", bytes).expect("what was just written")
}

#[divan::bench]
fn encode_one_thread(bencher: Bencher<'_, '_>) {
    let events = &ONE_THREAD[..];
    bencher
        .counter(ItemsCount::new(EVENTS))
        .bench(|| write(io::sink(), black_box(events), &[]));
}

#[divan::bench]
fn encode_eight_threads(bencher: Bencher<'_, '_>) {
    let events = &EIGHT_THREADS[..];
    bencher
        .counter(ItemsCount::new(EVENTS))
        .bench(|| write(io::sink(), black_box(events), &[]));
}

#[divan::bench]
fn encode_stacks(bencher: Bencher<'_, '_>) {
    let stacks = &RECORDED[..];
    bencher
        .counter(ItemsCount::new(STACKS))
        .bench(|| write(io::sink(), &[], black_box(stacks)));
}

#[divan::bench]
fn decode_all_columns(bencher: Bencher<'_, '_>) {
    decode(bencher, Columns::ALL);
}

#[divan::bench]
fn decode_time_and_size(bencher: Bencher<'_, '_>) {
    decode(bencher, Columns::TIME.and(Columns::SIZE));
}

#[divan::bench]
fn decode_for_replay(bencher: Bencher<'_, '_>) {
    let wanted = [
        Columns::TIME,
        Columns::START,
        Columns::THREAD,
        Columns::ADDRESS,
        Columns::SIZE,
        Columns::OLD_ADDRESS,
        Columns::STACK,
    ];
    decode(
        bencher,
        wanted.into_iter().fold(Columns::NONE, Columns::and),
    );
}

fn decode(bencher: Bencher<'_, '_>, wanted: Columns) {
    let artifact = &*ARTIFACT;
    let mut decoder = EventDecoder::default();
    let mut batch = EventBatch::default();
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        for chunk in artifact.event_chunks() {
            let decoded = decoder.decode(&chunk, wanted, &mut batch);
            decoded.expect("a whole chunk");
            black_box(&batch);
        }
    });
}

#[divan::bench]
fn decode_into_fresh_memory(bencher: Bencher<'_, '_>) {
    let artifact = &*ARTIFACT;
    bencher.counter(ItemsCount::new(EVENTS)).bench(|| {
        for chunk in artifact.event_chunks() {
            black_box(chunk.decode().expect("a whole chunk"));
        }
    });
}

#[divan::bench]
fn decode_stacks(bencher: Bencher<'_, '_>) {
    let artifact = &*STACK_ARTIFACT;
    bencher.counter(ItemsCount::new(STACKS)).bench(|| {
        for chunk in artifact.stack_chunks() {
            black_box(chunk.decode().expect("a whole chunk"));
        }
    });
}

#[divan::bench]
fn open_and_check(bencher: Bencher<'_, '_>) {
    let bytes = write(Vec::new(), &[], &RECORDED);
    bencher
        .with_inputs(|| bytes.clone())
        .input_counter(|bytes| divan::counter::BytesCount::new(bytes.len()))
        .bench_values(open);
}
