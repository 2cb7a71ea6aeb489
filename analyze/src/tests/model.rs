//! The same rules written down as plainly as can be: whole copies of whole
//! maps, everything sorted at once, the peak looked for afterwards.

use super::script::{blank, replay_chunks};
use memtrack_artifact::{Event, EventFlags, EventKind, Tid};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Block {
    size: u64,
    /// The pid's number of life that made it.
    maker: usize,
    /// The space in which it was made.
    space: usize,
}

#[derive(Debug, Default)]
struct Model {
    spaces: Vec<BTreeMap<u64, Block>>,
    /// The maker and the space of each living pid.
    living: BTreeMap<u32, (usize, usize)>,
    makers: usize,
    last_freed: BTreeMap<u32, u64>,
    live_bytes: u64,
    peak_bytes: u64,
    allocations: u64,
    frees: u64,
    failed: u64,
    unknown: u64,
    doubled: u64,
    inherited: u64,
    unseen: u64,
    leaked: u64,
    leaked_bytes: BTreeMap<usize, u64>,
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
enum Half {
    Old,
    Whole,
}

impl Model {
    fn run(events: &[Event]) -> Self {
        let mut halves: Vec<(u64, usize, Half)> = Vec::new();
        for (index, event) in events.iter().enumerate() {
            if event.kind == EventKind::Realloc && !event.failed() && event.old_address != 0 {
                halves.push((event.start_ns, index, Half::Old));
            }
            halves.push((event.time_ns, index, Half::Whole));
        }
        halves.sort_by_key(|(time_ns, index, _)| (*time_ns, *index));
        let mut model = Self::default();
        for (_, index, half) in halves {
            model.step(&events[index], half);
        }
        let living: Vec<u32> = model.living.keys().copied().collect();
        for pid in living {
            model.leave(pid, false);
        }
        model
    }

    fn home(&mut self, pid: u32) -> (usize, usize) {
        if let Some(home) = self.living.get(&pid) {
            return *home;
        }
        self.spaces.push(BTreeMap::new());
        let home = (self.makers, self.spaces.len() - 1);
        self.makers += 1;
        self.living.insert(pid, home);
        home
    }

    fn step(&mut self, event: &Event, half: Half) {
        let pid = event.pid.0;
        match (event.kind, half) {
            (EventKind::Free, _) | (_, Half::Old) => {
                let address = match half {
                    Half::Old => event.old_address,
                    Half::Whole => event.address,
                };
                let (_, space) = self.home(pid);
                let twice = event.kind == EventKind::Free
                    && self.last_freed.insert(event.tid.0, address) == Some(address);
                match self.spaces[space].remove(&address) {
                    Some(block) if block.space != space => self.inherited += 1,
                    Some(block) => {
                        self.frees += 1;
                        self.live_bytes -= block.size;
                    }
                    None if twice => self.doubled += 1,
                    None => self.unknown += 1,
                }
            }
            (EventKind::Fork, _) => {
                let child = event.address as u32;
                if child == pid {
                    return;
                }
                self.leave(child, false);
                let (_, space) = self.home(pid);
                let space = if event.flags.contains(EventFlags::SHARES_MEMORY) {
                    space
                } else {
                    self.spaces.push(self.spaces[space].clone());
                    self.spaces.len() - 1
                };
                self.living.insert(child, (self.makers, space));
                self.makers += 1;
            }
            (EventKind::Exec, _) => {
                let (maker, _) = self.home(pid);
                self.last_freed.remove(&event.tid.0);
                self.leave(pid, true);
                self.spaces.push(BTreeMap::new());
                self.living.insert(pid, (maker, self.spaces.len() - 1));
            }
            (EventKind::Exit, _) => self.leave(pid, false),
            (EventKind::Realloc, _)
                if !event.failed() && event.address == 0 && event.old_address != 0 => {}
            _ if event.address == 0 => {
                self.home(pid);
                self.failed += 1;
            }
            _ => {
                let (maker, space) = self.home(pid);
                let block = Block {
                    size: event.size,
                    maker,
                    space,
                };
                if let Some(hidden) = self.spaces[space].insert(event.address, block)
                    && hidden.space == space
                {
                    self.unseen += 1;
                    self.live_bytes -= hidden.size;
                }
                self.allocations += 1;
                self.live_bytes += event.size;
                self.peak_bytes = self.peak_bytes.max(self.live_bytes);
            }
        }
    }

