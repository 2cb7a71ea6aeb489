//! How fast recorded events become findings: decoding, ordering, replay, and
//! the join with names.
//!
//! `cargo bench -p memtrack-analyze`; items are events.

use divan::{Bencher, black_box, counter::ItemsCount};
use memtrack_analyze::{Options, analyze};
use memtrack_artifact::{
    Architecture, Artifact, ArtifactWriter, ByteString, Ending, Event, EventFlags, EventKind,
    Frame, FrameId, Header, Losses, NameSource, Pid, Silent, StackId, StringId, Svma,
    SymbolizedStack, Symbols, Termination, Tid,
};
use std::collections::VecDeque;

fn main() {
    divan::main();
}

const STACKS: u32 = 20_000;
const FRAMES_PER_STACK: u32 = 24;

/// xorshift64*: the same numbers at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end
    }

    /// A rank from 0, about Zipf distributed with exponent 1, as call stacks
    /// of real programs are.
    fn rank(&mut self, ranks: u32) -> u32 {
        let unit = self.below(1 << 24) as f64 / f64::from(1 << 24);
        (f64::from(ranks).powf(unit) - 1.0) as u32
    }
}

/// What a run is like.
#[derive(Clone, Copy)]
struct Shape {
    events: u64,
    /// Blocks live at a time, about.
    live: usize,
    /// One fork, with two events and an exit of its child, per so many events.
    events_per_fork: Option<u64>,
}

fn record(shape: Shape) -> Artifact {
    let header = Header {
        memtrack_version: "bench".into(),
        architecture: Architecture::X86_64,
        page_bytes: 4096,
        start_monotonic_ns: 0,
        start_wall_ns: 0,
        kernel: String::new(),
        command: Vec::new(),
        environment_names: Vec::new(),
        working_directory: ByteString::default(),
        options: Vec::new(),
        backend: "generated".into(),
    };
    let mut writer = ArtifactWriter::new(Vec::new(), &header).expect("memory takes all");
    let mut random = Random(88);
    let mut live: Vec<u64> = Vec::new();
    // Reused late enough that the disorder below cannot double a block.
    let mut vacant: VecDeque<u64> = VecDeque::new();
    let mut end = 0x5555_5577_0010;
    let mut child = 10;
    for number in 0..shape.events {
        // Several CPUs: times are nearly in order.
        let time_ns = number * 500 + random.below(4_000);
        let mut event = Event {
            kind: EventKind::Free,
            flags: EventFlags::default(),
            start_ns: time_ns,
            time_ns,
            pid: Pid(1),
            tid: Tid(1 + (random.below(4)) as u32),
            address: 0,
            size: 0,
            old_address: 0,
            alignment: 0,
            stack: None,
        };
        let mut take = |random: &mut Random| {
            if vacant.len() > 16
                && let Some(block) = vacant.pop_front()
            {
                return block;
            }
            end += 32 + random.below(8) * 16;
            end
        };
        match random.below(100) {
            0..47 => {
                event.kind = EventKind::Malloc;
                event.address = take(&mut random);
            }
            47..52 if !live.is_empty() => {
                event.kind = EventKind::Realloc;
                event.old_address = live.swap_remove(random.below(live.len() as u64) as usize);
                event.address = take(&mut random);
            }
            _ if live.len() < shape.live => {
                event.kind = EventKind::Malloc;
                event.address = take(&mut random);
            }
            _ => {
                let block = live.swap_remove(random.below(live.len() as u64) as usize);
                vacant.push_back(block);
                event.address = block;
            }
        }
        if event.kind != EventKind::Free {
            event.start_ns = time_ns.saturating_sub(100);
            event.size = 16 << random.below(8);
            event.stack = Some(StackId(random.rank(STACKS)));
            live.push(event.address);
        }
        writer.event(&event).expect("memory takes all");
        if shape
            .events_per_fork
            .is_some_and(|every| number % every == 0)
        {
            child += 1;
            for (kind, pid, address) in [
                (EventKind::Fork, 1, u64::from(child)),
                (EventKind::Malloc, child, 0x10),
                (EventKind::Free, child, 0x10),
                (EventKind::Exit, child, 0),
            ] {
                let event = Event {
                    kind,
                    pid: Pid(pid),
                    address,
                    start_ns: time_ns,
                    time_ns,
                    old_address: 0,
                    size: 0,
                    stack: None,
                    ..event
                };
                writer.event(&event).expect("memory takes all");
            }
        }
    }
    let ending = Ending {
        end_monotonic_ns: shape.events * 500,
        status: None,
        root_pid: None,
        null_frees: 0,
    };
    let (bytes, _) = writer
        .finish(&Losses::default(), &ending)
        .expect("memory takes all");
    Artifact::from_bytes("bench", bytes).expect("what was written can be read")
}

