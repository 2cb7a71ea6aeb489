//! The words of memory that user space and the BPF programs share.
//!
//! The programs' `.bss` is mapped into this process by libbpf. Both sides
//! access it at any time, so on this side through atomics only.
#![allow(unsafe_code)]

use memtrack_bpf::types;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The shared words (`bpf/config.h`), each a plain value of its own: no order
/// between them is relied on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switches<'a> {
    recording: &'a AtomicU32,
    reader_seen_ns: &'a AtomicU64,
    pressure_stops: &'a AtomicU64,
}

impl<'a> Switches<'a> {
    /// Takes the mapping over: for `'a` it is accessed through this only.
    pub(crate) fn new(memory: &'a mut types::bss) -> Self {
        // SAFETY: the fields are aligned and live for 'a (libbpf keeps the
        // mapping as long as the object lives); the unique borrow given up
        // here rules out any non-atomic access from this side, and the
        // programs' accesses are single aligned loads and stores.
        unsafe {
            Self {
                recording: AtomicU32::from_ptr(&raw mut memory.recording),
                reader_seen_ns: AtomicU64::from_ptr(&raw mut memory.reader_seen_ns),
                pressure_stops: AtomicU64::from_ptr(&raw mut memory.pressure_stops),
            }
        }
    }

    /// Whether events are taken, and processes may be stopped.
    pub(crate) fn set_recording(self, on: bool) {
        self.recording.store(on.into(), Relaxed);
    }

    /// Tells the programs that somebody is there who will undo their stops.
    pub(crate) fn reader_is_here(self, now_ns: u64) {
        self.reader_seen_ns.store(now_ns, Relaxed);
    }

    /// How many times a process was stopped for pressure so far.
    pub(crate) fn pressure_stops(self) -> u64 {
        self.pressure_stops.load(Relaxed)
    }
}
