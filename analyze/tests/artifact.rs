//! Whole analyses of artifacts that are written here.

#![allow(clippy::unwrap_used)]

mod recording;

use memtrack_analyze::{
    Options, analyze,
    findings::{Costs, Findings, Measure},
};
use memtrack_artifact::{
    Artifact, EventKind, LossReason, Losses, ModuleEvent, Pause, PauseReason, Pid, Silent, Symbols,
};
use recording::{Frames, Recording};

fn findings(recording: Recording, symbols: &Symbols) -> Findings {
    findings_of(&recording.finish(), symbols, &Options::default())
}

fn findings_of(artifact: &Artifact, symbols: &Symbols, options: &Options) -> Findings {
    let mut symbols = symbols.clone();
    symbols.artifact_fingerprint = artifact.fingerprint();
    analyze(artifact, &symbols, options, &Silent).unwrap()
}

/// Tables and totals are sums of the same things.
fn assert_consistent(findings: &Findings) {
    let totals = &findings.totals;
    for (measure, total) in [
        (Measure::PeakBytes, totals.peak_bytes),
        (Measure::AllocatedBytes, totals.allocated_bytes),
        (Measure::Allocations, totals.allocations),
        (Measure::LeakedBytes, totals.leaked_bytes),
    ] {
        let sum = |costs: &mut dyn Iterator<Item = Costs>| {
            costs.map(|costs| costs.get(measure)).sum::<u64>()
        };
        assert_eq!(sum(&mut findings.stacks.iter().map(|s| s.costs)), total);
        assert_eq!(sum(&mut findings.sites.iter().map(|s| s.costs)), total);
    }
    let peak_blocks: u64 = findings.stacks.iter().map(|s| s.costs.peak_blocks).sum();
    assert_eq!(peak_blocks, totals.peak_blocks);
    assert_eq!(
        findings
            .processes
            .iter()
            .map(|p| p.allocations)
            .sum::<u64>(),
        totals.allocations
    );
    assert_eq!(
        findings
            .processes
            .iter()
            .map(|p| p.leaked_bytes)
            .sum::<u64>(),
        totals.leaked_bytes
    );
    let greatest = findings.timeline.iter().map(|point| point.live_bytes).max();
    assert_eq!(greatest, Some(totals.peak_bytes));
    assert_eq!(
        totals.allocations,
        totals.frees + totals.leaked_blocks + totals.exec_blocks + totals.ended_unseen
    );
    let positions = findings
        .stacks
        .iter()
        .flat_map(|stack| &stack.frames)
        .chain(findings.sites.iter().map(|site| &site.frame));
    for &frame in positions {
        assert!((frame as usize) < findings.frames.len());
    }
}

#[test]
fn costs_go_to_the_line_that_wanted_the_memory() {
    let mut frames = Frames::default();
    let wrapped = frames.stack(&[
        "malloc",
        "operator new(unsigned long)",
        "<std::allocator<int>::allocate(unsigned long)",
        "push@list.cc:12",
        "main@main.cc:3",
    ]);
    let plain = frames.stack(&["malloc", "push@list.cc:12", "other@main.cc:9"]);
    let leaking = frames.stack(&[
        "calloc",
        "<make@make.c:5",
        "leak@leak.c:7",
        "main@main.cc:4",
    ]);
    let mut recording = Recording::new();
    recording.malloc(1, 0xa0, 100, Some(wrapped));
    recording.malloc(1, 0xb0, 10, Some(plain));
    recording.malloc(1, 0xc0, 1, Some(leaking));
    recording.free(1, 0xa0);
    recording.free(1, 0xb0);
    recording.exit(1);
    let findings = findings(recording, &frames.symbols);
    assert_consistent(&findings);

    let names: Vec<_> = findings
        .sites
        .iter()
        .map(|site| {
            let frame = &findings.frames[site.frame as usize];
            (frame.display_name(), frame.line, site.stacks)
        })
        .collect();
    assert_eq!(names, [("push".into(), 12, 2), ("make".into(), 5, 1)]);
    let push = &findings.sites[0];
    assert_eq!(push.costs.peak_bytes, 110);
    assert_eq!(findings.stacks[push.example as usize].allocator_frames, 3);
    assert_eq!(findings.sites[1].costs.leaked_bytes, 1);
    assert_eq!(findings.totals.distinct_stacks, 3);
    assert_eq!(findings.totals.null_frees, 7);
    assert_eq!(findings.verdict.headline, "complete: 3 allocations, 0 lost");
    assert_eq!(findings.terminations, [("root reached".to_owned(), 3)]);
}

