//! What each effect does to the live blocks and to the sums.

use crate::{
    detail::Details,
    findings::{Costs, TimelinePoint},
    ledger::{Ledger, Level, add},
    order::{Action, Effect},
    processes::{Process, Processes},
    space::{Block, Origin},
    stacks::MergedStacks,
    threads::{Tail, Threads},
    timeline::Timeline,
};
use memtrack_artifact::{EventKind, Pid};
use std::num::NonZeroU32;

/// What the replay counted beside the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Blocks ended by `free` or `realloc`.
    pub(crate) frees: u64,
    /// Calls without memory.
    pub(crate) failed: u64,
    /// Frees of addresses where nothing was live.
    pub(crate) unknown_frees: u64,
    /// A thread's free of what it had just freed: one call, recorded twice.
    pub(crate) doubled_frees: u64,
    /// A C library's frees of what it has cached for a thread, at its end.
    pub(crate) thread_end_frees: u64,
    /// Frees, by a forked child, of its copy of an ancestor's block.
    pub(crate) inherited_frees: u64,
    /// Blocks whose address was given out again while they were live.
    pub(crate) ended_unseen: u64,
    /// Blocks live when their address space ended.
    pub(crate) leaked_blocks: u64,
    /// Bytes of them.
    pub(crate) leaked_bytes: u64,
    /// Blocks dropped by an exec.
    pub(crate) exec_blocks: u64,
    /// Bytes of them.
    pub(crate) exec_bytes: u64,
    /// Processes whose pid came back before their end was seen.
    pub(crate) exits_unseen: u64,
}

/// Effects whose memory is read ahead together: about as many reads as a core
/// keeps in flight.
const WARMED: usize = 16;

/// Replays effects in the order of time.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    stacks: &'a MergedStacks,
    processes: Processes,
    ledger: Ledger,
    timeline: Timeline,
    details: Option<Details>,
    counts: Counts,
    threads: Threads,
    last_ns: u64,
}

