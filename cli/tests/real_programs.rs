//! Programs that we did not write (and one threaded one that we did), captured
//! whole: nothing is lost, and allocations, frees and bytes equal an independent
//! count of the same run.
//!
//! The count comes from `testdata/programs/count_preload.c`, which stands before
//! the allocator and forwards to the probed functions.

#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    ffi::OsString,
    fs::{self, File},
    path::Path,
    process::Command,
};
use support::{Privileged, findings, programs, repository, succeeds};

/// One program and what must hold of it beside the counts.
struct Expectation<'a> {
    name: &'a str,
    command: Vec<OsString>,
    /// Functions of which each must be in some stack; after a bar, another name
    /// of it (the C library's separate debug information has its own).
    functions: &'a [&'a str],
    /// How many of a hundred stacks must end at a root. At the default copy of
    /// 32 KiB, Rust's deep frames do not all fit; its share is stated here.
    rooted_percent: f64,
}

/// The counters, in the order of `count_preload.c`.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    allocations: u64,
    frees: u64,
    bytes: u64,
    failed: u64,
    null_frees: u64,
}

impl Counts {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let at = |place: usize| u64::from_ne_bytes(bytes[place * 8..][..8].try_into().unwrap());
        assert!(at(5) > 0, "no program was loaded with the counter");
        Self {
            allocations: at(0),
            frees: at(1),
            bytes: at(2),
            failed: at(3),
            null_frees: at(4),
        }
    }
}

fn check(expected: &Expectation, prepare: impl FnOnce(&mut Command)) {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let folder = machine.folder.path();
    let preload = programs::build_preload(folder, "count_preload.c");
    let with_env = programs::build(folder, "with_env.c", &["-O2"]);
    let counters = machine.path("counters");
    fs::write(&counters, [0; 64]).unwrap();

    let setting = |name: &str, path: &Path| {
        let mut text = OsString::from(name);
        text.push("=");
        text.push(path);
        text
    };
    let mut command = vec![
        with_env.into_os_string(),
        setting("LD_PRELOAD", &preload),
        setting("MEMTRACK_COUNT", &counters),
        "--".into(),
    ];
    command.extend(expected.command.iter().cloned());
    let artifact = machine.capture(expected.name, command, prepare);

    let found = findings(&artifact, false);
    let name = expected.name;
    assert!(
        found.verdict.complete,
        "{name}: {} {:?}",
        found.verdict.headline, found.verdict.problems
    );
    let counted = Counts::read(&counters);
    let recorded = Counts {
        allocations: found.totals.allocations,
        // The counter cannot tell whose block it was: a child frees its copies too.
        frees: found.totals.frees + found.totals.inherited_frees,
        bytes: found.totals.allocated_bytes,
        failed: found.totals.failed,
        null_frees: found.totals.null_frees,
    };
    assert_eq!(
        recorded, counted,
        "{name}: recorded is left, counted is right"
    );

    assert_eq!(found.totals.ended_unseen, 0, "{name}: a free was missed");

    let rooted = found.rooted_percent();
    println!(
        "{name}: {counted:?}, {} stacks, {rooted:.2} % end at a root, {:?}",
        found.stacks.len(),
        found.terminations
    );
    assert!(
        rooted >= expected.rooted_percent,
        "{name}: {rooted:.2} % of {} stacks end at a root, the rest: {:?}",
        found.stacks.len(),
        found.terminations
    );
    for function in expected.functions {
        assert!(
            function.split('|').any(|name| found.names(name)),
            "{name}: no frame is named {function}"
        );
    }
    for module in &found.modules {
        assert!(
            module.named == module.asked || !module.notes.is_empty(),
            "{name}: {} names {} of {} addresses and does not say why",
            module.path,
            module.named,
            module.asked
        );
    }
}

fn words<const N: usize>(words: [&dyn AsRef<std::ffi::OsStr>; N]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

#[test]
fn privileged_python_building_json() {
    check(
        &Expectation {
            name: "python.mtk",
            command: words([
                &programs::python(),
                &programs::source_path("json_work.py"),
                &"1",
                &"4000",
            ]),
            functions: &["Py_BytesMain", "PyObject_Vectorcall"],
            rooted_percent: 97.0,
        },
        |_| {},
    );
}

#[test]
fn privileged_python_without_its_own_allocator() {
    check(
        &Expectation {
            name: "python-malloc.mtk",
            command: words([
                &programs::python(),
                &programs::source_path("json_work.py"),
                &"1",
                &"150",
            ]),
            functions: &["Py_BytesMain", "PyDict_New"],
            rooted_percent: 97.0,
        },
        |command| {
            command.env("PYTHONMALLOC", "malloc");
        },
    );
}

#[test]
fn privileged_sqlite_inserting_rows() {
    let script = tempfile::NamedTempFile::new().unwrap();
    let mut text =
        String::from("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INTEGER);\nBEGIN;\n");
    for row in 0..200_000 {
        text.push_str(&format!(
            "INSERT INTO t VALUES ({row}, 'row {row}', {});\n",
            row * 7 % 1000
        ));
    }
    text.push_str("COMMIT;\nSELECT count(*), sum(n) FROM t;\n");
    fs::write(script.path(), text).unwrap();
    check(
        &Expectation {
            name: "sqlite.mtk",
            command: words([&programs::find("sqlite3"), &":memory:"]),
            functions: &["sqlite3_exec", "__libc_start_main|__libc_start_main_impl"],
            rooted_percent: 97.0,
        },
        |command| {
            command.stdin(File::open(script.path()).unwrap());
        },
    );
}

#[test]
fn privileged_git_log() {
    check(
        &Expectation {
            name: "git.mtk",
            command: words([
                &programs::find("git"),
                &"-c",
                &"safe.directory=*",
                &"-C",
                &repository(),
                &"log",
                &"-p",
            ]),
            functions: &["__libc_start_main|__libc_start_main_impl"],
            rooted_percent: 97.0,
        },
        |_| {},
    );
}

#[test]
fn privileged_cxx_compiler() {
    check(
        &Expectation {
            name: "cxx.mtk",
            command: words([
                &programs::find("g++"),
                &"-c",
                &programs::source_path("cxx_input.cc"),
                &"-o",
                &"/dev/null",
            ]),
            functions: &["__libc_start_main|__libc_start_main_impl"],
            rooted_percent: 97.0,
        },
        |_| {},
    );
}

/// cargo is a Rust program of some size that is there wherever this test is.
#[test]
fn privileged_cargo() {
    let command = words([
        &programs::cargo(),
        &"tree",
        &"--workspace",
        &"--edges",
        &"normal",
        &"--manifest-path",
        &repository().join("Cargo.toml"),
    ]);
    // Once before, so that what it asks for over the network is there.
    succeeds(Command::new(&command[0]).args(&command[1..]));
    check(
        &Expectation {
            name: "cargo.mtk",
            command,
            functions: &["cargo::main"],
            rooted_percent: 30.0,
        },
        |command| {
            command.env("CARGO_NET_OFFLINE", "true");
        },
    );
}

#[test]
fn privileged_threads() {
    let folder = tempfile::tempdir().unwrap();
    let program = programs::build(
        folder.path(),
        "threads.cc",
        &["-std=c++17", "-g", "-O2", "-pthread"],
    );
    check(
        &Expectation {
            name: "threads.mtk",
            command: words([&program]),
            functions: &["(anonymous namespace)::work", "(anonymous namespace)::grow"],
            rooted_percent: 97.0,
        },
        |_| {},
    );
}