    fn leave(&mut self, pid: u32, exec: bool) {
        let Some((_, space)) = self.living.remove(&pid) else {
            return;
        };
        if self.living.values().any(|(_, other)| *other == space) {
            return;
        }
        for block in std::mem::take(&mut self.spaces[space]).into_values() {
            if block.space != space {
                continue;
            }
            self.live_bytes -= block.size;
            if exec {
                self.dropped += 1;
            } else {
                self.leaked += 1;
                *self.leaked_bytes.entry(block.maker).or_default() += block.size;
            }
        }
    }
}

/// Few pids, threads and addresses, so that they meet often; calls of some
/// length, so that they overlap.
fn event() -> impl Strategy<Value = Event> {
    (
        0u8..20,
        1u32..5,
        0u32..2,
        1u64..12,
        0u64..100,
        0u64..12,
        (0u64..40, 1u32..5),
    )
        .prop_map(|(what, pid, thread, block, size, old, (length, child))| {
            let kind = match what {
                0..6 => EventKind::Malloc,
                6..9 => EventKind::Realloc,
                9 => EventKind::PosixMemalign,
                10..16 => EventKind::Free,
                16 | 17 => EventKind::Fork,
                18 => EventKind::Exec,
                _ => EventKind::Exit,
            };
            let mut event = blank(kind, pid, 0);
            event.tid = Tid(pid * 10 + thread);
            match kind {
                EventKind::Fork => {
                    event.address = u64::from(child);
                    if what == 17 {
                        event.flags = EventFlags::SHARES_MEMORY;
                    }
                }
                EventKind::Free => event.address = block * 16,
                EventKind::Exec | EventKind::Exit => {}
                _ => {
                    event.start_ns = length;
                    event.size = size;
                    event.address = block * 16;
                    if kind == EventKind::Realloc {
                        event.old_address = old * 16;
                    }
                    if size < 10 {
                        event.address = 0;
                        event.size = size * u64::from(size > 4);
                        if event.size > 0 || event.old_address == 0 {
                            event.flags = EventFlags::FAILED;
                        }
                    }
                }
            }
            event
        })
}

fn program() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec((event(), 0u64..12), 0..300).prop_map(|steps| {
        let mut clock_ns: u64 = 100;
        steps
            .into_iter()
            .map(|(mut event, step)| {
                // The ring is nearly in order: a step may go back a little.
                clock_ns = (clock_ns + step).saturating_sub(4);
                let length_ns = event.start_ns;
                event.time_ns = clock_ns + 40;
                event.start_ns = event.time_ns - length_ns;
                event
            })
            .collect()
    })
}

/// Events as no recorder writes them.
fn nonsense() -> impl Strategy<Value = Event> {
    let extreme = || prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>(), 0u64..64];
    (
        prop::sample::select(&[1u8, 2, 3, 6, 16, 32, 33, 34][..]),
        any::<u8>(),
        (extreme(), extreme()),
        (extreme(), extreme(), extreme()),
        prop_oneof![0u32..3, Just(u32::MAX)],
        prop::option::of(any::<u32>()),
    )
        .prop_map(
            |(kind, flags, (start, time), (address, size, old), pid, stack)| {
                let mut event = blank(EventKind::from_byte(kind).unwrap(), pid, time);
                event.flags = EventFlags(flags);
                event.start_ns = start.min(time);
                event.address = address;
                event.size = size;
                event.old_address = old;
                event.stack = stack.map(memtrack_artifact::StackId);
                event
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_is_replayed_without_a_panic(
        events in prop::collection::vec(nonsense(), 0..100),
        chunk in 1usize..20,
        points in 0usize..20,
    ) {
        let chunks: Vec<&[Event]> = events.chunks(chunk).collect();
        let outcome = replay_chunks(&chunks, points);
        let counts = outcome.counts;
        prop_assert!(outcome.timeline.len() <= points);
        prop_assert_eq!(
            outcome.total.allocations,
            counts.frees + counts.leaked_blocks + counts.exec_blocks + counts.ended_unseen
        );
    }

    #[test]
    fn replay_agrees_with_the_naive_model(events in program(), chunk in 1usize..50) {
        let model = Model::run(&events);
        let chunks: Vec<&[Event]> = events.chunks(chunk).collect();
        let outcome = replay_chunks(&chunks, 50);
        let counts = outcome.counts;
        prop_assert_eq!(outcome.total.allocations, model.allocations);
        prop_assert_eq!(counts.frees, model.frees);
        prop_assert_eq!(counts.failed, model.failed);
        prop_assert_eq!(counts.unknown_frees, model.unknown);
        prop_assert_eq!(counts.doubled_frees, model.doubled);
        prop_assert_eq!(counts.inherited_frees, model.inherited);
        prop_assert_eq!(counts.ended_unseen, model.unseen);
        prop_assert_eq!(outcome.peak.live_bytes, model.peak_bytes);
        prop_assert_eq!(counts.leaked_blocks, model.leaked);
        prop_assert_eq!(counts.exec_blocks, model.dropped);
        prop_assert_eq!(outcome.processes.len(), model.makers);
        for (maker, process) in outcome.processes.iter().enumerate() {
            prop_assert_eq!(
                process.leaked_bytes,
                model.leaked_bytes.get(&maker).copied().unwrap_or(0)
            );
            prop_assert_eq!(process.live_bytes, 0);
        }
        prop_assert_eq!(
            outcome.total.allocations,
            counts.frees + counts.leaked_blocks + counts.exec_blocks + counts.ended_unseen
        );
        let at_peak: u64 = outcome.costs.iter().map(|costs| costs.peak_bytes).sum();
        prop_assert_eq!(at_peak, outcome.peak.live_bytes);
        let greatest = outcome.timeline.iter().map(|point| point.live_bytes).max();
        prop_assert_eq!(greatest.unwrap_or(0), outcome.peak.live_bytes);
    }
}
