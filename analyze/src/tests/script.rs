//! Lists of events, written down as calls.

use crate::{
    order::{Order, horizons},
    replay::{Outcome, Replay},
    stacks::MergedStacks,
    threads::Threads,
    timeline::Timeline,
};
use memtrack_artifact::{Event, EventFlags, EventKind, Pid, Symbols, Tid};

/// Events at a clock that goes on by ten with each.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) events: Vec<Event>,
    clock_ns: u64,
}

/// An event of nothing.
pub(super) fn blank(kind: EventKind, pid: u32, time_ns: u64) -> Event {
    Event {
        kind,
        flags: EventFlags::default(),
        start_ns: time_ns,
        time_ns,
        pid: Pid(pid),
        tid: Tid(pid),
        address: 0,
        size: 0,
        old_address: 0,
        alignment: 0,
        stack: None,
    }
}

impl Script {
    /// Sets the clock back or forward.
    pub(super) fn at(&mut self, clock_ns: u64) -> &mut Self {
        self.clock_ns = clock_ns;
        self
    }

    fn push(&mut self, kind: EventKind, pid: u32) -> &mut Event {
        self.clock_ns += 10;
        self.events.push(blank(kind, pid, self.clock_ns));
        self.events.last_mut().unwrap()
    }

    /// `time_ns` 0: now.
    pub(super) fn malloc(&mut self, pid: u32, time_ns: u64, address: u64, size: u64) {
        self.malloc_in(pid, pid, time_ns, address, size);
    }

    pub(super) fn malloc_in(&mut self, pid: u32, tid: u32, time_ns: u64, address: u64, size: u64) {
        let event = self.push(EventKind::Malloc, pid);
        if time_ns != 0 {
            event.start_ns = time_ns;
            event.time_ns = time_ns;
        }
        event.tid = Tid(tid);
        event.address = address;
        event.size = size;
    }

    pub(super) fn realloc(&mut self, pid: u32, old: u64, address: u64, size: u64) {
        let event = self.push(EventKind::Realloc, pid);
        event.start_ns -= 1;
        event.old_address = old;
        event.address = address;
        event.size = size;
    }

    pub(super) fn realloc_from(
        &mut self,
        pid: u32,
        start_ns: u64,
        time_ns: u64,
        old: u64,
        address: u64,
        size: u64,
    ) {
        self.realloc(pid, old, address, size);
        let event = self.events.last_mut().unwrap();
        event.start_ns = start_ns;
        event.time_ns = time_ns;
    }

    pub(super) fn failed_realloc(&mut self, pid: u32, old: u64, size: u64) {
        self.realloc(pid, old, 0, size);
        self.events.last_mut().unwrap().flags = EventFlags::FAILED;
    }

    pub(super) fn free(&mut self, pid: u32, address: u64) {
        self.push(EventKind::Free, pid).address = address;
    }

    pub(super) fn fork(&mut self, pid: u32, child: u32, shares_memory: bool) {
        let event = self.push(EventKind::Fork, pid);
        event.address = u64::from(child);
        if shares_memory {
            event.flags = EventFlags::SHARES_MEMORY;
        }
    }

    pub(super) fn exec(&mut self, pid: u32) {
        self.push(EventKind::Exec, pid);
    }

    pub(super) fn exit(&mut self, pid: u32) {
        self.push(EventKind::Exit, pid);
    }
}

/// Replays events as one chunk without names.
pub(super) fn replay(events: &[Event]) -> Outcome {
    replay_chunks(&[events], 100)
}

pub(super) fn replay_with(events: &[Event], points: usize) -> Outcome {
    replay_chunks(&[events], points)
}

/// Replays events cut into chunks.
pub(super) fn replay_chunks(chunks: &[&[Event]], points: usize) -> Outcome {
    let stacks = MergedStacks::new(&Symbols::default());
    let all = || chunks.iter().copied().flatten();
    let start_ns = all().map(|event| event.start_ns).min().unwrap_or(0);
    let end_ns = all().map(|event| event.time_ns).max().unwrap_or(0);
    let mut replay = Replay::new(
        &stacks,
        Threads::default(),
        Timeline::new(points, start_ns, end_ns),
        true,
    );
    let mut order = Order::default();
    let starts: Vec<u64> = chunks
        .iter()
        .map(|chunk| {
            chunk
                .iter()
                .map(|event| event.start_ns)
                .min()
                .unwrap_or(u64::MAX)
        })
        .collect();
    for (chunk, horizon_ns) in chunks.iter().zip(horizons(&starts)) {
        chunk.iter().for_each(|event| order.push(event));
        order.release(horizon_ns, |effects| replay.apply_all(effects));
    }
    assert_eq!(order.late(), 0);
    replay.finish()
}
