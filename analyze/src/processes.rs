//! The processes of a run while it is replayed, and which address space each
//! of them lives in.

use crate::{
    ledger::{add, subtract},
    space::Space,
};
use memtrack_artifact::Pid;
use std::collections::HashMap;

/// One process, from its fork (or first event) to its exit. A pid that is used
/// again is a process of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// Its pid.
    pub(crate) pid: u32,
    /// Who forked it, where that was recorded.
    pub(crate) parent: Option<u32>,
    /// When it was first seen, `CLOCK_MONOTONIC` ns.
    pub(crate) begin_ns: u64,
    /// When it ended.
    pub(crate) end_ns: Option<u64>,
    /// Successful calls.
    pub(crate) allocations: u64,
    /// Bytes of them.
    pub(crate) allocated_bytes: u64,
    /// Live bytes of its own making.
    pub(crate) live_bytes: u64,
    /// The greatest `live_bytes`.
    pub(crate) peak_bytes: u64,
    /// Live when the address space ended.
    pub(crate) leaked_bytes: u64,
    /// Blocks that an exec dropped.
    pub(crate) exec_blocks: u64,
    /// The address space; `None` after the end.
    space: Option<usize>,
}

impl Process {
    pub(crate) fn begin_block(&mut self, size: u64) {
        add(&mut self.allocations, 1);
        add(&mut self.allocated_bytes, size);
        add(&mut self.live_bytes, size);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    pub(crate) fn end_block(&mut self, size: u64) {
        subtract(&mut self.live_bytes, size);
    }
}

/// An address space and who lives in it.
#[derive(Debug)]
struct Shared {
    space: Space,
    sharers: u32,
    parent: Option<Parent>,
}

/// The space that another was copied from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parent {
    position: usize,
    /// A position is used again after its space is gone.
    id: u32,
}

/// An address space that nobody lives in any more.
#[derive(Debug)]
pub(crate) struct Abandoned {
    pub(crate) space: Space,
    pub(crate) parent: Option<Parent>,
}

/// All processes and address spaces.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    list: Vec<Process>,
    /// The living.
    by_pid: HashMap<Pid, usize, foldhash::fast::RandomState>,
    /// Most events come from the process of the event before.
    last: Option<(Pid, usize)>,
    spaces: Vec<Option<Shared>>,
    vacant: Vec<usize>,
    spaces_made: u32,
}

impl Processes {
    /// The living process with this pid; one that was not seen to begin
    /// begins here.
    pub(crate) fn of(&mut self, pid: Pid, time_ns: u64) -> usize {
        if let Some((last, index)) = self.last
            && last == pid
        {
            return index;
        }
        let index = match self.by_pid.get(&pid) {
            Some(&index) => index,
            None => {
                let space = self.new_space();
                self.add(pid, None, time_ns, space)
            }
        };
        self.last = Some((pid, index));
        index
    }

    /// Whether a process with this pid lives.
    pub(crate) fn living(&self, pid: Pid) -> Option<usize> {
        self.by_pid.get(&pid).copied()
    }

    /// All of them, in order of appearance.
    pub(crate) fn into_list(self) -> Vec<Process> {
        self.list
    }

    /// One of them.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Process> {
        self.list.get_mut(index)
    }

    /// The address space that a process lives in.
    pub(crate) fn space_mut(&mut self, index: usize) -> Option<&mut Space> {
        let space = self.list.get(index)?.space?;
        Some(&mut self.spaces.get_mut(space)?.as_mut()?.space)
    }

    /// The address space of the process that was asked for last, if it is this
    /// one.
    pub(crate) fn recent_space(&self, pid: Pid) -> Option<&Space> {
        let (last, index) = self.last?;
        let space = (last == pid).then(|| self.list.get(index)?.space)??;
        Some(&self.spaces.get(space)?.as_ref()?.space)
    }

    /// `parent` forks `child`, which must not be alive.
    pub(crate) fn fork(&mut self, parent: usize, child: Pid, time_ns: u64, shares_memory: bool) {
        let Some((parent_pid, Some(position))) = self
            .list
            .get(parent)
            .map(|process| (process.pid, process.space))
        else {
            return;
        };
        let position = if shares_memory {
            if let Some(Some(shared)) = self.spaces.get_mut(position) {
                shared.sharers = shared.sharers.saturating_add(1);
            }
            position
        } else {
            let id = self.next_space_id();
            let Some(Some(shared)) = self.spaces.get_mut(position) else {
                return;
            };
            let copy = Shared {
                space: shared.space.fork(id),
                sharers: 1,
                parent: Some(Parent {
                    position,
                    id: shared.space.id(),
                }),
            };
            self.place(copy)
        };
        self.add(child, Some(parent_pid), time_ns, position);
    }

    /// The process leaves its address space for a new one. Returns the old one
    /// if nobody is left in it.
    pub(crate) fn exec(&mut self, index: usize) -> Option<Abandoned> {
        let abandoned = self.leave(index);
        let space = self.new_space();
        if let Some(process) = self.list.get_mut(index) {
            process.space = Some(space);
        }
        abandoned
    }

    /// The process ends. Returns its address space if nobody is left in it.
    pub(crate) fn exit(&mut self, index: usize, time_ns: u64) -> Option<Abandoned> {
        let abandoned = self.leave(index);
        if let Some(process) = self.list.get_mut(index) {
            process.end_ns = Some(time_ns);
            self.by_pid.remove(&Pid(process.pid));
        }
        self.last = None;
        abandoned
    }

    /// To be called when a space that was a copy is gone: the one it was
    /// copied from takes back what the two shared.
    pub(crate) fn settle(&mut self, parent: Option<Parent>) {
        if let Some(Parent { position, id }) = parent
            && let Some(Some(parent)) = self.spaces.get_mut(position)
            && parent.space.id() == id
        {
            parent.space.settle();
        }
    }

    /// The spaces that are still lived in; nothing can be replayed after.
    pub(crate) fn take_spaces(&mut self) -> Vec<Space> {
        std::mem::take(&mut self.spaces)
            .into_iter()
            .flatten()
            .map(|shared| shared.space)
            .collect()
    }

    fn leave(&mut self, index: usize) -> Option<Abandoned> {
        let position = self.list.get_mut(index)?.space.take()?;
        let slot = self.spaces.get_mut(position)?;
        let shared = slot.as_mut()?;
        shared.sharers = shared.sharers.saturating_sub(1);
        if shared.sharers > 0 {
            return None;
        }
        let shared = slot.take()?;
        self.vacant.push(position);
        Some(Abandoned {
            space: shared.space,
            parent: shared.parent,
        })
    }

    fn add(&mut self, pid: Pid, parent: Option<u32>, begin_ns: u64, space: usize) -> usize {
        let index = self.list.len();
        self.list.push(Process {
            pid: pid.0,
            parent,
            begin_ns,
            space: Some(space),
            ..Process::default()
        });
        self.by_pid.insert(pid, index);
        index
    }

    fn next_space_id(&mut self) -> u32 {
        self.spaces_made = self.spaces_made.wrapping_add(1);
        self.spaces_made
    }

    fn new_space(&mut self) -> usize {
        let id = self.next_space_id();
        self.place(Shared {
            space: Space::new(id),
            sharers: 1,
            parent: None,
        })
    }

    fn place(&mut self, shared: Shared) -> usize {
        match self.vacant.pop() {
            Some(position) => {
                if let Some(slot) = self.spaces.get_mut(position) {
                    *slot = Some(shared);
                }
                position
            }
            None => {
                self.spaces.push(Some(shared));
                self.spaces.len() - 1
            }
        }
    }
}
