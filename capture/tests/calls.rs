//! Each allocator function is seen as often as it is called, with what it was
//! asked for, and leaves no trace in the program.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use common::{Recorded, Stage};
use memtrack_artifact::{EventKind as K, ExitStatus};

fn size(n: u64) -> u64 {
    1_000_000 + n
}

/// What `capture_calls.c` does with every C library.
fn check_common(recorded: &Recorded) {
    assert_eq!(recorded.outcome.status, ExitStatus::Code(0));
    assert_eq!(recorded.count(K::Malloc, size(1)), 1000);
    assert_eq!(recorded.frees_of(size(1)), 1000);
    assert_eq!(recorded.count(K::Calloc, size(20)), 20);
    assert_eq!(recorded.count(K::Malloc, size(3)), 30);
    assert_eq!(recorded.count(K::Realloc, size(4)), 30);
    assert!(
        recorded
            .of_size(K::Realloc, size(4))
            .all(|event| event.old_address != 0 && event.start_ns < event.time_ns)
    );
    assert_eq!(recorded.frees_of(size(4)), 30);
    assert_eq!(recorded.count(K::Realloc, size(5)), 5);
    assert_eq!(recorded.count(K::PosixMemalign, size(9)), 17);
    assert!(
        recorded
            .of_size(K::PosixMemalign, size(9))
            .all(|event| event.alignment == 256 && event.address % 256 == 0)
    );
    assert_eq!(recorded.frees_of(size(9)), 17);
    let failed = |kind| {
        let failed = |event: &&_| memtrack_artifact::Event::failed(event);
        recorded
            .events
            .iter()
            .filter(|event| event.kind == kind)
            .filter(failed)
            .count()
    };
    assert_eq!(failed(K::Malloc), 4);
    assert_eq!(failed(K::Calloc), 6);
    assert_eq!(recorded.count(K::Calloc, u64::MAX), 6);
    assert_eq!(failed(K::PosixMemalign), 9);
    assert_eq!(recorded.outcome.counts.failed_allocations, 19);
    assert_eq!(failed(K::Realloc), 0);
    assert!(recorded.outcome.null_frees >= 15);
    assert_eq!(recorded.count(K::Malloc, size(15)), 3);
    assert_eq!(recorded.frees_of(size(15)), 0);
}

/// What it does with glibc only.
fn check_glibc(recorded: &Recorded) {
    check_common(recorded);
    assert_eq!(recorded.count(K::Realloc, size(6)), 7);
    // One address in glibc 2.36: aligned_alloc and memalign are one function.
    let aligned = recorded.count(K::AlignedAlloc, size(24));
    assert_eq!(aligned, 11);
    let memalign = recorded.count(K::AlignedAlloc, size(8)) + recorded.count(K::Memalign, size(8));
    assert_eq!(memalign, 13);
    assert_eq!(recorded.count(K::Valloc, size(10)), 3);
    assert_eq!(recorded.count(K::Pvalloc, size(11)), 2);
    // realloc(p, 0) has released p and returned NULL: no failure.
    let released: Vec<_> = recorded
        .of_size(K::Realloc, 0)
        .filter(|event| event.old_address != 0)
        .collect();
    assert_eq!(released.len(), 8);
    assert!(released.iter().all(|event| event.address == 0));
}

#[test]
fn a_dynamic_program() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_calls.c", &[]);
    check_glibc(&stage.record([program]));
}

/// As on kernels that cannot attach many probes by one link.
#[test]
fn a_dynamic_program_with_single_probes() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_calls.c", &[]);
    let recorded = Recorded::of(&memtrack_capture::Options {
        single_probes: true,
        ..stage.options([program])
    });
    recorded.assert_complete();
    check_glibc(&recorded);
}

#[test]
fn a_static_program() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_calls.c", &["-static"]);
    check_glibc(&stage.record([program]));
}

#[test]
fn a_static_position_independent_program() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_calls.c", &["-static-pie", "-fPIE"]);
    check_glibc(&stage.record([program]));
}

#[test]
fn a_program_with_musl() {
    let Some(stage) = Stage::set() else { return };
    if std::process::Command::new("musl-gcc")
        .arg("--version")
        .output()
        .is_err()
    {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "not run: musl-gcc is not installed (Debian: musl-tools)"
        );
        eprintln!("not run: musl-gcc is not installed (Debian: musl-tools)");
        return;
    }
    for flags in [&[][..], &["-static"]] {
        let program = stage.compile_with("musl-gcc", "capture_calls.c", flags);
        check_common(&stage.record([program]));
    }
}

/// Guards against return probes at places where the stack pointer does not
/// have its entry value: they overwrite a saved register.
#[test]
fn saved_registers_are_left_alone() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_registers.c", &[]);
    let recorded = stage.record([program]);
    assert_eq!(recorded.outcome.status, ExitStatus::Code(0));
    assert!(recorded.outcome.counts.allocations >= 800);
}

#[test]
fn blocks_that_other_threads_free() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_handover.c", &[]);
    let recorded = stage.record([program]);
    for thread in 0..4 {
        assert_eq!(recorded.count(K::Malloc, 4000 + thread), 20_000);
        assert_eq!(recorded.frees_of(4000 + thread), 20_000);
    }
    let threads: std::collections::BTreeSet<_> = recorded
        .of_size(K::Malloc, 4000)
        .map(|event| event.tid)
        .collect();
    assert_eq!(threads.len(), 1);
}

/// Guards against taking what comes after a call that was left by longjmp for
/// a part of it.
#[test]
fn calls_that_are_left_without_a_return() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_leave.c", &[]);
    let recorded = stage.record([program]);
    assert_eq!(recorded.count(K::Malloc, 1000), 10);
    assert_eq!(recorded.count(K::Malloc, 1001), 10);
    assert_eq!(recorded.count(K::Malloc, 666), 0);
    assert_eq!(recorded.frees_of(1000), 10);
    assert_eq!(recorded.frees_of(1001), 10);
    let notes = &recorded.outcome.losses.notes;
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("20 allocator calls were left")),
        "{notes:?}"
    );
}