/// The result of a replay.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) total: Level,
    pub(crate) peak: Level,
    /// `CLOCK_MONOTONIC` ns.
    pub(crate) peak_at_ns: u64,
    /// By merged stack.
    pub(crate) costs: Vec<Costs>,
    pub(crate) processes: Vec<Process>,
    pub(crate) timeline: Vec<TimelinePoint>,
    pub(crate) details: Option<Details>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        stacks: &'a MergedStacks,
        threads: Threads,
        timeline: Timeline,
        detail: bool,
    ) -> Self {
        Self {
            stacks,
            processes: Processes::default(),
            ledger: Ledger::new(stacks.len()),
            timeline,
            details: detail.then(Details::default),
            counts: Counts::default(),
            threads,
            last_ns: 0,
        }
    }

    /// Replays effects in the order of time.
    pub(crate) fn apply_all(&mut self, effects: &[Effect]) {
        for group in effects.chunks(WARMED) {
            self.warm(group);
            group.iter().for_each(|effect| self.apply(effect));
        }
    }

    /// Reads what a group of effects is about to change. With many blocks live
    /// each effect waits for memory twice; reads that do not depend on each
    /// other wait together, while changes wait one after another. Nothing
    /// depends on the result.
    fn warm(&self, group: &[Effect]) {
        let mut read = 0u64;
        for effect in group {
            let Some(space) = self.processes.recent_space(effect.pid) else {
                continue;
            };
            let stack = match effect.action {
                Action::Begin(_) => {
                    read ^= space.probe(effect.address).map_or(0, |block| block.size);
                    Some(self.stacks.merged(effect.stack))
                }
                Action::Free | Action::Replace => {
                    space.probe(effect.address).map(|block| block.stack)
                }
                _ => None,
            };
            if let Some(stack) = stack {
                read ^= self.ledger.live_bytes(stack);
            }
        }
        std::hint::black_box(read);
    }

    /// Replays one effect.
    fn apply(&mut self, effect: &Effect) {
        self.last_ns = self.last_ns.max(effect.time_ns);
        match effect.action {
            Action::Begin(kind) => self.begin(effect, kind),
            Action::Fail(kind) => self.fail(effect, kind),
            Action::Free | Action::Replace => self.end(effect),
            Action::Fork { shares_memory } => self.fork(effect, shares_memory),
            Action::Exec => self.exec(effect),
            Action::Exit => {
                if let Some(process) = self.processes.living(effect.pid) {
                    self.exit(process, effect.time_ns);
                }
            }
        }
    }

    /// Ends whatever still lives, at the end of the recording.
    pub(crate) fn finish(mut self) -> Outcome {
        let before = self.ledger.level();
        for tail in std::mem::take(&mut self.threads).finish() {
            self.count_thread_end(tail);
        }
        for space in self.processes.take_spaces() {
            space.drain_own(|block| {
                leak(
                    block,
                    &mut self.ledger,
                    &mut self.counts,
                    &mut self.processes,
                    self.details.as_mut(),
                );
            });
        }
        // Memory of processes that outlive the recording is not seen to end.
        let (peak, peak_at_ns) = self.ledger.peak();
        Outcome {
            counts: self.counts,
            total: before,
            peak,
            peak_at_ns,
            costs: self.ledger.into_costs(),
            processes: self.processes.into_list(),
            timeline: self.timeline.finish(),
            details: self.details,
        }
    }

    /// The frees of nothing before a thread's end are its C library's.
    fn count_thread_end(&mut self, tail: Tail) {
        let counts = &mut self.counts;
        counts.unknown_frees = counts.unknown_frees.saturating_sub(tail.unknown);
        counts.doubled_frees = counts.doubled_frees.saturating_sub(tail.doubled);
        add(&mut counts.thread_end_frees, tail.unknown);
        add(&mut counts.thread_end_frees, tail.doubled);
    }

    fn thread_acts(&mut self, effect: &Effect) {
        if let Some(tail) = self.threads.acts(effect.tid, effect.time_ns) {
            self.count_thread_end(tail);
        }
    }

    fn begin(&mut self, effect: &Effect, kind: EventKind) {
        self.thread_acts(effect);
        let index = self.processes.of(effect.pid, effect.time_ns);
        let origin = origin(index, kind);
        let stack = self.stacks.merged(effect.stack);
        let block = Block {
            size: effect.size,
            stack,
            origin,
        };
        let hidden = self
            .processes
            .space_mut(index)
            .and_then(|space| space.begin(effect.address, block));
        if let Some(ended) = hidden
            && !ended.inherited
        {
            add(&mut self.counts.ended_unseen, 1);
            self.release(ended.block);
        }
        self.ledger.begin(effect.time_ns, stack, effect.size);
        if let Some(process) = self.processes.get_mut(index) {
            process.begin_block(effect.size);
        }
        if let Some(details) = &mut self.details {
            details.call(stack, origin, effect.size);
        }
        self.record(effect.time_ns);
    }

    fn fail(&mut self, effect: &Effect, kind: EventKind) {
        let index = self.processes.of(effect.pid, effect.time_ns);
        let stack = self.stacks.merged(effect.stack);
        add(&mut self.counts.failed, 1);
        self.ledger.fail(stack);
        if let Some(details) = &mut self.details {
            details.failed(stack, origin(index, kind), effect.size);
        }
    }

    fn end(&mut self, effect: &Effect) {
        if effect.address == 0 {
            return;
        }
        let index = self.processes.of(effect.pid, effect.time_ns);
        let ended = self
            .processes
            .space_mut(index)
            .and_then(|space| space.end(effect.address));
        let doubled =
            matches!(effect.action, Action::Free) && self.threads.frees(effect.tid, effect.address);
        if ended.is_some() {
            self.thread_acts(effect);
        } else {
            self.threads
                .freed_nothing(effect.tid, effect.time_ns, doubled);
        }
        match ended {
            Some(ended) if ended.inherited => add(&mut self.counts.inherited_frees, 1),
            Some(ended) => {
                add(&mut self.counts.frees, 1);
                self.release(ended.block);
                self.record(effect.time_ns);
            }
            None if doubled => add(&mut self.counts.doubled_frees, 1),
            None => add(&mut self.counts.unknown_frees, 1),
        }
    }

    /// Takes an ended block out of the sums. Inherited copies never were in
    /// them: their bytes are their ancestor's.
    fn release(&mut self, block: Block) {
        self.ledger.end(block.stack, block.size);
        if let Some(process) = self.processes.get_mut(maker(block.origin)) {
            process.end_block(block.size);
        }
    }

    fn fork(&mut self, effect: &Effect, shares_memory: bool) {
        let Ok(child) = u32::try_from(effect.address).map(Pid) else {
            return;
        };
        if child == effect.pid {
            return;
        }
        if let Some(previous) = self.processes.living(child) {
            add(&mut self.counts.exits_unseen, 1);
            self.exit(previous, effect.time_ns);
        }
        let parent = self.processes.of(effect.pid, effect.time_ns);
        self.processes
            .fork(parent, child, effect.time_ns, shares_memory);
    }

    fn exec(&mut self, effect: &Effect) {
        let index = self.processes.of(effect.pid, effect.time_ns);
        self.threads.forget(effect.tid);
        let Some(abandoned) = self.processes.exec(index) else {
            return;
        };
        abandoned.space.drain_own(|block| {
            self.ledger.end(block.stack, block.size);
            add(&mut self.counts.exec_blocks, 1);
            add(&mut self.counts.exec_bytes, block.size);
            if let Some(process) = self.processes.get_mut(maker(block.origin)) {
                process.end_block(block.size);
                add(&mut process.exec_blocks, 1);
            }
        });
        self.processes.settle(abandoned.parent);
        self.record(effect.time_ns);
    }

    fn exit(&mut self, index: usize, time_ns: u64) {
        let Some(abandoned) = self.processes.exit(index, time_ns) else {
            return;
        };
        abandoned.space.drain_own(|block| {
            leak(
                block,
                &mut self.ledger,
                &mut self.counts,
                &mut self.processes,
                self.details.as_mut(),
            );
        });
        self.processes.settle(abandoned.parent);
        self.record(time_ns);
    }

    fn record(&mut self, time_ns: u64) {
        self.timeline
            .record(time_ns.max(self.last_ns), self.ledger.level());
    }
}

