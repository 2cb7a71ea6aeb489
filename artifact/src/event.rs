//! What a process did to its heap, and the process events that replay needs.

use crate::id::{Pid, StackId, Tid};
use serde::{Deserialize, Serialize};

/// The kind of an [`Event`]. The discriminants are the bytes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// `malloc(size)`.
    Malloc = 1,
    /// `calloc(n, m)`: `size` is the product.
    Calloc = 2,
    /// `realloc(old, size)` and `reallocarray`: one event, with the time of
    /// its entry (the old block ends there) and of its return (the new block
    /// begins).
    Realloc = 3,
    /// `aligned_alloc(alignment, size)`, and `memalign` where the C library
    /// has both at one address.
    AlignedAlloc = 4,
    /// `memalign(alignment, size)` where it has an address of its own.
    Memalign = 5,
    /// `posix_memalign(out, alignment, size)`.
    PosixMemalign = 6,
    /// `valloc(size)`.
    Valloc = 7,
    /// `pvalloc(size)`.
    Pvalloc = 8,
    /// `free(address)`, stamped at its entry.
    Free = 16,
    /// A new process: `pid` is the parent, `address` the child's pid. The
    /// child starts with a copy of the parent's blocks, or shares them
    /// ([`EventFlags::SHARES_MEMORY`], for vfork and `clone(CLONE_VM)`).
    Fork = 32,
    /// The process replaced its image: all its blocks are gone.
    Exec = 33,
    /// The process (its last thread) ended.
    Exit = 34,
}

impl EventKind {
    /// The kind stored as `byte`, if it is one that this version knows.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Malloc,
            2 => Self::Calloc,
            3 => Self::Realloc,
            4 => Self::AlignedAlloc,
            5 => Self::Memalign,
            6 => Self::PosixMemalign,
            7 => Self::Valloc,
            8 => Self::Pvalloc,
            16 => Self::Free,
            32 => Self::Fork,
            33 => Self::Exec,
            34 => Self::Exit,
            _ => return None,
        })
    }

    /// Whether a successful event of this kind begins a block at `address`.
    #[must_use]
    pub fn is_allocation(self) -> bool {
        (self as u8) < Self::Free as u8
    }

    /// The function name that a user knows the kind by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malloc => "malloc",
            Self::Calloc => "calloc",
            Self::Realloc => "realloc",
            Self::AlignedAlloc => "aligned_alloc",
            Self::Memalign => "memalign",
            Self::PosixMemalign => "posix_memalign",
            Self::Valloc => "valloc",
            Self::Pvalloc => "pvalloc",
            Self::Free => "free",
            Self::Fork => "fork",
            Self::Exec => "exec",
            Self::Exit => "exit",
        }
    }
}

/// Bits that qualify an [`Event`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventFlags(pub u8);

impl EventFlags {
    /// The call returned no memory (`NULL`, or an error of `posix_memalign`).
    pub const FAILED: Self = Self(1);
    /// Fork: parent and child share one address space.
    pub const SHARES_MEMORY: Self = Self(2);
    /// The stack of this event could not be taken (counted in the losses).
    pub const STACK_LOST: Self = Self(4);

    /// Whether every bit of `other` is set here.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One recorded event. Times are nanoseconds of `CLOCK_MONOTONIC`; sizes are
/// bytes as requested by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Qualifying bits.
    pub flags: EventFlags,
    /// When the call was entered. Equal to `time_ns` except for allocations.
    pub start_ns: u64,
    /// When it took effect: the return of an allocation, the entry of a free.
    pub time_ns: u64,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The block returned (0 when the call failed or returned none), or freed;
    /// for [`EventKind::Fork`] the child's pid.
    pub address: u64,
    /// Bytes requested; 0 for frees and process events.
    pub size: u64,
    /// `realloc`: the block given. 0 otherwise.
    pub old_address: u64,
    /// Requested alignment in bytes, 0 where the call names none.
    pub alignment: u64,
    /// The call stack of the allocation. `None` for frees and process events,
    /// and where stacks were off or lost.
    pub stack: Option<StackId>,
}

impl Event {
    /// Whether the call returned no memory.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.flags.contains(EventFlags::FAILED)
    }
}
