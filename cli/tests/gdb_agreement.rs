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
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    process::{Command, Stdio},
};
use support::{
    Privileged, findings,
    findings::{Findings, Frame, base},
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

/// Whether two runs of a program make the same calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alike {
    /// All of them.
    Wholly,
    /// But for those that follow from random numbers, as Rust's hash maps do.
    Mostly,
}

fn check(name: &str, alike: Alike, command: &[OsString], environment: &[(&str, &str)]) {
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
    let chosen = choose_sizes(&found);
    write_sizes(&sizes, &chosen.keys().copied().collect::<Vec<_>>());

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

    let mut names = Names::default();
    let mut elsewhere = 0;
    let mut agreed = BTreeSet::new();
    let mut faults = Vec::new();
    for line in fs::read_to_string(&out).unwrap().lines() {
        let seen: Seen = serde_json::from_str(line).unwrap();
        let stacks = &chosen[&seen.size];
        // Several of the stacks can have the same innermost frames.
        let fitting: Vec<usize> = stacks
            .iter()
            .copied()
            .filter(|&stack| same(&seen, &found, stack, &mut names))
            .collect();
        if fitting.is_empty() {
            if alike == Alike::Mostly && !is_recorded(&seen, &found, stacks) {
                elsewhere += 1;
            } else {
                faults.push(describe(&seen, &found, stacks));
            }
        }
        agreed.extend(fitting);
    }
    println!(
        "{name}: {} stacks agree, {} calls do not, {elsewhere} calls were made in gdb's run only",
        agreed.len(),
        faults.len()
    );
    faults.truncate(5);
    assert!(faults.is_empty(), "{name}: {}", faults.join("\n"));
    assert!(
        agreed.len() >= STACKS,
        "{name}: {} sizes were chosen, gdb saw {} of their stacks\n{}",
        chosen.len(),
        agreed.len(),
        String::from_utf8_lossy(&said.stderr)
    );
}

/// Sizes that are asked for seldom and by few stacks, and those stacks. gdb stops
/// at each call, so that their number is bounded.
fn choose_sizes(found: &Findings) -> BTreeMap<u64, Vec<usize>> {
    let mut sizes: BTreeMap<u64, (u64, BTreeSet<usize>)> = BTreeMap::new();
    for detail in &found.detail {
        let (calls, stacks) = sizes.entry(detail.size).or_default();
        *calls += detail.calls;
        stacks.extend(detail.stack);
    }
    let mut seldom: Vec<_> = sizes
        .into_iter()
        .filter(|(size, (_, stacks))| *size > 0 && (1..=20).contains(&stacks.len()))
        .collect();
    seldom.sort_by_key(|(size, (calls, _))| (*calls, *size));
    let mut stops = 0;
    seldom
        .into_iter()
        .take_while(|(_, (calls, _))| {
            stops += calls;
            stops <= 2000
        })
        .map(|(size, (_, stacks))| (size, stacks.into_iter().collect()))
        .collect()
}

/// memtrack's innermost frames of a stack, from the program's call outward.
fn innermost(found: &Findings, stack: usize) -> Vec<&Frame> {
    let mut ours = found.callers(&found.stacks[stack]);
    // The preloaded function stands between the probed one and the caller.
    let own = ours.iter().take_while(|frame| frame.inline).count() + 1;
    ours.drain(..own.min(ours.len()));
    ours.truncate(FRAMES);
    ours
}

fn same(seen: &Seen, found: &Findings, stack: usize, names: &mut Names) -> bool {
    let ours = innermost(found, stack);
    // A stack whose copy was too short says so, and is right as far as it goes.
    let whole = ours.len() == seen.frames.len() || found.stacks[stack].truncated.is_some();
    let mut pairs = ours.iter().zip(&seen.frames);
    whole && !ours.is_empty() && pairs.all(|(our, gdb)| agrees(our, gdb, names))
}