fn leak(
    block: Block,
    ledger: &mut Ledger,
    counts: &mut Counts,
    processes: &mut Processes,
    details: Option<&mut Details>,
) {
    ledger.leak(block.stack, block.size);
    add(&mut counts.leaked_blocks, 1);
    add(&mut counts.leaked_bytes, block.size);
    if let Some(process) = processes.get_mut(maker(block.origin)) {
        process.end_block(block.size);
        add(&mut process.leaked_bytes, block.size);
    }
    if let Some(details) = details {
        details.leaked(block.stack, block.origin, block.size);
    }
}

/// Allocation kinds have the numbers 1 to 8.
const KINDS: u32 = 8;

/// A process and a function in one number that is never zero.
fn origin(process: usize, kind: EventKind) -> Origin {
    let process = u32::try_from(process).unwrap_or(u32::MAX);
    let number = process
        .saturating_mul(KINDS)
        .saturating_add(u32::from(kind as u8).min(KINDS));
    Origin(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX))
}

/// The process of an origin.
pub(crate) fn maker(origin: Origin) -> usize {
    ((origin.0.get() - 1) / KINDS) as usize
}

/// The function of an origin.
pub(crate) fn function(origin: Origin) -> EventKind {
    let number = (origin.0.get() - 1) % KINDS + 1;
    u8::try_from(number)
        .ok()
        .and_then(EventKind::from_byte)
        .unwrap_or(EventKind::Malloc)
}
