//! What the processes were called, from the module stream.
//!
//! A process's names are the one it had when it was forked, then one for each
//! exec. For the first process of the run, which the recorder forked, nothing
//! is known before its exec. A process that only renames itself has not become
//! another program, so that is no new name.

use crate::{findings::ProcessInfo, processes::Process};
use memtrack_artifact::{ModuleEvent, ModuleRecord, Pid};
use std::collections::HashMap;

/// Describes `processes`, in order.
pub(crate) fn describe(processes: &[Process], records: &[ModuleRecord]) -> Vec<ProcessInfo> {
    let mut naming = Naming::new(processes);
    for record in records {
        naming.record(record);
    }
    naming.infos
}

/// The process that a pid stands for at the moment, and its name.
#[derive(Debug, Default)]
struct Current {
    /// Position among the processes.
    process: Option<usize>,
    name: Option<String>,
    /// When it got the name, and whether the name was added to the list.
    named_ns: u64,
    listed: bool,
    /// It has replaced its image, and the new name is still to come.
    awaits_name: bool,
}

struct Naming<'a> {
    processes: &'a [Process],
    infos: Vec<ProcessInfo>,
    /// The processes that used a pid, in order.
    users: HashMap<Pid, Vec<usize>>,
    current: HashMap<Pid, Current>,
}

impl<'a> Naming<'a> {
    fn new(processes: &'a [Process]) -> Self {
        let mut users: HashMap<Pid, Vec<usize>> = HashMap::new();
        for (index, process) in processes.iter().enumerate() {
            users.entry(Pid(process.pid)).or_default().push(index);
        }
        Self {
            processes,
            infos: processes.iter().map(describe_one).collect(),
            users,
            current: HashMap::new(),
        }
    }

    fn record(&mut self, record: &ModuleRecord) {
        match &record.event {
            ModuleEvent::Fork { parent } => {
                let name = self.current.get(parent).and_then(|c| c.name.clone());
                let current = Current {
                    process: self.user(record.pid, record.time_ns),
                    name: name.clone(),
                    ..Current::default()
                };
                if let Some(name) = name {
                    self.list(current.process, name);
                }
                self.current.insert(record.pid, current);
            }
            ModuleEvent::Exec => {
                let current = self.current_of(record);
                // The kernel reports the name and the exec at one time, in
                // either order.
                if current.named_ns != record.time_ns || current.name.is_none() {
                    current.awaits_name = true;
                    return;
                }
                if std::mem::replace(&mut current.listed, true) {
                    return;
                }
                let (process, name) = (current.process, current.name.clone());
                self.list(process, name.unwrap_or_default());
            }
            ModuleEvent::Comm { name } if record.tid.0 == record.pid.0 => {
                let name = String::from_utf8_lossy(name).into_owned();
                let process = self.current_of(record).process;
                let first = process
                    .and_then(|index| self.infos.get(index))
                    .is_some_and(|info| info.names.is_empty());
                let current = self.current_of(record);
                current.listed = std::mem::take(&mut current.awaits_name) || first;
                current.named_ns = record.time_ns;
                current.name = Some(name.clone());
                if current.listed {
                    self.list(process, name);
                }
            }
            _ => {}
        }
    }

    fn current_of(&mut self, record: &ModuleRecord) -> &mut Current {
        let user = self.user(record.pid, record.time_ns);
        self.current.entry(record.pid).or_insert_with(|| Current {
            process: user,
            ..Current::default()
        })
    }

    /// The user of a pid who began nearest to a time. A fork's record and its
    /// event carry times that differ by microseconds, in either direction.
    fn user(&self, pid: Pid, time_ns: u64) -> Option<usize> {
        let users = self.users.get(&pid)?;
        let distance = |index: usize| {
            self.processes
                .get(index)
                .map_or(u64::MAX, |process| process.begin_ns.abs_diff(time_ns))
        };
        // Both lists are in order of time: only two can be nearest.
        let after = users.partition_point(|&index| {
            self.processes
                .get(index)
                .is_some_and(|process| process.begin_ns < time_ns)
        });
        let near = users.get(after.saturating_sub(1)..users.len().min(after.saturating_add(1)))?;
        near.iter().copied().min_by_key(|&index| distance(index))
    }

    fn list(&mut self, process: Option<usize>, name: String) {
        if let Some(info) = process.and_then(|index| self.infos.get_mut(index)) {
            info.names.push(name);
        }
    }
}

fn describe_one(process: &Process) -> ProcessInfo {
    ProcessInfo {
        pid: process.pid,
        parent: process.parent,
        names: Vec::new(),
        allocations: process.allocations,
        allocated_bytes: process.allocated_bytes,
        peak_bytes: process.peak_bytes,
        leaked_bytes: process.leaked_bytes,
        ended_by_exec_blocks: process.exec_blocks,
    }
}