/// Whether the recorded run has a call from the same place.
fn is_recorded(seen: &Seen, found: &Findings, stacks: &[usize]) -> bool {
    let place = seen.frames.iter().find(|frame| !frame.inline);
    stacks.iter().any(|&stack| {
        let ours = innermost(found, stack);
        let our_place = ours.iter().find(|frame| !frame.inline);
        place
            .zip(our_place)
            .is_some_and(|(gdb, our)| our.address + 1 == gdb.address)
    })
}

fn describe(seen: &Seen, found: &Findings, stacks: &[usize]) -> String {
    let mut text = format!("size {}: gdb has\n", seen.size);
    for frame in &seen.frames {
        text += &format!("    {frame:?}\n");
    }
    for &stack in stacks {
        text += "  memtrack has\n";
        for frame in innermost(found, stack) {
            text += &format!("    {frame:?}\n");
        }
    }
    text
}

fn agrees(our: &Frame, gdb: &SeenFrame, names: &mut Names) -> bool {
    let same_name = match (&gdb.name, &our.function) {
        (Some(theirs), Some(ours)) => names.same(gdb.module.as_deref(), theirs, ours),
        (Some(_), None) => false,
        (None, _) => true,
    };
    // gdb shows the address after the call, memtrack may look up the one before.
    let same_address =
        our.address == gdb.address || our.address.checked_add(1) == Some(gdb.address);
    same_name && our.inline == gdb.inline && (our.inline || same_address)
}

/// Compares names; knows the symbols of modules, as `nm` lists them.
#[derive(Default)]
struct Names(HashMap<String, HashMap<String, String>>);

impl Names {
    fn same(&mut self, module: Option<&str>, gdb: &str, ours: &str) -> bool {
        if base(gdb) == base(ours) {
            return true;
        }
        let Some(module) = module else {
            return false;
        };
        let symbols = self
            .0
            .entry(module.to_owned())
            .or_insert_with(|| list_symbols(module));
        // A function with several names (fseeko, fseeko64) is rightly shown by
        // any of them.
        if symbols.contains_key(gdb) && symbols.get(gdb) == symbols.get(ours) {
            return true;
        }
        // gdb takes `git__calloc` for a name of Ada's and shows `git.calloc`.
        if gdb.replace('.', "__") == ours {
            return true;
        }
        // Rust: gdb writes an impl as the block that its DWARF calls `{impl#0}`,
        // a symbol names the type and the trait. The last part is in both.
        symbols.contains_key("rust_eh_personality") && last_part(gdb) == last_part(ours)
    }
}

fn last_part(name: &str) -> String {
    let name = base(name);
    let parts = name.split("::").filter(|part| !part.is_empty());
    parts.last().unwrap_or_default().to_owned()
}

fn list_symbols(module: &str) -> HashMap<String, String> {
    let mut symbols = HashMap::new();
    for table in ["--dynamic", "--defined-only"] {
        let output = succeeds(Command::new("nm").args([table, "--defined-only", module]));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let [address, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] {
                let name = name.split('@').next().unwrap_or(name);
                symbols.insert(name.to_owned(), address.to_owned());
            }
        }
    }
    symbols
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
        Alike::Wholly,
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
        Alike::Wholly,
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
    check("git", Alike::Wholly, &command, &[]);
}

#[test]
fn privileged_cxx_compiler_agrees() {
    let input = programs::source_path("threads.cc");
    let folder = programs::multiarch();
    let command = words([
        &programs::cc1plus(),
        &"-quiet",
        &"-std=c++17",
        &"-D_GNU_SOURCE",
        &"-imultiarch",
        &folder,
        &input,
        &"-o",
        &"/dev/null",
    ]);
    check("cc1plus", Alike::Wholly, &command, &[]);
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
    check(
        "cargo",
        Alike::Mostly,
        &command,
        &[("CARGO_NET_OFFLINE", "true")],
    );
}

#[test]
fn privileged_threads_agree() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-std=c++17", "-g", "-O2", "-pthread"];
    let program = programs::build(folder.path(), "threads.cc", &flags);
    check(
        "threads",
        Alike::Wholly,
        &words([&program, &"24", &"50"]),
        &[],
    );
}
