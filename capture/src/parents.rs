//! Parents that stop themselves because their child was held.
//!
//! A stop is visible to a parent that waits with `WUNTRACED`. `su`, `sudo` and
//! `script` then stop themselves, as if somebody had typed Ctrl-Z, and count on
//! a shell to let them go on; there is none that knows. So for a while after a
//! release the parent is looked at: one that is stopped while its child runs
//! is let go.

use std::fs;

/// How long a parent is looked at after the release of its child, ns.
const WATCH_NS: u64 = 2_000_000_000;
/// Children watched at a time; further ones are not, which is as before.
const MAX_WATCHED: usize = 64;

/// A child that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    child: u32,
    parent: u32,
    until_ns: u64,
}

/// Parents of children that were let go lately.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    watched: Vec<Watched>,
}

impl Parents {
    /// Watches the parent of a child that was just let go.
    pub(crate) fn watch(&mut self, child: u32, now_ns: u64) {
        if self.watched.len() >= MAX_WATCHED {
            return;
        }
        let Some(Process { parent, .. }) = Process::read(child) else {
            return;
        };
        // memtrack's own child, or an orphan.
        if parent <= 1 || parent == std::process::id() {
            return;
        }
        self.watched.retain(|watched| watched.child != child);
        self.watched.push(Watched {
            child,
            parent,
            until_ns: now_ns.saturating_add(WATCH_NS),
        });
    }

    /// Those that stand still while their child runs.
    pub(crate) fn stuck(&mut self, now_ns: u64) -> Vec<u32> {
        self.watched.retain(|watched| watched.until_ns > now_ns);
        self.watched
            .iter()
            .filter(|watched| {
                let stopped = |process| Process::read(process).is_some_and(|p| p.state == b'T');
                stopped(watched.parent) && !stopped(watched.child)
            })
            .map(|watched| watched.parent)
            .collect()
    }
}

/// What `/proc/PID/stat` begins with (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    state: u8,
    parent: u32,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        // The name is in parentheses, and may hold some itself.
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        let mut fields = stat.get(end + 1..)?.split(|&byte| byte == b' ').skip(1);
        let state = *fields.next()?.first()?;
        let parent = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        Some(Self { state, parent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_hides_nothing() {
        assert_eq!(
            Process::parse(b"12 (a) T 5 (b) S 34 12 12 0"),
            Some(Process {
                state: b'S',
                parent: 34
            })
        );
        assert_eq!(Process::parse(b"12 (a"), None);
        assert_eq!(Process::parse(b"12 (a) S"), None);
    }

    #[test]
    fn children_of_this_process_are_not_watched() {
        let mut child = std::process::Command::new("sleep")
            .arg("5")
            .spawn()
            .unwrap();
        let mut parents = Parents::default();
        parents.watch(child.id(), 0);
        assert_eq!(parents.watched, []);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
