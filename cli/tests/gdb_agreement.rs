//! The innermost five frames of twenty stacks of each program, as memtrack and as
//! gdb see them: by name where gdb has one, by address everywhere.
//!
//! Both runs are made alike (no address randomisation, the same environment and
//! the same preloaded library), and a stack is picked by its request size, which
//! occurs once in the run. `testdata/programs/stop_preload.c` gives gdb a place to
//! stop at those sizes and nowhere else.

#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

mod support;

use serde::Deserialize;
use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    process::{Command, Stdio},
};
use support::{
    Privileged, findings,
    findings::{Findings, Frame},
    programs, repository, succeeds,
};

const STACKS: usize = 20;
const FRAMES: usize = 5;

#[derive(Deserialize)]
struct Seen {
    size: u64,
    frames: Vec<SeenFrame>,
}

#[derive(Debug, Deserialize)]
struct SeenFrame {
    name: Option<String>,
    inline: bool,
    module: Option<String>,
    address: u64,
}

fn check(name: &str, command: &[OsString], environment: &[(&str, &str)]) {
    let Some(machine) = Privileged::enter() else {
        return;
    };
    let folder = machine.folder.path();
    let preload = programs::build_preload(folder, "stop_preload.c");
    let with_env = programs::build(folder, "with_env.c", &["-O2"]);
    let sizes = machine.path("sizes");
    write_sizes(&sizes, &[]);

    let mut recorded = words([&"setarch", &"-R", &with_env]);
    recorded.push(joined("LD_PRELOAD=", &preload));
    recorded.push(joined("MEMTRACK_STOP=", &sizes));
    recorded.push("--".into());
    recorded.extend_from_slice(command);
    let artifact = machine.capture(&format!("{name}.mtk"), recorded, |capture| {
        plain_environment(capture, environment);
    });
    let found = findings(&artifact, true);
    let unique = unique_sizes(&found);
    write_sizes(&sizes, &unique.keys().copied().collect::<Vec<_>>());

    let out = machine.path("gdb.jsonl");
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-q", "-batch", "-x"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/gdb_stacks.py"))
        .arg("--args")
        .args(command)
        .stdin(Stdio::null());
    plain_environment(&mut gdb, environment);
    gdb.env("GDB_PRELOAD", &preload)
        .env("GDB_SIZES", &sizes)
        .env("GDB_OUT", &out);
    let said = succeeds(&mut gdb);

    let mut by_size: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
    for line in fs::read_to_string(&out).unwrap().lines() {
        let seen: Seen = serde_json::from_str(line).unwrap();
        by_size.entry(seen.size).or_default().push(seen);
    }
    // A size that gdb's run asked for more than once is no key.
    let compared: Vec<&Seen> = by_size
        .values()
        .filter(|seen| seen.len() == 1)
        .map(|seen| &seen[0])
        .collect();
    let faults: Vec<String> = compared
        .iter()
        .filter_map(|seen| differs(seen, &found, unique[&seen.size]))
        .collect();
    println!(
        "{name}: {} stacks compared, {} differ",
        compared.len(),
        faults.len()
    );
    assert!(faults.is_empty(), "{name}: {}", faults.join("\n"));
    assert!(
        compared.len() >= STACKS.min(unique.len()) && compared.len() >= 5,
        "{name}: {} sizes occur once in the capture, gdb saw {} of them\n{}",
        unique.len(),
        compared.len(),
        String::from_utf8_lossy(&said.stderr)
    );
}

/// Sizes asked for once, of different stacks as far as there are enough: size to
/// stack.
fn unique_sizes(found: &Findings) -> BTreeMap<u64, usize> {
    let mut calls: HashMap<u64, u64> = HashMap::new();
    for detail in &found.detail {
        *calls.entry(detail.size).or_default() += detail.calls;
    }
    let mut by_stack: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for detail in &found.detail {
        if let Some(stack) = detail.stack
            && calls[&detail.size] == 1
            && detail.calls == 1
            && detail.size > 0
        {
            by_stack.entry(stack).or_default().push(detail.size);
        }
    }
    // Spread over the run: every n-th stack, so that they are not all of the start.
    let stacks: Vec<(usize, u64)> = by_stack
        .iter()
        .map(|(&at, sizes)| (sizes[0], at))
        .map(|(size, at)| (at, size))
        .collect();
    let step = (stacks.len() / (2 * STACKS)).max(1);
    stacks
        .iter()
        .step_by(step)
        .map(|&(stack, size)| (size, stack))
        .collect()
}

