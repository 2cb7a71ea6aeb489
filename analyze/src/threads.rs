//! Frees of nothing, by thread: calls recorded twice, and what a C library
//! frees for itself when a thread ends.
//!
//! glibc keeps blocks that a thread has freed in a cache of the thread, and at
//! the thread's end passes them to its own `free` once more
//! (`tcache_thread_shutdown` in malloc/malloc.c). A probe sees those calls,
//! and they release nothing of the program's. They are told from real frees of
//! unknown blocks by their place: the thread does nothing to the heap after
//! them, and then ends.

use memtrack_artifact::{ModuleEvent, ModuleRecord, Tid};
use std::collections::HashMap;

type ByThread<T> = HashMap<Tid, T, foldhash::fast::RandomState>;

/// Frees of nothing since a thread's last other event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Of addresses where nothing was live.
    pub(crate) unknown: u64,
    /// Of the address that the thread had just freed.
    pub(crate) doubled: u64,
    last_ns: u64,
}

/// What is remembered of threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// When threads ended, `CLOCK_MONOTONIC` ns, ascending: a number can be
    /// given again.
    ends: ByThread<Vec<u64>>,
    last_freed: ByThread<u64>,
    /// Only threads that have a tail.
    tails: ByThread<Tail>,
}

impl Threads {
    /// With the ends of threads that the module stream tells of.
    pub(crate) fn new(records: &[ModuleRecord]) -> Self {
        let mut ends = ByThread::<Vec<u64>>::default();
        for record in records {
            if record.event == ModuleEvent::Exit {
                ends.entry(record.tid).or_default().push(record.time_ns);
            }
        }
        ends.values_mut().for_each(|times| times.sort_unstable());
        Self {
            ends,
            ..Self::default()
        }
    }

    /// Notes a call of `free`; true when the thread's last one was of the same
    /// address.
    pub(crate) fn frees(&mut self, tid: Tid, address: u64) -> bool {
        self.last_freed.insert(tid, address) == Some(address)
    }

    /// Notes a free of nothing.
    pub(crate) fn freed_nothing(&mut self, tid: Tid, time_ns: u64, doubled: bool) {
        let tail = self.tails.entry(tid).or_default();
        if doubled {
            tail.doubled = tail.doubled.saturating_add(1);
        } else {
            tail.unknown = tail.unknown.saturating_add(1);
        }
        tail.last_ns = time_ns;
    }

    /// Notes any other event of the thread. Returns the tail before it if the
    /// thread of that number had ended in between.
    pub(crate) fn acts(&mut self, tid: Tid, time_ns: u64) -> Option<Tail> {
        if self.tails.is_empty() {
            return None;
        }
        let tail = self.tails.remove(&tid)?;
        self.ended_within(tid, tail.last_ns, time_ns)
            .then_some(tail)
    }

    /// Forgets a thread's last free, for an exec.
    pub(crate) fn forget(&mut self, tid: Tid) {
        self.last_freed.remove(&tid);
    }

    /// The tails of all threads that have ended.
    pub(crate) fn finish(mut self) -> impl Iterator<Item = Tail> {
        let tails = std::mem::take(&mut self.tails);
        tails
            .into_iter()
            .filter(move |(tid, tail)| self.ended_within(*tid, tail.last_ns, u64::MAX))
            .map(|(_, tail)| tail)
    }

    fn ended_within(&self, tid: Tid, from_ns: u64, to_ns: u64) -> bool {
        self.ends
            .get(&tid)
            .is_some_and(|ends| ends.iter().any(|end| (from_ns..=to_ns).contains(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrack_artifact::Pid;

    fn end(tid: u32, time_ns: u64) -> ModuleRecord {
        ModuleRecord {
            time_ns,
            pid: Pid(1),
            tid: Tid(tid),
            event: ModuleEvent::Exit,
        }
    }

    #[test]
    fn a_tail_before_the_end_of_its_thread_is_told() {
        let mut threads = Threads::new(&[end(7, 100)]);
        threads.freed_nothing(Tid(7), 90, false);
        threads.freed_nothing(Tid(7), 95, true);
        threads.freed_nothing(Tid(8), 95, false); // does not end
        let tails: Vec<Tail> = threads.finish().collect();
        assert_eq!(tails.len(), 1);
        assert_eq!((tails[0].unknown, tails[0].doubled), (1, 1));
    }

    #[test]
    fn a_thread_that_goes_on_has_no_tail() {
        let mut threads = Threads::new(&[end(7, 100)]);
        threads.freed_nothing(Tid(7), 90, false);
        assert_eq!(threads.acts(Tid(7), 95), None);
        assert_eq!(threads.finish().count(), 0);
    }

    #[test]
    fn a_thread_number_given_again_is_another_thread() {
        let mut threads = Threads::new(&[end(7, 200), end(7, 100)]);
        threads.freed_nothing(Tid(7), 90, false);
        let tail = threads.acts(Tid(7), 150);
        assert_eq!(tail.map(|tail| tail.unknown), Some(1));
    }
}
