//! The command runs as it would alone.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use common::{Recorded, Stage};
use memtrack_artifact::{Artifact, ExitStatus, PauseReason, Silent};
use memtrack_capture::{Error, Options, StackMode, run};
use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

/// Set in the copy of this test program that records and is killed.
const RECORDER: &str = "MEMTRACK_TEST_RECORDER";

#[test]
fn its_exit_status_is_told() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_state.c", &[]);
    let status = |how: &str, number: &str| {
        stage
            .record([program.as_os_str(), how.as_ref(), number.as_ref()])
            .outcome
            .status
    };
    assert_eq!(status("exit", "0"), ExitStatus::Code(0));
    assert_eq!(status("exit", "77"), ExitStatus::Code(77));
    assert_eq!(status("signal", "9"), ExitStatus::Signal(9));
    assert_eq!(status("signal", "15"), ExitStatus::Signal(15));
}

#[test]
fn a_command_that_cannot_run_is_an_error_and_leaves_no_file() {
    let Some(stage) = Stage::set() else { return };
    let options = stage.options(["/nonexistent/command"]);
    let error = run(&options, &Silent).unwrap_err();
    assert!(matches!(error, Error::CommandNotFound { .. }), "{error}");
    assert_eq!(error.shell_status(), Some(127));
    assert!(!stage.path("run.mtk").exists());

    let options = stage.options(["/etc/passwd"]);
    let error = run(&options, &Silent).unwrap_err();
    assert_eq!(error.shell_status(), Some(126), "{error}");

    let options = Options {
        output: Some(PathBuf::from("/nonexistent/run.mtk")),
        ..stage.options(["true"])
    };
    assert!(matches!(run(&options, &Silent), Err(Error::Output { .. })));
}

/// What it inherits is compared with what it inherits from a shell's exec.
#[test]
fn it_inherits_what_it_would_alone() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_state.c", &[]);
    for before in [
        "",
        "trap '' PIPE; ",
        "trap '' INT HUP; ",
        "trap '' CHLD XFSZ; ",
        "exec <&-; ",
    ] {
        let outputs = ["", "recorded"].map(|recorded| {
            let script = format!("{before}exec \"$@\"");
            let mut shell = Command::new("sh");
            shell.args(["-c", &script, "sh"]);
            if recorded.is_empty() {
                shell.arg(&program);
            } else {
                shell.arg(std::env::current_exe().unwrap());
                shell.args(["--exact", "recorder", "--nocapture"]);
                shell.env(RECORDER, &program);
                shell.env("MEMTRACK_TEST_OUTPUT", stage.path("state.mtk"));
            }
            let output = shell.current_dir("/").output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            let kept = text.lines().filter_map(told);
            kept.collect::<Vec<_>>()
        });
        assert_eq!(outputs[0], outputs[1], "{before}");
        assert!(outputs[0].len() > 6, "{outputs:?}");
    }
}

/// The line as far as it is memtrack's doing.
fn told(line: &str) -> Option<String> {
    const BEGINNINGS: [&str; 9] = [
        "SigBlk", "SigCgt", "Uid", "Gid", "Groups", "group", "folder", "open", "SigPnd",
    ];
    if let Some(set) = line.strip_prefix("SigIgn:") {
        // 32 and 33 are glibc's own: it takes them when it makes a thread,
        // and lets nobody set them.
        let set = u64::from_str_radix(set.trim(), 16).unwrap() & !(3 << 31);
        return Some(format!("ignored {set:x}"));
    }
    BEGINNINGS
        .iter()
        .any(|begin| line.starts_with(begin))
        .then(|| line.to_owned())
}

/// Not a test of its own: the process that others start to have it record.
#[test]
fn recorder() {
    let Some(command) = std::env::var_os(RECORDER) else {
        return;
    };
    let options = Options {
        command: vec![command],
        output: std::env::var_os("MEMTRACK_TEST_OUTPUT").map(Into::into),
        // Small, so that the command is stopped again and again.
        event_ring_bytes: 1 << 18,
        stack_ring_bytes: 1 << 18,
        ..Options::default()
    };
    run(&options, &Silent).unwrap();
}

/// Guards the guardian: a process that waits for memtrack when memtrack dies
/// must go on, and the artifact must open.
#[test]
fn a_killed_recorder_leaves_an_artifact_and_no_stopped_process() {
    let Some(stage) = Stage::set() else { return };
    let flood = stage.compile("capture_flood.c", &[]);
    let script = stage.path("script");
    let pid_file = stage.path("pid");
    std::fs::write(
        &script,
        format!(
            "#!/bin/sh\necho $$ > {}\nexec {} 4000000\n",
            pid_file.display(),
            flood.display()
        ),
    )
    .unwrap();
    Command::new("chmod")
        .arg("+x")
        .arg(&script)
        .status()
        .unwrap();
    let output = stage.path("killed.mtk");
    let mut recorder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recorder", "--nocapture"])
        .env(RECORDER, &script)
        .env("MEMTRACK_TEST_OUTPUT", &output)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let pid: i32 = std::fs::read_to_string(&pid_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();

    let artifact = Artifact::open(&output).unwrap();
    assert!(artifact.ending().is_none());
    let events: usize = artifact
        .event_chunks()
        .iter()
        .map(|chunk| chunk.decode().unwrap().len())
        .sum();
    assert!(events > 1000, "{events}");

    // It runs, or has ended: not stopped, two seconds later.
    std::thread::sleep(Duration::from_secs(3));
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        let state = stat.rsplit(')').next().unwrap().trim_start().chars().next();
        assert_ne!(state, Some('T'), "{stat}");
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(pid),
            nix::sys::signal::Signal::SIGKILL,
        );
    }
}

