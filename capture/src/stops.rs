//! Letting stopped processes go on.
//!
//! A process can wait for two reasons, each with a map of its own: a ring must
//! be drained (one entry per process), or new files must be probed (one entry
//! per thread). It goes on only when it waits for neither.

use crate::{clock::monotonic_ns, parents::Parents};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use memtrack_artifact::{Pause, PauseReason, Pid};
use nix::{
    sys::signal::{Signal, kill},
    unistd,
};
use std::sync::{Mutex, PoisonError};

/// Key of a stop map: process and thread, as `bpf_get_current_pid_tgid` gives
/// them; the thread is 0 where the whole process waits.
pub(crate) type StopKey = u64;

/// The key of a thread.
pub(crate) fn stop_key(pid: u32, tid: u32) -> StopKey {
    u64::from(pid) << 32 | u64::from(tid)
}

/// The process of a key.
fn process_of(key: StopKey) -> u32 {
    (key >> 32) as u32
}

/// The stop maps. Shared by the thread that drains the rings and the one that
/// probes new files.
pub(crate) struct Stops {
    pressure: MapHandle,
    attach: MapHandle,
    /// What was undone. The lock also keeps two threads from deciding about
    /// one process at a time.
    pauses: Mutex<Vec<Pause>>,
    /// Whose parents are still watched, and since when.
    parents: Mutex<Parents>,
}

impl Stops {
    /// Over the two maps.
    pub(crate) fn new(pressure: MapHandle, attach: MapHandle) -> Self {
        Self {
            pressure,
            attach,
            pauses: Mutex::default(),
            parents: Mutex::default(),
        }
    }

    /// Undoes all stops for pressure. False when some were not complete yet
    /// and must be looked at again.
    pub(crate) fn release_pressure(&self) -> bool {
        self.release_all(&self.pressure, PauseReason::Pressure)
    }

    /// Undoes all stops for new files.
    pub(crate) fn release_attach(&self) -> bool {
        self.release_all(&self.attach, PauseReason::Attach)
    }

    /// Undoes one thread's stop for new files.
    pub(crate) fn release_attach_of(&self, key: StopKey) {
        self.release(&self.attach, key, PauseReason::Attach);
    }

    fn release_all(&self, map: &MapHandle, reason: PauseReason) -> bool {
        // All of them first: a walk over a hash map loses its place when
        // entries go.
        let keys: Vec<StopKey> = keys(map).collect();
        let mut done = true;
        for key in keys {
            done &= self.release(map, key, reason);
        }
        done
    }

    /// False when the entry has no time yet: its signal is still to be sent.
    fn release(&self, map: &MapHandle, key: StopKey, reason: PauseReason) -> bool {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        let start_ns = match since_ns(map, key) {
            None => return true,
            Some(0) => return false,
            Some(since_ns) => since_ns,
        };
        // An entry that is gone went with its process, whose number may be
        // another's by now.
        if map.delete(&key.to_ne_bytes()).is_err() {
            return true;
        }
        let process = process_of(key);
        if !self.waits(process) {
            signal(process, Signal::SIGCONT);
            // Another thread may have been stopped in between, and the signal
            // has let it go as well.
            if self.waits(process) {
                signal(process, Signal::SIGSTOP);
            }
        }
        pauses.push(Pause {
            pid: Pid(process),
            reason,
            start_ns,
            end_ns: monotonic_ns(),
        });
        drop(pauses);
        let mut parents = self.parents.lock().unwrap_or_else(PoisonError::into_inner);
        parents.watch(process, monotonic_ns());
        true
    }

    /// Lets parents go on that have stopped themselves because their child was
    /// held.
    pub(crate) fn wake_parents(&self) {
        let mut parents = self.parents.lock().unwrap_or_else(PoisonError::into_inner);
        for parent in parents.stuck(monotonic_ns()) {
            if !self.waits(parent) {
                signal(parent, Signal::SIGCONT);
            }
        }
    }

    /// Whether a process waits for anything.
    fn waits(&self, process: u32) -> bool {
        [&self.pressure, &self.attach]
            .into_iter()
            .any(|map| keys(map).any(|key| process_of(key) == process))
    }

    /// Everybody who was held so far.
    pub(crate) fn take_pauses(&self) -> Vec<Pause> {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *pauses)
    }
}

fn keys(map: &MapHandle) -> impl Iterator<Item = StopKey> + '_ {
    map.keys()
        .filter_map(|key| Some(StopKey::from_ne_bytes(key.try_into().ok()?)))
}

fn since_ns(map: &MapHandle, key: StopKey) -> Option<u64> {
    let value = map.lookup(&key.to_ne_bytes(), MapFlags::ANY).ok()??;
    Some(u64::from_ne_bytes(value.try_into().ok()?))
}

fn signal(process: u32, signal: Signal) {
    if let Ok(process) = i32::try_from(process) {
        // It may have ended in the meantime: nothing is left to be done then.
        let _ = kill(unistd::Pid::from_raw(process), signal);
    }
}
