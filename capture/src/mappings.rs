//! The module stream: which file was mapped where and when, in the traced
//! process and everything it starts.
//!
//! A software dummy event counts nothing, but it makes the kernel write side
//! records (`PERF_RECORD_MMAP2`, `COMM`, `FORK`, `EXIT`; perf_event_open(2)).
//! One is opened per CPU on the stopped child, and inherited by whatever it
//! forks. The kernel reports a mapping either with device and inode or with
//! the build id, so a second event per CPU asks for build ids; it writes to
//! the first one's ring, and the two records of a mapping, which are written
//! back to back, are joined here:
//!
//! ```text
//!  CPU 0 ─ event ──────┐                        ┌ Map { device, inode, build id }
//!        ─ build ids ──┴▶ ring ─ decode ─ join ─┤ Fork, Exec, Comm, Exit   ─ sort ─▶ sink
//!  CPU 1 ─ event ──────┬▶ ring ─ decode ─ join ─┘                          by time
//!        ─ build ids ──┘
//! ```
//!
//! At an exec the kernel writes the `COMM` record with the exec bit
//! (`begin_new_exec` in fs/exec.c) before the loader maps the new image, so
//! that clearing a process's mappings at [`ModuleEvent::Exec`] is right.
//! Anonymous executable memory (JIT code) is reported too, as `//anon`.

mod decode;
mod join;
mod ring;

use crate::clock;
use decode::{Decoder, Source};
use join::Joiner;
use memtrack_artifact::{ModuleEvent, ModuleRecord, Pid, Tid};
use ring::Ring;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io,
    os::fd::{AsFd, BorrowedFd},
};

/// Bytes of ring per CPU. 512 KiB and the control page are what
/// `kernel.perf_event_mlock_kb` allows a user per CPU by default.
const RING_BYTES: usize = 512 << 10;
/// The least that is tried when locked memory is short.
const MIN_RING_BYTES: usize = 32 << 10;
/// All rings together, bytes: on machines with many CPUs each gets less.
const TOTAL_RING_BYTES: usize = 64 << 20;
/// A record is stamped before it is written. One stamped this long before the
/// rings were read, in nanoseconds, is taken to be there.
const SETTLE_NS: u64 = 20_000_000;

