//! Events in the order of time, with bounded memory.
//!
//! Chunks hold events in ring order: a call enters the ring when it returns,
//! so times are nearly, but not quite, sorted, and the entry of a `realloc`
//! (where its old block ends) lies before its place in the file by as long as
//! the call took. Each chunk states its earliest entry. Once a chunk is read,
//! nothing later in the file can take effect before the smallest entry of all
//! later chunks (the *horizon*), so whatever lies at or before it is in its
//! final order:
//!
//! ```text
//! chunk     0         1         2
//! entries   3..9      7..15     12..20
//! horizon   7         12        end     (smallest entry of what follows)
//! released  3..=7     ..=12     the rest
//! ```
//!
//! Equal times are replayed in file order, which is the order of the ring.

use memtrack_artifact::{Event, EventKind, Pid, Tid};

/// Effects that may wait for the horizon, about 100 MiB. A call that lasts
/// while more than this many others happen (a thread stopped inside
/// `realloc`) would need more; the oldest are then replayed early, and what
/// turns up late because of it is counted.
pub(crate) const MAX_HELD: usize = 1 << 21;

/// How far an effect moves when it is put in its place right away. The ring is
/// out of order by the time between a clock read and a reservation, and by the
/// length of a `realloc`: a few places. What has to go further is sorted later.
const MAX_SHIFT: usize = 32;

/// What an event does at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A block begins at `address`.
    Begin(EventKind),
    /// The call returned no memory.
    Fail(EventKind),
    /// `free(address)`.
    Free,
    /// The block given to `realloc` ends.
    Replace,
    /// `pid` made a child, whose pid is `address`.
    Fork {
        /// It runs in the same address space.
        shares_memory: bool,
    },
    /// `pid` replaced its image.
    Exec,
    /// `pid` ended.
    Exit,
}

/// One step of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    /// When, `CLOCK_MONOTONIC` ns.
    pub(crate) time_ns: u64,
    /// Position in the file; twice the event's number, plus one for the second
    /// half of a `realloc`.
    sequence: u64,
    /// The block, or a child's pid.
    pub(crate) address: u64,
    /// Bytes requested.
    pub(crate) size: u64,
    /// The process.
    pub(crate) pid: Pid,
    /// The thread.
    pub(crate) tid: Tid,
    /// The stack's id, `u32::MAX` without one.
    pub(crate) stack: u32,
    /// What happens.
    pub(crate) action: Action,
}

/// Puts effects into the order of time.
#[derive(Debug, Default)]
pub(crate) struct Order {
    held: Vec<Effect>,
    /// Some of `held` is not in its place.
    unsorted: bool,
    events: u64,
    horizon_ns: u64,
    released_ns: u64,
    late: u64,
}

impl Order {
    /// Takes one event, in file order.
    pub(crate) fn push(&mut self, event: &Event) {
        let sequence = self.events.saturating_mul(2);
        self.events = self.events.saturating_add(1);
        let effect = Effect {
            time_ns: event.time_ns,
            sequence: sequence | 1,
            address: event.address,
            size: event.size,
            pid: event.pid,
            tid: event.tid,
            stack: event.stack.map_or(u32::MAX, |stack| stack.0),
            action: Action::Exit,
        };
        let action = match event.kind {
            EventKind::Free => Action::Free,
            EventKind::Fork => Action::Fork {
                shares_memory: event
                    .flags
                    .contains(memtrack_artifact::EventFlags::SHARES_MEMORY),
            },
            EventKind::Exec => Action::Exec,
            EventKind::Exit => Action::Exit,
            // `realloc(p, 0)` that returns nothing has freed p; it is the one
            // call without memory that did not fail.
            EventKind::Realloc
                if !event.failed()
                    && event.address == 0
                    && event.size == 0
                    && event.old_address != 0 =>
            {
                self.place(replaced(event, sequence));
                return;
            }
            // The old block of a call that fails stays where it is: nothing
            // ends, so nothing has to be restored.
            kind if event.failed() || event.address == 0 => Action::Fail(kind),
            kind => {
                if kind == EventKind::Realloc && event.old_address != 0 {
                    self.place(replaced(event, sequence));
                }
                Action::Begin(kind)
            }
        };
        self.place(Effect { action, ..effect });
    }

    /// Puts an effect behind all that are not later. Sequences rise, so equal
    /// times stay in file order.
    fn place(&mut self, effect: Effect) {
        let later = self
            .held
            .iter()
            .rev()
            .take(MAX_SHIFT)
            .take_while(|held| held.time_ns > effect.time_ns)
            .count();
        match later {
            0 => self.held.push(effect),
            MAX_SHIFT => {
                self.unsorted = true;
                self.held.push(effect);
            }
            _ => self.held.insert(self.held.len() - later, effect),
        }
    }

    /// Hands on, in order, every effect at or before `horizon_ns`; the caller
    /// states that no event still to come takes effect before it.
    pub(crate) fn release(&mut self, horizon_ns: u64, sink: impl FnOnce(&[Effect])) {
        // An unchanged horizon releases nothing new; not sorting then keeps a
        // long wait linear.
        if horizon_ns <= self.horizon_ns && self.held.len() <= MAX_HELD {
            return;
        }
        self.horizon_ns = self.horizon_ns.max(horizon_ns);
        if std::mem::take(&mut self.unsorted) {
            // Stable sorting finds the runs that are sorted already.
            self.held
                .sort_by_key(|effect| (effect.time_ns, effect.sequence));
        }
        let mut count = self
            .held
            .partition_point(|effect| effect.time_ns <= self.horizon_ns);
        if self.held.len() - count > MAX_HELD {
            count = self.held.len() - MAX_HELD / 2;
        }
        let released = self.held.get(..count).unwrap_or_default();
        for effect in released {
            if effect.time_ns < self.released_ns {
                self.late = self.late.saturating_add(1);
            }
            self.released_ns = self.released_ns.max(effect.time_ns);
        }
        sink(released);
        self.held.drain(..count);
    }

    /// Effects that were handed on after a later one.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }
}

/// The end of a `realloc`'s old block, at the call's entry.
fn replaced(event: &Event, sequence: u64) -> Effect {
    Effect {
        time_ns: event.start_ns.min(event.time_ns),
        sequence,
        address: event.old_address,
        size: 0,
        pid: event.pid,
        tid: event.tid,
        stack: u32::MAX,
        action: Action::Replace,
    }
}

/// For each chunk the smallest entry of all later ones.
pub(crate) fn horizons(min_starts_ns: &[u64]) -> Vec<u64> {
    let mut horizon_ns = u64::MAX;
    let mut horizons: Vec<u64> = min_starts_ns
        .iter()
        .rev()
        .map(|&start_ns| {
            let following_ns = horizon_ns;
            horizon_ns = horizon_ns.min(start_ns);
            following_ns
        })
        .collect();
    horizons.reverse();
    horizons
}