/// Stacks that share their outer frames.
fn symbols(artifact: &Artifact) -> Symbols {
    let frames = 8_000;
    let mut random = Random(7);
    let mut symbols = Symbols {
        artifact_fingerprint: artifact.fingerprint(),
        strings: (0..frames)
            .map(|n| format!("namespace::function_{n}(int)"))
            .collect(),
        ..Symbols::default()
    };
    symbols.frames.extend((0..frames).map(|n| Frame {
        function: Some(StringId(n)),
        file: Some(StringId(n / 10)),
        line: n % 500,
        module: None,
        address: Svma(u64::from(n) * 16),
        module_name: None,
        inline: n % 8 == 3,
        signal: false,
        frame_pointer: false,
        source: NameSource::Dwarf,
    }));
    for stack in 0..STACKS {
        for depth in 0..FRAMES_PER_STACK {
            // Fewer choices the further out.
            let choices = u64::from(frames) >> (depth / 3).min(10);
            symbols
                .stack_frames
                .push(FrameId(random.below(choices.max(1)) as u32));
        }
        symbols.stacks.push(SymbolizedStack {
            start: stack * FRAMES_PER_STACK,
            len: FRAMES_PER_STACK,
            termination: Termination::Root,
        });
    }
    symbols
}

fn bench(bencher: Bencher<'_, '_>, shape: Shape, detail: bool) {
    let artifact = record(shape);
    let symbols = symbols(&artifact);
    let options = Options {
        detail,
        ..Options::default()
    };
    bencher
        .counter(ItemsCount::new(shape.events))
        .bench_local(|| {
            analyze(black_box(&artifact), black_box(&symbols), &options, &Silent)
                .expect("a good artifact can be analysed")
        });
}

const MILLIONS: u64 = 4_000_000;

/// Churn with few blocks live: the maps stay in the cache.
#[divan::bench(sample_count = 10)]
fn few_live_blocks(bencher: Bencher<'_, '_>) {
    let shape = Shape {
        events: MILLIONS,
        live: 10_000,
        events_per_fork: None,
    };
    bench(bencher, shape, false);
}

/// A million blocks live: every event misses the cache.
#[divan::bench(sample_count = 10)]
fn million_live_blocks(bencher: Bencher<'_, '_>) {
    let shape = Shape {
        events: MILLIONS,
        live: 1_000_000,
        events_per_fork: None,
    };
    bench(bencher, shape, false);
}

/// A large process that forks 4,000 children.
#[divan::bench(sample_count = 10)]
fn forks(bencher: Bencher<'_, '_>) {
    let shape = Shape {
        events: MILLIONS,
        live: 100_000,
        events_per_fork: Some(1_000),
    };
    bench(bencher, shape, false);
}

/// The table by stack, function, size and process as well.
#[divan::bench(sample_count = 10)]
fn with_detail(bencher: Bencher<'_, '_>) {
    let shape = Shape {
        events: MILLIONS,
        live: 10_000,
        events_per_fork: None,
    };
    bench(bencher, shape, true);
}
