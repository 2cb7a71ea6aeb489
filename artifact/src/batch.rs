//! Decoded events, as columns.

use crate::{
    event::{Event, EventFlags, EventKind},
    id::{Pid, StackId, Tid},
};

/// Columns of a decoded chunk; all have the same length, except that a column
/// which was not asked for is empty. Kinds and flags are always there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// See [`Event`].
    pub kinds: Vec<EventKind>,
    /// See [`Event`].
    pub flags: Vec<EventFlags>,
    /// See [`Event`].
    pub start_ns: Vec<u64>,
    /// See [`Event`].
    pub time_ns: Vec<u64>,
    /// See [`Event`].
    pub pids: Vec<Pid>,
    /// See [`Event`].
    pub tids: Vec<Tid>,
    /// See [`Event`].
    pub addresses: Vec<u64>,
    /// See [`Event`].
    pub sizes: Vec<u64>,
    /// See [`Event`].
    pub old_addresses: Vec<u64>,
    /// See [`Event`].
    pub alignments: Vec<u64>,
    /// See [`Event`].
    pub stacks: Vec<Option<StackId>>,
}

impl EventBatch {
    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The event at a position, if there is one. Fields of columns that were
    /// not asked for are 0 or `None`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Event> {
        fn at<T: Copy>(column: &[T], index: usize, absent: T) -> T {
            column.get(index).copied().unwrap_or(absent)
        }
        Some(Event {
            kind: *self.kinds.get(index)?,
            flags: at(&self.flags, index, EventFlags::default()),
            start_ns: at(&self.start_ns, index, 0),
            time_ns: at(&self.time_ns, index, 0),
            pid: at(&self.pids, index, Pid(0)),
            tid: at(&self.tids, index, Tid(0)),
            address: at(&self.addresses, index, 0),
            size: at(&self.sizes, index, 0),
            old_address: at(&self.old_addresses, index, 0),
            alignment: at(&self.alignments, index, 0),
            stack: at(&self.stacks, index, None),
        })
    }

    /// All events in file order.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Forgets the events and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.kinds.clear();
        self.flags.clear();
        self.start_ns.clear();
        self.time_ns.clear();
        self.pids.clear();
        self.tids.clear();
        self.addresses.clear();
        self.sizes.clear();
        self.old_addresses.clear();
        self.alignments.clear();
        self.stacks.clear();
    }

    /// Keeps the events at those positions for which `keep` holds.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        fn column<T>(column: &mut Vec<T>, keep: &impl Fn(usize) -> bool) {
            let mut index = 0;
            column.retain(|_| {
                index += 1;
                keep(index - 1)
            });
        }
        column(&mut self.kinds, &keep);
        column(&mut self.flags, &keep);
        column(&mut self.start_ns, &keep);
        column(&mut self.time_ns, &keep);
        column(&mut self.pids, &keep);
        column(&mut self.tids, &keep);
        column(&mut self.addresses, &keep);
        column(&mut self.sizes, &keep);
        column(&mut self.old_addresses, &keep);
        column(&mut self.alignments, &keep);
        column(&mut self.stacks, &keep);
    }
}

/// Which columns of an [`EventBatch`] are wanted; the others are neither
/// decompressed nor decoded.
///
/// ```
/// use memtrack_artifact::Columns;
/// let wanted = Columns::TIME.and(Columns::SIZE);
/// assert!(wanted.contains(Columns::TIME));
/// assert!(!wanted.contains(Columns::STACK));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Columns(u16);

impl Columns {
    /// Only kinds and flags.
    pub const NONE: Self = Self(0);
    /// `start_ns`.
    pub const START: Self = Self(1);
    /// `time_ns`.
    pub const TIME: Self = Self(2);
    /// `pids` and `tids`.
    pub const THREAD: Self = Self(4);
    /// `addresses`.
    pub const ADDRESS: Self = Self(8);
    /// `sizes`.
    pub const SIZE: Self = Self(16);
    /// `old_addresses`.
    pub const OLD_ADDRESS: Self = Self(32);
    /// `alignments`.
    pub const ALIGNMENT: Self = Self(64);
    /// `stacks`.
    pub const STACK: Self = Self(128);
    /// Every column.
    pub const ALL: Self = Self(255);

    /// These and those of `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are wanted.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is wanted.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
