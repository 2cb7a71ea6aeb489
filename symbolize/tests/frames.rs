//! Stacks of a program whose frames are hard to leave: what they must be is
//! known by construction (`testdata/programs/unwind_frames.c`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod recording;

use memtrack_artifact::{Silent, StackId, Symbols, Termination};
use memtrack_symbolize::{Options, symbolize};
use recording::{Plan, Recording, can_compile, compile, record, sources};
use std::process::Command;

fn frames_program() -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("frames");
    compile(
        "gcc",
        &[
            "-O1",
            "-g",
            "-pthread",
            "-fomit-frame-pointer",
            "-fno-optimize-sibling-calls",
        ],
        &sources().join("unwind_frames.c"),
        &program,
    );
    let plan = Plan {
        bytes: 1 << 20,
        ..Plan::default()
    };
    record(folder.path(), &mut Command::new(program), plan)
}

/// The stack of the site with this size: names of physical frames, and why it
/// ends.
fn site<'s>(recording: &Recording, symbols: &'s Symbols, size: u64) -> (Vec<&'s str>, Termination) {
    const RDI: usize = 5;
    let position = recording
        .stacks
        .iter()
        .position(|stack| stack.registers[RDI] == size)
        .unwrap_or_else(|| panic!("no call with size {size}"));
    let id = StackId(u32::try_from(position).unwrap());
    let names = symbols
        .stack(id)
        .iter()
        .filter_map(|id| symbols.frame(*id))
        .filter(|frame| !frame.inline)
        .map(|frame| match frame.function {
            _ if frame.signal => "<signal>",
            Some(name) => symbols.string(name),
            None => "?",
        })
        .collect();
    (names, symbols.stacks[position].termination)
}

#[test]
fn hard_frames_are_left_as_they_were_entered() {
    if !can_compile() {
        return;
    }
    let recording = frames_program();
    let artifact = recording.artifact();
    let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();

    let deep = ["deep"; 21];
    let main: [(u64, &[&str]); 8] = [
        (7001, &["site", "realigned", "main"]),
        (7002, &["site", "wide", "main"]),
        (7003, &["site", "on_rbx", "main"]),
        (7004, &["site", "clobber", "on_rbx", "main"]),
        (7005, &["site", "by_expression", "main"]),
        (
            7006,
            &[
                "site",
                "handler",
                "<signal>",
                "fault_first",
                "fault_now",
                "on_rbx",
                "main",
            ],
        ),
        (7009, &[&["site"], &deep[..], &["main"]].concat()),
        (7010, &["site", "leave", "last_call", "main"]),
    ];
    for (size, expected) in main {
        let (names, end) = site(&recording, &symbols, size);
        assert_eq!(names[0], "malloc", "{size}");
        assert_eq!(&names[1..=expected.len()], expected, "{size}");
        assert_eq!(names.last(), Some(&"_start"), "{size}");
        assert_eq!(end, Termination::Root, "{size}");
    }

    let (names, end) = site(&recording, &symbols, 7008);
    assert_eq!(&names[..3], ["malloc", "site", "thread"]);
    assert!(!names.contains(&"main") && !names.contains(&"_start"));
    assert_eq!(end, Termination::Root);
}

#[test]
fn a_signal_stack_ends_where_its_copy_ends() {
    if !can_compile() {
        return;
    }
    let recording = frames_program();
    let symbols = symbolize(&recording.artifact(), &Options::default(), &Silent).unwrap();
    let (names, end) = site(&recording, &symbols, 7007);
    // The interrupted frame is known, as its registers lie on the signal stack.
    // Its caller's return address is on the other stack.
    assert_eq!(
        names,
        ["malloc", "site", "handler", "<signal>", "fault_first"]
    );
    assert_eq!(end, Termination::ReadFailed);
}

#[test]
fn a_short_copy_gives_the_inner_frames_and_says_how_much_is_missing() {
    if !can_compile() {
        return;
    }
    let mut recording = frames_program();
    for stack in &mut recording.stacks {
        stack.window.truncate(4096);
    }
    let symbols = symbolize(&recording.artifact(), &Options::default(), &Silent).unwrap();
    let (names, end) = site(&recording, &symbols, 7002);
    assert_eq!(names, ["malloc", "site", "wide"]);
    let Termination::CopyTooShort { needed_bytes } = end else {
        panic!("{end:?}");
    };
    assert!(
        (596 << 10..604 << 10).contains(&needed_bytes),
        "{needed_bytes}"
    );
}

#[test]
fn any_number_of_threads_gives_the_same_result() {
    if !can_compile() {
        return;
    }
    let artifact = frames_program().artifact();
    let with = |threads| {
        let options = Options {
            threads,
            ..Options::default()
        };
        symbolize(&artifact, &options, &Silent).unwrap()
    };
    let one = with(1);
    for threads in [2, 5, 16] {
        assert!(one == with(threads), "{threads} threads");
    }
}