#[test]
fn stacks_of_the_same_frames_are_one() {
    let mut frames = Frames::default();
    let first = frames.stack(&["malloc", "f@a.c:1", "main@a.c:9"]);
    let again = frames.stack(&["malloc", "f@a.c:1", "main@a.c:9"]);
    let cut = frames.cut_stack(&["malloc", "f@a.c:1", "main@a.c:9"]);
    let mut recording = Recording::new();
    for (number, stack) in [first, again, cut].into_iter().enumerate() {
        recording.malloc(1, 0x100 * (number as u64 + 1), 5, Some(stack));
    }
    let findings = findings(recording, &frames.symbols);
    assert_consistent(&findings);
    assert_eq!(findings.totals.distinct_stacks, 2);
    assert_eq!(findings.stacks[0].costs.allocations, 2);
    assert_eq!(findings.stacks[0].truncated, None);
    assert_eq!(
        findings.stacks[1].truncated.as_deref(),
        Some("copy too short")
    );
    assert_eq!(findings.sites.len(), 1);
    assert!(
        findings
            .verdict
            .notes
            .contains(&"1 of 3 stacks are not known to their root: copy too short".to_owned())
    );
}

#[test]
fn what_has_no_stack_is_in_every_sum() {
    let mut frames = Frames::default();
    let known = frames.stack(&["malloc", "main@a.c:1"]);
    let mut recording = Recording::new();
    recording.malloc(1, 0xa0, 5, Some(known));
    recording.malloc(1, 0xb0, 7, None);
    // An id whose record was lost.
    recording.malloc(1, 0xc0, 9, Some(4_000_000_000));
    let artifact = recording.finish();
    let options = Options {
        detail: true,
        ..Options::default()
    };
    let findings = findings_of(&artifact, &frames.symbols, &options);
    assert_consistent(&findings);
    assert_eq!(findings.totals.distinct_stacks, 1);
    assert_eq!(findings.stacks[0].costs.allocated_bytes, 16);
    assert_eq!(
        findings.stacks[0].truncated.as_deref(),
        Some("stack not recorded")
    );
    assert_eq!(
        findings.detail.iter().map(|d| d.size).collect::<Vec<_>>(),
        [7, 9, 5]
    );
    // Without any names the numbers are the same.
    let nameless = analyze(&artifact, &Symbols::default(), &options, &Silent).unwrap();
    assert_consistent(&nameless);
    assert_eq!(nameless.totals.allocated_bytes, 21);
}

#[test]
fn details_tell_function_size_and_process_apart() {
    let mut frames = Frames::default();
    let stack = frames.stack(&["malloc", "main@a.c:1"]);
    let mut recording = Recording::new();
    recording.malloc(1, 0xa0, 5, Some(stack));
    recording.malloc(1, 0xb0, 5, Some(stack));
    recording.event(EventKind::Calloc, 1, |event| {
        event.address = 0xc0;
        event.size = 5;
        event.stack = Some(memtrack_artifact::StackId(stack));
    });
    recording.failed(EventKind::PosixMemalign, 1, 6, Some(stack));
    recording.free(1, 0xa0);
    recording.fork(1, 2);
    recording.malloc(2, 0xd0, 5, Some(stack));
    recording.exit(2);
    recording.exit(1);
    let artifact = recording.finish();
    let options = Options {
        detail: true,
        ..Options::default()
    };
    let findings = findings_of(&artifact, &frames.symbols, &options);
    assert_consistent(&findings);
    let mut rows: Vec<_> = findings
        .detail
        .iter()
        .map(|d| {
            (
                d.function.as_str(),
                d.size,
                d.pid,
                d.calls,
                d.live_calls,
                d.failed,
            )
        })
        .collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        [
            ("calloc", 5, 1, 1, 1, 0),
            ("malloc", 5, 1, 2, 1, 0),
            ("malloc", 5, 2, 1, 1, 0),
            ("posix_memalign", 6, 1, 0, 0, 1),
        ]
    );
    assert!(findings.detail.iter().all(|d| d.stack == Some(0)));
}

#[test]
fn processes_have_the_names_of_their_images() {
    let mut recording = Recording::new();
    // As the kernel tells it: the recorder forks, the command execs, and its
    // name comes at the same time as its exec.
    recording.module(1, ModuleEvent::Fork { parent: Pid(900) });
    recording.module(1, comm("prog"));
    recording.module_at_the_same_time(1, ModuleEvent::Exec);
    recording.exec(1);
    recording.malloc(1, 0xa0, 5, None);
    recording.module(2, ModuleEvent::Fork { parent: Pid(1) });
    recording.fork(1, 2);
    recording.malloc(2, 0xb0, 5, None);
    recording.module(2, ModuleEvent::Exec);
    recording.module_at_the_same_time(2, comm("second"));
    recording.exec(2);
    recording.module(2, comm("renamed"));
    recording.module(2, ModuleEvent::Exec);
    recording.module_at_the_same_time(2, comm("second"));
    recording.exec(2);
    recording.exit(2);
    // The pid comes back.
    recording.module(2, ModuleEvent::Fork { parent: Pid(1) });
    recording.fork(1, 2);
    recording.exit(2);
    recording.exit(1);
    let findings = findings(recording, &Symbols::default());
    assert_consistent(&findings);
    let names: Vec<_> = findings
        .processes
        .iter()
        .map(|process| (process.pid, process.parent, process.names.join(" ")))
        .collect();
    assert_eq!(
        names,
        [
            (1, None, "prog".to_owned()),
            (2, Some(1), "prog second second".to_owned()),
            (2, Some(1), "prog".to_owned()),
        ]
    );
    assert_eq!(findings.processes[1].ended_by_exec_blocks, 1);
    assert_eq!(findings.totals.exec_bytes, 5);
}

