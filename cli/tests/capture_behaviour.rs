//! `memtrack capture` beside a command: the command runs as it would alone, and
//! whatever happens to either, the artifact tells the truth.

#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::Path,
    process::{Child, Command, Output, Stdio},
};
use support::{Privileged, memtrack, programs, succeeds};

fn capture(artifact: &Path, options: &[&str], command: &[&str]) -> Command {
    let mut capture = memtrack();
    capture
        .arg("capture")
        .arg("-o")
        .arg(artifact)
        .args(options)
        .arg("--")
        .args(command);
    capture
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn inspect(artifact: &Path) -> serde_json::Value {
    let output = succeeds(memtrack().args(["inspect", "--json"]).arg(artifact));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Signals a process (or, with a leading minus, a process group).
fn signal(name: &str, whom: &str) {
    succeeds(Command::new("kill").args(["-s", name, "--", whom]));
}

/// Starts a command that prints a line when it is ready, and waits for that line.
fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, lines)
}

#[test]
fn privileged_streams_folder_and_environment_are_the_commands_own() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let artifact = machine.path("run.mtk");
    let script = "cat; pwd; echo \"$MEMTRACK_TEST\"; echo words >&2";
    let mut child = capture(&artifact, &[], &["sh", "-c", script])
        .current_dir(machine.folder.path())
        .env("MEMTRACK_TEST", "a value")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"input\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let folder = fs::canonicalize(machine.folder.path()).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("input\n{}\na value\n", folder.display()),
        "standard output is the command's alone"
    );
    let words = stderr(&output);
    assert!(words.starts_with("words\n"), "{words}");
    assert!(words.contains("complete:"), "the closing line: {words}");
    assert!(output.status.success());
}

#[test]
fn privileged_the_status_is_the_commands_own() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let plain = machine.path("plain");
    fs::write(&plain, "no program").unwrap();
    let plain = plain.to_str().unwrap();
    let cases: [(&[&str], i32); 6] = [
        (&["true"], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["no-such-command-anywhere"], 127),
        (&[plain], 126),
    ];
    for (command, status) in cases {
        let output = capture(&machine.path("run.mtk"), &[], command)
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(status),
            "{command:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn privileged_without_a_name_the_artifact_is_called_after_the_command() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    succeeds(
        memtrack()
            .args(["capture", "--", "true"])
            .current_dir(machine.folder.path()),
    );
    let names: Vec<String> = fs::read_dir(machine.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("memtrack-true-") && name.ends_with(".mtk"))
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let pid = names[0]
        .trim_start_matches("memtrack-true-")
        .trim_end_matches(".mtk");
    assert!(pid.parse::<u32>().is_ok(), "{names:?}");
}

#[test]
fn privileged_an_output_that_cannot_be_written_stops_before_the_command_runs() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let marker = machine.path("marker");
    let nowhere = machine.path("no-such-folder/run.mtk");
    let output = capture(&nowhere, &[], &["touch", marker.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("no-such-folder"),
        "{}",
        stderr(&output)
    );
    assert!(!marker.exists(), "the command ran");
}

#[test]
fn privileged_an_interrupt_reaches_the_command_once() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let artifact = machine.path("run.mtk");
    let script = "
import signal, sys, time
count = 0
def on(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, on)
print('ready', flush=True)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    time.sleep(0.05)
print(count)
";
    let python = programs::python();
    let (mut child, mut lines) = started(
        capture(&artifact, &[], &[python.to_str().unwrap(), "-c", script])
            .process_group(0)
            .stderr(Stdio::null()),
    );
    // As a terminal does: to the whole foreground group.
    signal("INT", &format!("-{}", child.id()));
    let mut counted = String::new();
    lines.read_line(&mut counted).unwrap();
    assert_eq!(counted, "1\n");
    assert!(child.wait().unwrap().success());
    assert_eq!(inspect(&artifact)["complete"], true);
}

#[test]
fn privileged_a_killed_memtrack_leaves_an_artifact_that_opens_and_says_so() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let artifact = machine.path("run.mtk");
    let script = "
