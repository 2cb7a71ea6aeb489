//! Draining the rings: copy, hand on, and let stopped processes go on.
//!
//! One thread looks every millisecond. What it takes is copied into a batch
//! and sent over a bounded channel to the thread that writes. When that one
//! falls behind, the channel fills, this thread waits, the rings fill, and the
//! BPF programs stop the writers: memory stays within rings plus channel.

use crate::{
    clock::monotonic_ns,
    error::{Error, Result},
    mappings::ModuleStream,
    programs::LOW_PERCENT,
    ring::{Framed, Ring},
    stops::Stops,
    switches::Switches,
};
use libbpf_rs::MapHandle;
use memtrack_artifact::ModuleRecord;
use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Acquire},
        mpsc::SyncSender,
    },
    thread,
    time::Duration,
};

/// Between two looks at empty rings.
const TICK: Duration = Duration::from_millis(1);
/// Between two looks at the module stream, ns: its records are few.
const MODULES_NS: u64 = 5_000_000;
/// A batch is handed on when it has this many bytes, or at the end of a tick.
const BATCH_BYTES: usize = 1 << 20;
/// Batches under way at once. With [`BATCH_BYTES`] this bounds the channel to
/// 16 MiB and one bite each.
pub(crate) const BATCHES: usize = 16;
/// Records taken at a time, between two looks at everything else.
const EVENTS_AT_ONCE: usize = 8192;
const STACKS_AT_ONCE: usize = 24;
/// When the command has ended, a record that was begun is waited for so long.
const DRAIN_NS: u64 = 5_000_000_000;

/// What is handed on at a time.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Records of the event ring.
    pub(crate) events: Framed,
    /// Records of the stack ring.
    pub(crate) stacks: Framed,
    /// Records of the module stream.
    pub(crate) modules: Vec<ModuleRecord>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.stacks.is_empty() && self.modules.is_empty()
    }
}

/// What the draining thread works with.
pub(crate) struct Drain<'a> {
    /// The shared words.
    pub(crate) switches: Switches<'a>,
    /// The stop maps.
    pub(crate) stops: &'a Stops,
    /// The ring of events.
    pub(crate) events: MapHandle,
    /// The ring of stacks.
    pub(crate) stacks: MapHandle,
    /// The module stream, where there is one.
    pub(crate) modules: Option<ModuleStream>,
    /// Where batches go.
    pub(crate) writer: SyncSender<Batch>,
}

impl Drain<'_> {
    /// Drains until `ended` is set and nothing is left. Returns the bytes of
    /// records that were begun and not completed in time, normally 0.
    ///
    /// Sends to `ready` when the rings are open.
    pub(crate) fn run(mut self, ready: SyncSender<()>, ended: &AtomicBool) -> Result<u64> {
        let events = Ring::open("event_ring", &self.events)?;
        let stacks = Ring::open("stack_ring", &self.stacks)?;
        // If nobody listens, it is over already.
        let _ = ready.send(());
        drop(ready);
        let mut modules = Vec::new();
        let mut modules_at_ns = 0;
        let mut stops_seen = 0;
        let mut stopped = false;
        let mut deadline_ns = None;
        loop {
            // Read first: whatever was written before is taken below.
            let ending = ended.load(Acquire);
            let now_ns = monotonic_ns();
            self.switches.reader_is_here(now_ns);
            // The larger records first: their ring fills sooner.
            let taken = stacks.take(STACKS_AT_ONCE)? + events.take(EVENTS_AT_ONCE)?;

            if now_ns >= modules_at_ns {
                modules_at_ns = now_ns + MODULES_NS;
                if let Some(stream) = &mut self.modules {
                    stream.poll(&mut |record| modules.push(record));
                }
            }
            let stops = self.switches.pressure_stops();
            stopped |= stops != stops_seen;
            stops_seen = stops;
            if stopped && is_low(&events) && is_low(&stacks) {
                stopped = !self.stops.release_pressure();
            }
            if taken == 0 || events.taken_bytes() + stacks.taken_bytes() >= BATCH_BYTES {
                self.send(&events, &stacks, &mut modules)?;
            }
            if taken > 0 {
                continue;
            }
            if ending {
                let drained = events.fill_bytes() == 0 && stacks.fill_bytes() == 0;
                if drained || now_ns > *deadline_ns.get_or_insert(now_ns + DRAIN_NS) {
                    break;
                }
            }
            thread::sleep(TICK);
        }
        if let Some(stream) = self.modules.take() {
            stream.finish(&mut |record| modules.push(record));
        }
        self.send(&events, &stacks, &mut modules)?;
        Ok(events.fill_bytes() + stacks.fill_bytes())
    }

    fn send(&self, events: &Ring, stacks: &Ring, modules: &mut Vec<ModuleRecord>) -> Result<()> {
        let batch = Batch {
            events: events.records(),
            stacks: stacks.records(),
            modules: std::mem::take(modules),
        };
        if batch.is_empty() {
            return Ok(());
        }
        self.writer.send(batch).map_err(|_| Error::WriterGone)
    }
}

fn is_low(ring: &Ring) -> bool {
    ring.fill_bytes() * 100 < ring.size_bytes() * LOW_PERCENT
}