fn comm(name: &str) -> ModuleEvent {
    ModuleEvent::Comm {
        name: name.as_bytes().to_vec(),
    }
}

#[test]
fn losses_make_a_verdict() {
    let mut losses = Losses::default();
    losses.add(LossReason::EventRingFull, 1_204, 5);
    losses.add(LossReason::StackRingFull, 3, 5);
    losses.notes.push("a remark".to_owned());
    for start_ns in [10, 30_000_000] {
        losses.pauses.push(Pause {
            pid: Pid(1),
            reason: PauseReason::Pressure,
            start_ns,
            end_ns: start_ns + 2_000_000,
        });
    }
    let mut recording = Recording::new();
    recording.malloc(1, 0xa0, 5, None);
    recording.losses = losses;
    let verdict = findings(recording, &Symbols::default()).verdict;
    assert!(!verdict.complete);
    assert_eq!(verdict.headline, "INCOMPLETE: 1 allocation, 1,204 lost");
    assert_eq!(
        verdict.problems,
        [
            "1,204 events: the event ring was full",
            "3 stacks: the stack ring was full"
        ]
    );
    assert_eq!(
        verdict.notes,
        [
            "a remark",
            "the program was held 2 times because a ring was filling: 4.00 ms in all, 2.00 ms at most"
        ]
    );
}

#[test]
fn a_loss_of_stacks_alone_leaves_the_numbers_whole() {
    let mut recording = Recording::new();
    recording.malloc(1, 0xa0, 5, None);
    recording.losses.add(LossReason::StackRingFull, 3, 5);
    let verdict = findings(recording, &Symbols::default()).verdict;
    assert!(verdict.complete);
    assert_eq!(verdict.headline, "complete: 1 allocation, 0 lost");
    assert_eq!(verdict.problems.len(), 1);
}

#[test]
fn a_cut_file_gives_what_it_has_and_says_so() {
    let mut recording = Recording::new();
    for number in 0..200_000u64 {
        recording.malloc(1, 0x1000 + number * 16, 16, None);
    }
    let bytes = recording.finish_bytes();
    let mut before = 0;
    for part in 1..8 {
        let cut = bytes[..bytes.len() * part / 8].to_vec();
        let artifact = Artifact::from_bytes("cut", cut).unwrap();
        let findings = findings_of(&artifact, &Symbols::default(), &Options::default());
        assert_consistent(&findings);
        assert!(!findings.verdict.complete);
        assert!(findings.verdict.headline.starts_with("INCOMPLETE: "));
        assert!(!findings.verdict.problems.is_empty());
        assert!(findings.totals.allocations >= before);
        before = findings.totals.allocations;
    }
    assert!(before > 0);
}

#[test]
fn symbols_of_another_artifact_are_a_problem() {
    let mut frames = Frames::default();
    let stack = frames.stack(&["malloc", "main@a.c:1"]);
    let mut recording = Recording::new();
    recording.malloc(1, 0xa0, 5, Some(stack));
    let artifact = recording.finish();
    frames.symbols.artifact_fingerprint = artifact.fingerprint() ^ 1;
    let findings = analyze(&artifact, &frames.symbols, &Options::default(), &Silent).unwrap();
    assert!(findings.verdict.complete);
    assert!(findings.verdict.problems[0].contains("another artifact"));
}

#[test]
fn the_run_is_described() {
    let mut recording = Recording::new();
    recording.malloc(1, 0xa0, 5, None);
    let findings = findings(recording, &Symbols::default());
    assert_eq!(findings.run.command, ["./server", "\u{fffd}"]);
    assert_eq!(findings.run.ended.as_deref(), Some("exit code 3"));
    assert_eq!(findings.run.architecture, "x86_64");
    // From the header's start to the ending.
    assert_eq!(findings.run.duration_ns, 1_000_000_000);
    let last = findings.timeline.last().unwrap();
    assert_eq!((last.time_ns, last.live_bytes), (1_000_000_000, 5));
}