import time
kept = [b'x' * (600 + n) for n in range(2000)]
time.sleep(1)
print('ready', flush=True)
time.sleep(60)
";
    let python = programs::python();
    let (mut child, _lines) = started(
        capture(&artifact, &[], &[python.to_str().unwrap(), "-c", script])
            .process_group(0)
            .stderr(Stdio::null()),
    );
    signal("KILL", &child.id().to_string());
    child.wait().unwrap();
    // The command may have ended with memtrack or live on; it is not stopped.
    let _ = Command::new("kill")
        .args(["-s", "KILL", "--", &format!("-{}", child.id())])
        .output();

    let held = inspect(&artifact);
    assert_eq!(held["complete"], false, "{held:#}");
    let strict = memtrack()
        .args(["inspect", "--require-complete"])
        .arg(&artifact)
        .output()
        .unwrap();
    assert_eq!(strict.status.code(), Some(3), "{}", stderr(&strict));
    let report = succeeds(memtrack().arg("report").arg(&artifact));
    let text = String::from_utf8_lossy(&report.stdout).to_lowercase();
    assert!(text.contains("incomplete"), "{text}");
}

#[test]
fn privileged_loss_decides_the_status_and_the_closing_line() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let pairs = programs::build(machine.folder.path(), "pairs.c", &["-O2", "-fno-builtin"]);
    let artifact = machine.path("run.mtk");
    let command = [pairs.to_str().unwrap(), "300000"];
    // The smallest ring there is: likely, but not surely, too small.
    let output = capture(&artifact, &["--event-ring", "256K"], &command)
        .output()
        .unwrap();
    let words = stderr(&output);
    let lost = words.contains("INCOMPLETE");
    assert_eq!(
        output.status.code(),
        Some(if lost { 3 } else { 0 }),
        "{words}"
    );
    let held = inspect(&artifact);
    assert_eq!(held["complete"], !lost, "{held:#}");
    let counts = held["losses"]["counts"].as_object().unwrap();
    assert_eq!(counts.is_empty(), !lost, "{counts:?}");
    if !lost {
        assert_eq!(held["events_by_kind"]["malloc"].as_u64(), Some(300_001));
    }
    let output = capture(
        &artifact,
        &["--event-ring", "256K", "--allow-loss"],
        &command,
    )
    .output()
    .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn privileged_stacks_can_be_switched_off() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let pairs = programs::build(machine.folder.path(), "pairs.c", &["-O2", "-fno-builtin"]);
    for (way, some) in [("off", false), ("raw", true)] {
        let artifact = machine.path(&format!("{way}.mtk"));
        let command = [pairs.to_str().unwrap(), "1000"];
        succeeds(&mut capture(&artifact, &["--stacks", way], &command));
        let held = inspect(&artifact);
        assert_eq!(
            held["stacks"].as_u64().unwrap() > 0,
            some,
            "{way}: {held:#}"
        );
        assert!(held["events"].as_u64().unwrap() >= 2000, "{way}: {held:#}");
    }
}

/// sudo says who asked; the command runs as that user, and the artifact is theirs.
#[test]
fn privileged_under_sudo_the_command_is_the_invoking_users() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let artifact = machine.path("run.mtk");
    let output = succeeds(
        capture(&artifact, &[], &["sh", "-c", "id -u; id -g; id -G"])
            .env("SUDO_UID", "65534")
            .env("SUDO_GID", "65534")
            .env("SUDO_USER", "nobody"),
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "65534\n65534\n65534\n"
    );
    assert_eq!(
        fs::metadata(&artifact).unwrap().uid(),
        65534,
        "{}",
        stderr(&output)
    );
}

/// The artifact stands alone: in another folder, without the program's files, it
/// gives the same report.
#[test]
fn privileged_an_artifact_stands_alone() {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let built = machine.path("built");
    fs::create_dir(&built).unwrap();
    let flags = ["-std=c++17", "-g", "-O2", "-pthread"];
    let program = programs::build(&built, "threads.cc", &flags);
    let artifact = machine.capture("run.mtk", [program.as_os_str()], |_| {});
    let here = report(&artifact);

    let elsewhere = machine.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let moved = elsewhere.join("moved.mtk");
    fs::rename(&artifact, &moved).unwrap();
    fs::rename(&built, machine.path("gone")).unwrap();
    let there = report(&moved);
    assert!(here == there, "the moved artifact gives another report");
}

fn report(artifact: &Path) -> Vec<u8> {
    succeeds(memtrack().arg("symbolize").arg(artifact));
    succeeds(
        memtrack()
            .arg("report")
            .arg(artifact)
            .args(["--json", "--detail"]),
    )
    .stdout
}
