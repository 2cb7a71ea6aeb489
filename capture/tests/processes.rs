//! The whole tree of processes is recorded.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use common::Stage;
use memtrack_artifact::{EventFlags, EventKind as K, ExitStatus};
use std::collections::BTreeMap;

#[test]
fn forked_spawned_and_executed_children() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_tree.c", &[]);
    let recorded = stage.record([program]);
    assert_eq!(recorded.outcome.status, ExitStatus::Code(0));
    for (size, count) in [
        (2_000_001, 7),
        (2_000_002, 11),
        (2_000_003, 13),
        (2_000_004, 17),
        (2_000_005, 19),
        (2_000_006, 23),
        (2_000_007, 29),
    ] {
        assert_eq!(recorded.count(K::Malloc, size), count, "{size}");
        assert_eq!(recorded.frees_of(size), count, "{size}");
        // Each by a process of its own.
        let mut pids: Vec<_> = recorded
            .of_size(K::Malloc, size)
            .map(|event| event.pid)
            .collect();
        pids.dedup();
        assert_eq!(pids.len(), 1, "{size}");
    }
    let mut kinds = BTreeMap::new();
    for event in &recorded.events {
        *kinds.entry(event.kind).or_insert(0) += 1;
    }
    assert_eq!(kinds[&K::Fork], 6);
    assert_eq!(kinds[&K::Exec], 4);
    assert_eq!(kinds[&K::Exit], 7);
    assert_eq!(recorded.outcome.counts.processes, 7);
    // posix_spawn and vfork lend their memory.
    let shared = recorded
        .events
        .iter()
        .filter(|event| event.kind == K::Fork)
        .filter(|event| event.flags.contains(EventFlags::SHARES_MEMORY));
    assert_eq!(shared.count(), 2);
    // Nobody is heard of after the end.
    let mut ended = std::collections::HashSet::new();
    let mut ordered: Vec<_> = recorded.events.iter().collect();
    ordered.sort_by_key(|event| event.time_ns);
    for event in ordered {
        assert!(!ended.contains(&event.pid), "{event:?}");
        if event.kind == K::Exit {
            ended.insert(event.pid);
        }
    }
}

/// The recording is over when the command is: what it leaves behind runs on,
/// unrecorded, and that is said.
#[test]
fn a_process_that_outlives_the_command() {
    let Some(stage) = Stage::set() else { return };
    let pid_file = stage.path("pid");
    let script = format!("sleep 30 & echo $! > {}; exit 4", pid_file.display());
    let recorded = stage.record(["sh", "-c", &script]);
    assert_eq!(recorded.outcome.status, ExitStatus::Code(4));
    let notes = &recorded.outcome.losses.notes;
    assert!(
        notes.iter().any(|note| note.contains("outlived")),
        "{notes:?}"
    );
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(!stat.contains(") T "), "{stat}");
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}