/// Why the module stream cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleStreamError {
    /// The kernel does not let this user observe the process.
    #[error(
        "perf events on process {pid} are refused ({source}); kernel.perf_event_paranoid is \
         {paranoid}: run as root, or `setcap cap_perfmon,cap_sys_ptrace+ep` on memtrack, or \
         `sysctl kernel.perf_event_paranoid=2`"
    )]
    Refused {
        /// The process.
        pid: Pid,
        /// `/proc/sys/kernel/perf_event_paranoid`, or "unknown".
        paranoid: String,
        /// What the system said.
        source: io::Error,
    },
    /// Ring memory would exceed what may be locked.
    #[error(
        "no memory for the module rings ({source}): raise `ulimit -l`, or \
         `sysctl kernel.perf_event_mlock_kb`, or run as root"
    )]
    LockedMemory {
        /// What the system said.
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot open a perf event on CPU {cpu}: {source}")]
    Open {
        /// Which CPU.
        cpu: u32,
        /// What the system said.
        source: io::Error,
    },
    /// The list of CPUs could not be read.
    #[error("cannot read the list of CPUs from {path}: {source}")]
    Cpus {
        /// The file.
        path: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

struct Cpu {
    ring: Ring,
    decoder: Decoder,
    joiner: Joiner,
}

/// An open module stream. Records wait in the kernel's rings until
/// [`poll`](Self::poll) takes them.
pub struct ModuleStream {
    cpus: Vec<Cpu>,
    waiting: BinaryHeap<Reverse<InOrder>>,
    sequence: u64,
    lost_reported: u64,
    buffer: Vec<u8>,
    build_ids: bool,
}

impl ModuleStream {
    /// Observes `pid` (as this process sees it) and all that it will start.
    /// Open it before the process execs: what was mapped earlier is not
    /// reported.
    ///
    /// # Errors
    /// See [`ModuleStreamError`]; each says what to do.
    pub fn open(pid: Pid) -> Result<Self, ModuleStreamError> {
        let cpus = online_cpus()?;
        let share = TOTAL_RING_BYTES / cpus.len().max(1);
        let mut ring_bytes = RING_BYTES;
        while ring_bytes > share.max(MIN_RING_BYTES) {
            ring_bytes /= 2;
        }
        loop {
            match Self::open_rings(pid, &cpus, ring_bytes) {
                Err(ModuleStreamError::LockedMemory { .. }) if ring_bytes > MIN_RING_BYTES => {
                    ring_bytes /= 2;
                }
                result => return result,
            }
        }
    }

    fn open_rings(pid: Pid, cpus: &[u32], ring_bytes: usize) -> Result<Self, ModuleStreamError> {
        let mut opened = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            match Ring::open(pid, cpu, ring_bytes) {
                Ok(ring) => opened.push(Cpu {
                    decoder: Decoder::new(ring.build_id_event()),
                    joiner: Joiner::default(),
                    ring,
                }),
                // The CPU went offline since the list was read.
                Err(ring::OpenError::Event(error))
                    if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(explain(pid, cpu, error)),
            }
        }
        Ok(Self {
            build_ids: opened.iter().all(|cpu| cpu.ring.build_id_event().is_some()),
            cpus: opened,
            waiting: BinaryHeap::new(),
            sequence: 0,
            lost_reported: 0,
            buffer: Vec::new(),
        })
    }

    /// Whether the kernel reports build ids (Linux 5.12 and later).
    #[must_use]
    pub fn has_build_ids(&self) -> bool {
        self.build_ids
    }

    /// Descriptors that become readable when a ring is a quarter full, for
    /// `epoll`.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.cpus.iter().map(|cpu| cpu.ring.as_fd())
    }

    /// Takes what the rings hold and gives `sink` the records that are old
    /// enough to be in order across CPUs. The others follow at a later call.
    pub fn poll(&mut self, sink: &mut dyn FnMut(ModuleRecord)) {
        let settled_ns = clock::monotonic_ns().saturating_sub(SETTLE_NS);
        self.drain();
        for index in 0..self.cpus.len() {
            if let Some(record) = self.cpus[index].joiner.take_older_than(settled_ns) {
                self.enqueue(record);
            }
        }
        while let Some(Reverse(first)) = self.waiting.peek() {
            if first.record.time_ns > settled_ns {
                break;
            }
            if let Some(Reverse(first)) = self.waiting.pop() {
                sink(first.record);
            }
        }
    }

    /// Takes and gives everything that is left, after the last process ended,
    /// and closes the stream. Records that the kernel dropped without a later
    /// record to say so are reported here.
    pub fn finish(mut self, sink: &mut dyn FnMut(ModuleRecord)) {
        self.drain();
        for index in 0..self.cpus.len() {
            if let Some(record) = self.cpus[index].joiner.take() {
                self.enqueue(record);
            }
        }
        let dropped: u64 = self.cpus.iter().map(|cpu| cpu.ring.dropped_count()).sum();
        let silent = dropped.saturating_sub(self.lost_reported);
        while let Some(Reverse(first)) = self.waiting.pop() {
            sink(first.record);
        }
        if silent > 0 {
            sink(ModuleRecord {
                time_ns: clock::monotonic_ns(),
                pid: Pid(0),
                tid: Tid(0),
                event: ModuleEvent::Lost { count: silent },
            });
        }
    }

    fn drain(&mut self) {
        let mut records = Vec::new();
        for cpu in &mut self.cpus {
            self.buffer.clear();
            cpu.ring.take(&mut self.buffer);
            cpu.decoder.decode(&self.buffer, &mut |source, record| {
                if source == Source::BuildIds && !matches!(record.event, ModuleEvent::Map(_)) {
                    return;
                }
                cpu.joiner.push(source, record, &mut records);
            });
        }
        for record in records {
            self.enqueue(record);
        }
    }

    fn enqueue(&mut self, record: ModuleRecord) {
        if let ModuleEvent::Lost { count } = record.event {
            self.lost_reported = self.lost_reported.saturating_add(count);
        }
        self.sequence += 1;
        self.waiting.push(Reverse(InOrder {
            record,
            sequence: self.sequence,
        }));
    }
}

/// By time; at the same time in the order of reading.
struct InOrder {
    record: ModuleRecord,
    sequence: u64,
}

impl InOrder {
    fn key(&self) -> (u64, u64) {
        (self.record.time_ns, self.sequence)
    }
}

impl PartialEq for InOrder {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for InOrder {}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InOrder {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

fn explain(pid: Pid, cpu: u32, error: ring::OpenError) -> ModuleStreamError {
    match error {
        ring::OpenError::Event(source) => match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => ModuleStreamError::Refused {
                pid,
                paranoid: std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
                    .map_or_else(|_| "unknown".into(), |text| text.trim().into()),
                source,
            },
            _ => ModuleStreamError::Open { cpu, source },
        },
        ring::OpenError::Memory(source) => ModuleStreamError::LockedMemory { source },
    }
}

/// CPUs that can run something now.
pub(crate) fn online_cpus() -> Result<Vec<u32>, ModuleStreamError> {
    const PATH: &str = "/sys/devices/system/cpu/online";
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not a list of CPUs");
    std::fs::read_to_string(PATH)
        .and_then(|text| parse_cpu_list(text.trim()).ok_or_else(invalid))
        .map_err(|source| ModuleStreamError::Cpus { path: PATH, source })
}

/// `0-3,8,10-11` (Documentation/admin-guide/cputopology.rst).
fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    /// `CONFIG_NR_CPUS` is at most this on any architecture.
    const MAX_CPUS: u32 = 8192;
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests;
