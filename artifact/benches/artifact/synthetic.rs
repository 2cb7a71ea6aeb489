//! Events and stacks as a program might give them. Nothing here is recorded,
//! so that the bench needs no file and no privilege.
//!
//! Events: a toy allocator with size classes and last-in-first-out free lists
//! gives the addresses; 52 % of the events are allocations; call stacks are
//! Zipf distributed, each with a size of its own (17 common ones) or, one in
//! eight, with varying sizes. Times: a few hundred ns to a few us apart.
//! Stacks: deep call chains that share their outer frames, with code
//! addresses, pointers into the stack and small numbers in the frames.

use memtrack_artifact::{
    Architecture, Avma, ByteString, Event, EventFlags, EventKind, Header, Pid, StackForm, StackId,
    StackRecord, Tid,
};
use std::collections::HashMap;

/// xorshift64*: the same numbers at every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A rank from 0, about Zipf distributed with exponent 1.
    fn zipf(&mut self, ranks: u64) -> u64 {
        let unit = self.below(1 << 24) as f64 / f64::from(1 << 24);
        ((ranks as f64).powf(unit) - 1.0) as u64
    }
}

const SIZES: [u64; 17] = [
    8, 16, 24, 32, 40, 48, 56, 64, 72, 88, 96, 120, 128, 160, 256, 512, 1024,
];
const CALL_SITES: u64 = 20_000;

/// A header for files that hold nothing real.
pub(crate) fn header() -> Header {
    Header {
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
    }
}

/// Free lists by size class, and the end of the used memory.
struct Heap {
    free: HashMap<u64, Vec<u64>>,
    end: u64,
}

impl Heap {
    fn class(size: u64) -> u64 {
        (size + 8).next_multiple_of(16).max(32)
    }

    fn allocate(&mut self, size: u64) -> u64 {
        let class = Self::class(size);
        self.free
            .get_mut(&class)
            .and_then(Vec::pop)
            .unwrap_or_else(|| {
                self.end += class;
                self.end - class
            })
    }
}

/// `count` events of a process with that many threads.
pub(crate) fn events(count: usize, threads: u64) -> Vec<Event> {
    let mut random = Random(88);
    let mut heaps: Vec<Heap> = (0..threads)
        .map(|thread| Heap {
            free: HashMap::new(),
            end: 0x5555_5577_0010 + (thread << 36),
        })
        .collect();
    let mut live: Vec<Vec<(u64, u64)>> = vec![Vec::new(); threads as usize];
    let mut time_ns = 1_000_000_000_000;
    let mut thread = 0;
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        if random.below(12) == 0 {
            thread = random.below(threads) as usize;
        }
        time_ns += 250 + random.below(400) + random.below(40).pow(2) * random.below(2);
        let (heap, live) = (&mut heaps[thread], &mut live[thread]);
        let mut event = Event {
            kind: EventKind::Free,
            flags: EventFlags::default(),
            start_ns: time_ns,
            time_ns,
            pid: Pid(4242),
            tid: Tid(4242 + thread as u32),
            address: 0,
            size: 0,
            old_address: 0,
            alignment: 0,
            stack: None,
        };
        if random.below(100) < 52 || live.is_empty() {
            let site = random.zipf(CALL_SITES);
            event.kind = match site % 16 {
                3 => EventKind::Calloc,
                5 if !live.is_empty() => EventKind::Realloc,
                _ => EventKind::Malloc,
            };
            let size = SIZES[(site.wrapping_mul(7919) % 17) as usize];
            event.size = if site % 8 == 1 {
                size + random.below(4000)
            } else {
                size
            };
            if event.kind == EventKind::Realloc {
                let (old, old_size) = live.swap_remove(live.len() - 1);
                event.old_address = old;
                heap.free
                    .entry(Heap::class(old_size))
                    .or_default()
                    .push(old);
            }
            event.address = heap.allocate(event.size);
            live.push((event.address, event.size));
            event.start_ns = time_ns - 90 - random.below(60);
            event.stack = Some(StackId(site as u32));
        } else {
            // Mostly the younger blocks.
            let back = random.zipf(live.len() as u64) as usize;
            let (address, size) = live.swap_remove(live.len() - 1 - back);
            heap.free
                .entry(Heap::class(size))
                .or_default()
                .push(address);
            event.address = address;
        }
        events.push(event);
    }
    events
}

/// A stack that owns its parts.
pub(crate) struct Stack {
    id: u32,
    registers: Vec<u64>,
    stack_pointer: u64,
    pub(crate) window: Vec<u8>,
}

impl Stack {
    /// As the writer takes it.
    pub(crate) fn record(&self) -> StackRecord<'_> {
        StackRecord {
            id: StackId(self.id),
            pid: Pid(4242),
            tid: Tid(4242),
            time_ns: 1_000_000_000_000 + u64::from(self.id) * 10_000,
            form: StackForm::Raw,
            registers: &self.registers,
            stack_pointer: Avma(self.stack_pointer),
            window: &self.window,
            available_bytes: self.window.len() as u64,
            frame_pointer_chain: &[],
        }
    }
}

/// `count` stacks: each differs from the one before in its inner frames.
pub(crate) fn stacks(count: usize) -> Vec<Stack> {
    const TOP: u64 = 0x7fff_ffff_e000;
    let mut random = Random(99);
    // Outermost frame first; each frame is its words in ascending addresses.
    let mut frames: Vec<Vec<u64>> = Vec::new();
    (0..count)
        .map(|id| {
            let depth = 12 + random.below(50) as usize;
            let keep = frames.len().saturating_sub(1 + random.below(9) as usize);
            frames.truncate(keep.min(depth));
            while frames.len() < depth {
                let words = 6 + random.below(30);
                let mut frame: Vec<u64> = (0..words)
                    .map(|_| match random.below(4) {
                        0 => TOP - random.below(1 << 14) * 8,
                        1 => 0x5555_5577_0010 + random.below(1 << 16) * 16,
                        2 => random.below(256),
                        _ => 0,
                    })
                    .collect();
                frame.push(0x7fff_f7d0_0000 + random.zipf(30_000) * 37);
                frames.push(frame);
            }
            let words = frames.iter().rev().flatten();
            let window: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
            let stack_pointer = TOP - window.len() as u64;
            let mut registers: Vec<u64> = (0..17).map(|_| random.below(1 << 20)).collect();
            registers[7] = stack_pointer;
            Stack {
                id: id as u32,
                registers,
                stack_pointer,
                window,
            }
        })
        .collect()
}
