//! The writing thread: records become events and stacks of the artifact.

use crate::{drain::Batch, harvest::Harvest};
use memtrack_artifact::{
    ArtifactWriter, Avma, Error, Event, EventFlags, EventKind, LossCount, ModuleEvent,
    ModuleRecord, Pid, StackForm, StackId, StackRecord, Tid,
};
use memtrack_bpf::record;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    io::Write,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

/// A killed memtrack loses about this much.
const FLUSH: Duration = Duration::from_secs(1);

/// Keys are hashes already.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// What was written, for the closing line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Allocations that returned memory.
    pub allocations: u64,
    /// Allocations that returned none.
    pub failed_allocations: u64,
    /// Frees.
    pub frees: u64,
    /// Bytes asked for by the allocations that returned memory.
    pub allocated_bytes: u64,
    /// Distinct stacks.
    pub stacks: u64,
    /// Processes that ran under the command, itself included.
    pub processes: u64,
    /// Records of a layout or kind that this program does not know.
    pub unreadable: u64,
}

/// The artifact being written.
pub(crate) struct Recorder<W: Write> {
    artifact: ArtifactWriter<W>,
    ids: HashMap<u64, StackId, BuildHasherDefault<KeyHasher>>,
    /// By id: whether the stack itself was written.
    written: Vec<bool>,
    counts: Counts,
    form: StackForm,
    chain: Vec<u64>,
    harvest: Harvest,
    lost_modules: LossCount,
}

/// How writing ended.
pub(crate) struct Written<W: Write> {
    /// To be finished with losses and ending.
    pub(crate) artifact: ArtifactWriter<W>,
    /// The files that were mapped.
    pub(crate) harvest: Harvest,
    /// Records of the module stream that the kernel dropped.
    pub(crate) lost_modules: LossCount,
    /// What was written.
    pub(crate) counts: Counts,
    /// Stacks that events name and that were never received.
    pub(crate) missing_stacks: u64,
    /// The first failure; nothing was written after it.
    pub(crate) failure: Option<Error>,
    /// Records not written because of it.
    pub(crate) dropped: u64,
}

impl<W: Write> Recorder<W> {
    /// Writes to `artifact`; `harvest` has seen nothing yet.
    pub(crate) fn new(artifact: ArtifactWriter<W>, form: StackForm, harvest: Harvest) -> Self {
        Self {
            artifact,
            ids: HashMap::default(),
            written: Vec::new(),
            counts: Counts {
                processes: 1,
                ..Counts::default()
            },
            form,
            chain: Vec::new(),
            harvest,
            lost_modules: LossCount::default(),
        }
    }

    /// Writes what comes until the sender is gone. A failure does not end it:
    /// the rings are still to be drained, so that the program goes on.
    pub(crate) fn run(mut self, batches: &Receiver<Batch>) -> Written<W> {
        let mut failure = None;
        let mut dropped = 0;
        let mut flush_at = Instant::now() + FLUSH;
        loop {
            match batches.recv_timeout(FLUSH) {
                Ok(batch) if failure.is_none() => failure = self.write(&batch).err(),
                Ok(batch) => {
                    dropped += (batch.events.iter().count() + batch.stacks.iter().count()) as u64;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if now >= flush_at {
                flush_at = now + FLUSH;
                if failure.is_none() {
                    failure = self.artifact.flush().err();
                }
            }
        }
        let written = self.written.iter().filter(|&&written| written).count() as u64;
        self.counts.stacks = written;
        Written {
            artifact: self.artifact,
            harvest: self.harvest,
            lost_modules: self.lost_modules,
            counts: self.counts,
            missing_stacks: self.written.len() as u64 - written,
            failure,
            dropped,
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<(), Error> {
        for record in &batch.modules {
            self.harvest.see(record);
            self.count_lost(record);
            self.artifact.module_record(record)?;
        }
        for record in batch.stacks.iter() {
            match record::Stack::read(record) {
                Some(stack) => self.stack(&stack)?,
                None => self.counts.unreadable += 1,
            }
        }
        for record in batch.events.iter() {
            match record::Event::read(record)
                .and_then(|event| Some((EventKind::from_byte(event.kind)?, event)))
            {
                Some((kind, event)) => self.event(kind, &event)?,
                None => self.counts.unreadable += 1,
            }
        }
        Ok(())
    }

    fn count_lost(&mut self, record: &ModuleRecord) {
        let ModuleEvent::Lost { count } = record.event else {
            return;
        };
        let lost = &mut self.lost_modules;
        lost.count = lost.count.saturating_add(count);
        if lost.first_ns == 0 {
            lost.first_ns = record.time_ns;
        }
        lost.last_ns = lost.last_ns.max(record.time_ns);
    }

    fn id(&mut self, key: u64) -> StackId {
        *self.ids.entry(key).or_insert_with(|| {
            // 2^32 stacks of 100 bytes at least would be a file of 400 GiB.
            let id = StackId(u32::try_from(self.written.len()).unwrap_or(u32::MAX));
            self.written.push(false);
            id
        })
    }

    fn stack(&mut self, stack: &record::Stack<'_>) -> Result<(), Error> {
        let id = self.id(stack.key);
        match self.written.get_mut(id.index()) {
            // Shipped again: two CPUs at once, or a full map of keys.
            Some(true) | None => return Ok(()),
            Some(written) => *written = true,
        }
        self.chain.clear();
        self.chain.extend(stack.chain());
        self.artifact.stack(&StackRecord {
            id,
            pid: Pid(stack.pid),
            tid: Tid(stack.tid),
            time_ns: stack.time_ns,
            form: self.form,
            registers: &stack.registers,
            stack_pointer: Avma(stack.stack_pointer),
            window: stack.window,
            available_bytes: stack.available_bytes,
            frame_pointer_chain: &self.chain,
        })
    }

    fn event(&mut self, kind: EventKind, event: &record::Event) -> Result<(), Error> {
        let flags = EventFlags(event.flags);
        match kind {
            EventKind::Free => self.counts.frees += 1,
            EventKind::Fork => self.counts.processes += 1,
            _ if !kind.is_allocation() => {}
            _ if flags.contains(EventFlags::FAILED) => self.counts.failed_allocations += 1,
            _ => {
                self.counts.allocations += 1;
                self.counts.allocated_bytes =
                    self.counts.allocated_bytes.saturating_add(event.size);
            }
        }
        let stack = event.stack_key.map(|key| self.id(key));
        self.artifact.event(&Event {
            kind,
            flags,
            start_ns: event.start_ns,
            time_ns: event.time_ns,
            pid: Pid(event.pid),
            tid: Tid(event.tid),
            address: event.address,
            size: event.size,
            old_address: event.old_address,
            alignment: event.alignment,
            stack,
        })
    }
}