/// What differs between gdb's frames and memtrack's, or `None`.
fn differs(seen: &Seen, found: &Findings, stack: usize) -> Option<String> {
    let stack = &found.stacks[stack];
    let mut ours = found.callers(stack);
    // The preloaded function stands between the probed one and the caller.
    let own = ours.iter().take_while(|frame| frame.inline).count() + 1;
    ours.drain(..own.min(ours.len()));
    ours.truncate(FRAMES);
    let same_length = ours.len() == seen.frames.len().min(FRAMES) || stack.truncated.is_some();
    let same = ours
        .iter()
        .zip(&seen.frames)
        .all(|(our, gdb)| agrees(our, gdb));
    (!same_length || !same).then(|| {
        let ours: Vec<_> = ours
            .iter()
            .map(|frame| {
                format!(
                    "{:?} {:#x} in {:?} inline={}",
                    frame.function, frame.address, frame.module, frame.inline
                )
            })
            .collect();
        let gdb: Vec<_> = seen
            .frames
            .iter()
            .map(|frame| {
                format!(
                    "{:?} {:#x} in {:?} inline={}",
                    frame.name, frame.address, frame.module, frame.inline
                )
            })
            .collect();
        format!(
            "size {}\n  memtrack:\n    {}\n  gdb:\n    {}",
            seen.size,
            ours.join("\n    "),
            gdb.join("\n    ")
        )
    })
}

fn agrees(our: &Frame, gdb: &SeenFrame) -> bool {
    let same_name = match (&gdb.name, &our.function) {
        (Some(gdb), Some(our)) => base(gdb) == base(our),
        (Some(_), None) => false,
        (None, _) => true,
    };
    // gdb shows the address after the call, memtrack may look up the one before.
    let same_address =
        our.address == gdb.address || our.address.checked_add(1) == Some(gdb.address);
    same_name && our.inline == gdb.inline && (our.inline || same_address)
}

/// A name without parameters, template arguments, return type and clone suffix.
fn base(name: &str) -> String {
    let name = name.replace("(anonymous namespace)", "{anonymous}");
    let (mut kept, mut depth) = (String::new(), 0);
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            '(' if depth == 0 => break,
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    let kept = kept.trim().rsplit(' ').next().unwrap_or_default();
    for suffix in [".constprop", ".isra", ".part", ".cold", ".lto_priv"] {
        if let Some((before, _)) = kept.split_once(suffix) {
            return before.to_owned();
        }
    }
    kept.to_owned()
}

/// The same few variables in both runs.
fn plain_environment(command: &mut Command, more: &[(&str, &str)]) {
    command.env_clear();
    for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("LC_ALL", "C").envs(more.iter().copied());
}

fn write_sizes(path: &Path, sizes: &[u64]) {
    let mut bytes = (sizes.len() as u64).to_ne_bytes().to_vec();
    for size in sizes {
        bytes.extend(size.to_ne_bytes());
    }
    fs::write(path, bytes).unwrap();
}

fn joined(name: &str, path: &Path) -> OsString {
    let mut text = OsString::from(name);
    text.push(path);
    text
}

fn words<const N: usize>(words: [&dyn AsRef<OsStr>; N]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

#[test]
fn privileged_python_agrees() {
    let work = programs::source_path("json_work.py");
    let command = words([&programs::python(), &work, &"1", &"300"]);
    check(
        "python",
        &command,
        &[("PYTHONHASHSEED", "0"), ("PYTHONMALLOC", "malloc")],
    );
}

#[test]
fn privileged_sqlite_agrees() {
    let rows = "CREATE TABLE t (n INTEGER, name TEXT); \
        INSERT INTO t SELECT value, printf('%.*c', value, 'x') FROM \
        (WITH RECURSIVE c(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM c LIMIT 900) SELECT value FROM c); \
        SELECT group_concat(name), sum(length(name || name)) FROM t GROUP BY n % 40;";
    check(
        "sqlite",
        &words([&programs::find("sqlite3"), &":memory:", &rows]),
        &[],
    );
}

#[test]
fn privileged_git_agrees() {
    let command = words([
        &programs::find("git"),
        &"-c",
        &"safe.directory=*",
        &"-C",
        &repository(),
        &"log",
        &"-p",
    ]);
    check("git", &command, &[]);
}

#[test]
fn privileged_cxx_compiler_agrees() {
    let input = programs::source_path("threads.cc");
    let folder = programs::multiarch();
    let command = words([
        &programs::cc1plus(),
        &"-quiet",
        &"-std=c++17",
        &"-imultiarch",
        &folder,
        &input,
        &"-o",
        &"/dev/null",
    ]);
    check("cc1plus", &command, &[]);
}

#[test]
fn privileged_cargo_agrees() {
    let manifest = repository().join("Cargo.toml");
    let command = words([
        &programs::cargo(),
        &"metadata",
        &"--no-deps",
        &"--format-version",
        &"1",
        &"--manifest-path",
        &manifest,
    ]);
    check("cargo", &command, &[("CARGO_NET_OFFLINE", "true")]);
}

#[test]
fn privileged_threads_agree() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-std=c++17", "-g", "-O2", "-pthread"];
    let program = programs::build(folder.path(), "threads.cc", &flags);
    check("threads", &words([&program, &"24", &"50"]), &[]);
}
