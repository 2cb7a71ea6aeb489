//! Real programs, unwound by this room and by framehop: frame by frame the
//! same.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod recording;

use memtrack_artifact::{Silent, StackId, Symbols, Termination};
use memtrack_symbolize::{Options, stages, symbolize};
use recording::{Plan, Recording, can_compile, record};
use std::{collections::HashMap, path::Path, process::Command};

/// A program's own path, if it is installed. Wrappers (scripts that start the
/// program) are followed for python.
fn program(name: &str) -> Option<String> {
    let output = Command::new("sh")
        .args(["-c", &format!("command -v {name}")])
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && Path::new(&path).exists()).then_some(path)
}

fn agree(name: &str, recording: &Recording) {
    let artifact = recording.artifact();
    let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
    let fast = stages::unwind(&artifact, false).unwrap();
    let exact = stages::unwind(&artifact, true).unwrap();
    for (position, (fast, exact)) in fast.stacks().zip(exact.stacks()).enumerate() {
        assert_eq!(
            fast, exact,
            "{name}, stack {position}: fast and exact walk differ"
        );
    }

    let biases = recording::peer::biases(recording, &artifact);
    let mut peer = recording::peer::Peer::new(recording);
    let mut theirs = Vec::new();
    let (mut frames, mut further) = (0, 0);
    for (id, stack) in (0..).zip(&recording.stacks) {
        let ours = addresses(&symbols, StackId(id), &biases);
        let rooted = peer.walk(stack, &mut theirs);
        let end = symbols.stacks[id as usize].termination;
        if rooted {
            assert_eq!(ours, theirs, "{name}, stack {id}: {end:?}");
            assert_eq!(end, Termination::Root, "{name}, stack {id}");
        } else {
            // Where the other gives up ours may go on, never fall short.
            assert!(
                ours.starts_with(&theirs),
                "{name}, stack {id}: {end:?}\n{ours:x?}\n{theirs:x?}"
            );
            further += usize::from(ours.len() > theirs.len());
        }
        frames += ours.len();
    }
    println!(
        "{name}: {} stacks, {frames} frames the same; {further} stacks longer here",
        recording.stacks.len()
    );
    assert!(
        recording.stacks.len() > 100,
        "{name}: too few stacks to tell"
    );
}

/// Look-up addresses of the physical frames, in the process's terms.
fn addresses(symbols: &Symbols, id: StackId, biases: &HashMap<u32, u64>) -> Vec<u64> {
    symbols
        .stack(id)
        .iter()
        .filter_map(|id| symbols.frame(*id))
        .filter(|frame| !frame.inline)
        .map(|frame| {
            let bias = frame.module.map_or(0, |module| biases[&module.0]);
            frame.address.0.wrapping_add(bias)
        })
        .collect()
}

fn run(name: &str, arguments: &[&str], input: Option<&str>, plan: Plan) {
    if !can_compile() {
        return;
    }
    let Some(path) = program(name) else {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{name} is missing; install it"
        );
        eprintln!("skipped: {name} is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(path);
    command.args(arguments).current_dir(folder.path());
    command.stdout(std::process::Stdio::null());
    if let Some(input) = input {
        std::fs::write(folder.path().join("input"), input).unwrap();
    }
    let recording = record(folder.path(), &mut command, plan);
    agree(name, &recording);
}

#[test]
fn perl() {
    let text = "my %h; $h{$_} = [1..$_ % 50] for 1..2000; print scalar keys %h";
    run(
        "perl",
        &["-e", text],
        None,
        Plan {
            every: 7,
            ..Plan::default()
        },
    );
}

#[test]
fn python() {
    let text = "import sys; print(sys.executable)";
    let Ok(output) = Command::new("python3").args(["-c", text]).output() else {
        eprintln!("skipped: python3 is not installed");
        return;
    };
    let path = String::from_utf8(output.stdout).unwrap();
    let text = "import json; print(len(json.dumps([{'a': i} for i in range(9999)])))";
    let plan = Plan {
        every: 11,
        max: 3000,
        ..Plan::default()
    };
    run(path.trim(), &["-c", text], None, plan);
}

#[test]
fn compiler() {
    let output = Command::new("gcc").arg("-print-prog-name=cc1").output();
    let Ok(output) = output else { return };
    let path = String::from_utf8(output.stdout).unwrap();
    let input = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        int main(int c, char **v) { for (int i = 0; i < c; i++) puts(v[i]); return 0; }\n";
    let arguments = [
        "-quiet",
        "-O2",
        "-imultiarch",
        "x86_64-linux-gnu",
        "input",
        "-o",
        "out",
    ];
    run(
        path.trim(),
        &arguments,
        Some(input),
        Plan {
            every: 5,
            max: 3000,
            ..Plan::default()
        },
    );
}

#[test]
fn shell_and_git() {
    run("git", &["init", "-q", "repository"], None, Plan::default());
}