/// With small rings the program is held again and again, and nothing is lost.
#[test]
fn a_flood_is_held_back_and_recorded_whole() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_flood.c", &[]);
    let options = Options {
        event_ring_bytes: 1 << 18,
        stack_ring_bytes: 1 << 18,
        ..stage.options([program.as_os_str(), "10000".as_ref()])
    };
    let recorded = Recorded::of(&options);
    recorded.assert_complete();
    assert_eq!(
        recorded.count(memtrack_artifact::EventKind::Malloc, 5000),
        10_000
    );
    assert_eq!(recorded.frees_of(5000), 10_000);
    let pauses = &recorded.outcome.losses.pauses;
    let pressed = pauses
        .iter()
        .filter(|pause| pause.reason == PauseReason::Pressure);
    assert!(
        pressed.count() > 0,
        "a quarter of a gigabyte passed a quarter of a megabyte"
    );
    assert!(pauses.iter().all(|pause| pause.start_ns <= pause.end_ns));
}

#[test]
fn without_stacks_events_remain() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_flood.c", &[]);
    for (stacks, some) in [(StackMode::Off, false), (StackMode::FramePointer, true)] {
        let options = Options {
            stacks,
            ..stage.options([program.as_os_str(), "100".as_ref()])
        };
        let recorded = Recorded::of(&options);
        recorded.assert_complete();
        assert_eq!(
            recorded.count(memtrack_artifact::EventKind::Malloc, 5000),
            100
        );
        assert_eq!(recorded.outcome.counts.stacks > 0, some);
    }
}

/// A signal sent to memtrack alone reaches the command.
#[test]
fn a_termination_is_handed_on() {
    let Some(stage) = Stage::set() else { return };
    let script = stage.path("script");
    std::fs::write(
        &script,
        "#!/bin/sh\ntrap 'echo told; exit 3' TERM\necho ready\nwhile :; do sleep 0.05; done\n",
    )
    .unwrap();
    Command::new("chmod")
        .arg("+x")
        .arg(&script)
        .status()
        .unwrap();
    let mut recorder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recorder", "--nocapture"])
        .env(RECORDER, &script)
        .env("MEMTRACK_TEST_OUTPUT", stage.path("told.mtk"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "ready" {}
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(recorder.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line == "told"));
    assert!(recorder.wait().unwrap().success());
    let artifact = Artifact::open(&stage.path("told.mtk")).unwrap();
    assert_eq!(artifact.ending().unwrap().status, Some(ExitStatus::Code(3)));
}

/// Ctrl-C reaches the whole group of processes: the command gets it once, and
/// the artifact is still completed.
#[test]
fn an_interrupt_of_the_group_reaches_the_command_once() {
    let Some(stage) = Stage::set() else { return };
    let script = stage.path("script");
    std::fs::write(
        &script,
        "#!/bin/sh\ntrap 'echo told' INT\necho ready\n\
         i=0; while [ $i -lt 20 ]; do sleep 0.05; i=$((i + 1)); done\necho over\n",
    )
    .unwrap();
    Command::new("chmod")
        .arg("+x")
        .arg(&script)
        .status()
        .unwrap();
    let mut recorder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recorder", "--nocapture"])
        .env(RECORDER, &script)
        .env("MEMTRACK_TEST_OUTPUT", stage.path("told.mtk"))
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "ready" {}
    let group = nix::unistd::Pid::from_raw(recorder.id().cast_signed());
    nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGINT).unwrap();
    // To the end: the recorder writes there as well.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(rest.iter().filter(|line| *line == "told").count(), 1);
    assert!(rest.iter().any(|line| line == "over"));
    assert!(recorder.wait().unwrap().success());
    let artifact = Artifact::open(&stage.path("told.mtk")).unwrap();
    assert_eq!(artifact.ending().unwrap().status, Some(ExitStatus::Code(0)));
}

/// Guards the stop of a process whose other threads write on: each has to stop
/// itself, since the first may be late in taking its signal.
#[test]
fn a_crowd_is_held_back_and_nobody_is_left_behind() {
    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_crowd.c", &[]);
    let options = Options {
        event_ring_bytes: 1 << 20,
        stack_ring_bytes: 1 << 20,
        ..stage.options([
            program.as_os_str(),
            "2000".as_ref(),
            "4".as_ref(),
            "8".as_ref(),
        ])
    };
    for _ in 0..3 {
        let recorded = Recorded::of(&options);
        recorded.assert_complete();
        assert_eq!(recorded.outcome.status, ExitStatus::Code(0));
        assert_eq!(
            recorded.count(memtrack_artifact::EventKind::Malloc, 777),
            64_000
        );
        assert_eq!(recorded.frees_of(777), 64_000);
    }
}

/// Under sudo the command runs as the invoking user, and the artifact is theirs.
#[test]
fn under_sudo_the_command_is_the_users() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let Some(stage) = Stage::set() else { return };
    let program = stage.compile("capture_state.c", &[]);
    let folder = program.parent().unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let artifact = stage.path("theirs.mtk");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recorder", "--nocapture"])
        .env(RECORDER, &program)
        .env("MEMTRACK_TEST_OUTPUT", &artifact)
        .env("SUDO_UID", "12345")
        .env("SUDO_GID", "23456")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|rest| rest.split_whitespace().collect::<Vec<_>>())
    };
    assert_eq!(line("Uid:").unwrap(), ["12345"; 4]);
    assert_eq!(line("Gid:").unwrap(), ["23456"; 4]);
    assert_eq!(line("Groups:").unwrap(), ["23456"]);
    let metadata = std::fs::metadata(&artifact).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (12345, 23456));
    assert!(Artifact::open(&artifact).unwrap().ending().is_some());
}
