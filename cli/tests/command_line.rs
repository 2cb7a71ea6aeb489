//! The offline commands as a user meets them: what goes where, what the exit
//! status says, and what happens to a wrong word.

#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, SystemTime},
};
use support::{memtrack, repository, succeeds};
use tempfile::TempDir;

/// A folder with a copy of the stored artifact, which commands run in.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(
            repository().join("testdata/demo.mtk"),
            folder.path().join("run.mtk"),
        )
        .unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = memtrack();
        command.args(words).current_dir(self.folder.path());
        command
    }

    /// Runs a command; its status, standard output and standard error.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        told(&self.command(words).output().unwrap())
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Cuts the artifact in its middle.
    fn cut(&self) {
        let bytes = fs::read(self.path("run.mtk")).unwrap();
        fs::write(self.path("run.mtk"), &bytes[..bytes.len() / 2]).unwrap();
    }
}

fn told(output: &Output) -> (i32, String, String) {
    (
        output.status.code().expect("no signal"),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_wrong_word_is_a_usage_error_and_help_lists_the_exit_codes() {
    let desk = Desk::new();
    for words in [
        &["no-such-command"][..],
        &["report", "--no-such-flag"],
        &["capture"],
    ] {
        let (status, out, err) = desk.run(words);
        assert_eq!(status, 2, "{words:?}");
        assert!(out.is_empty() && err.contains("Usage"), "{words:?}: {err}");
    }
    let (status, out, _) = desk.run(&["--help"]);
    assert_eq!(status, 0);
    assert!(out.contains("Exit status"), "{out}");
}

#[test]
fn an_error_names_the_file_and_what_is_wrong() {
    let desk = Desk::new();
    fs::write(desk.path("text.mtk"), "no artifact").unwrap();
    for command in ["inspect", "symbolize", "report"] {
        let (status, out, err) = desk.run(&[command, "absent.mtk"]);
        assert_eq!((status, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("absent.mtk"), "{err}");
        let (status, out, err) = desk.run(&[command, "text.mtk"]);
        assert_eq!((status, out.as_str()), (1, ""), "{err}");
        assert!(
            err.contains("text.mtk") && err.contains("not a memtrack"),
            "{err}"
        );
    }
}

#[test]
fn formats_go_to_their_files_and_text_to_standard_output() {
    let desk = Desk::new();
    let words = [
        "report",
        "run.mtk",
        "--html",
        "--json=all.json",
        "--folded=a.folded",
        "--svg=a.svg",
        "--text",
    ];
    let (status, out, err) = desk.run(&words);
    assert_eq!(status, 0, "{err}");
    assert!(
        out.starts_with("complete: "),
        "the verdict comes first: {out}"
    );
    assert_eq!(
        desk.names(),
        ["a.folded", "a.svg", "all.json", "report.html", "run.mtk"]
    );

    let findings = json(&desk.path("all.json"));
    let allocations = findings["totals"]["allocations"].as_u64().unwrap();
    assert!(allocations > 1000);
    // The page and the text tell the same sums, each in its own way.
    let page = fs::read_to_string(desk.path("report.html")).unwrap();
    let grouped = group(allocations);
    assert!(out.contains(&grouped), "{grouped} in\n{out}");
    assert!(page.contains(&grouped), "{grouped} in the page");
    // The default measure is bytes live at the peak.
    let folded = fs::read_to_string(desk.path("a.folded")).unwrap();
    let sum: u64 = folded
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(Some(sum), findings["totals"]["peak_bytes"].as_u64());
}

fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn without_an_artifact_the_newest_of_the_folder_is_taken_and_named() {
    let desk = Desk::new();
    fs::write(desk.path("older.mtk"), "no artifact").unwrap();
    let past = SystemTime::now() - Duration::from_secs(3600);
    let older = fs::File::options()
        .write(true)
        .open(desk.path("older.mtk"))
        .unwrap();
    older.set_modified(past).unwrap();
    let (status, out, err) = desk.run(&["report"]);
    assert_eq!(status, 0, "{err}");
    assert!(err.contains("run.mtk"), "{err}");
    assert!(out.starts_with("complete: "), "{out}");

    let empty = tempfile::tempdir().unwrap();
    let (status, _, err) = told(
        &memtrack()
            .arg("report")
            .current_dir(&empty)
            .output()
            .unwrap(),
    );
    assert_eq!(status, 1);
    assert!(err.contains(".mtk"), "{err}");
}

#[test]
fn symbolize_leaves_the_artifact_alone_and_any_number_of_threads_writes_the_same() {
    let desk = Desk::new();
    let before = fs::read(desk.path("run.mtk")).unwrap();
    for (threads, file) in [("1", "one.mts"), ("7", "seven.mts")] {
        succeeds(&mut desk.command(&["symbolize", "run.mtk", "-j", threads, "-o", file]));
    }
    succeeds(&mut desk.command(&["symbolize", "run.mtk"]));
    assert!(before == fs::read(desk.path("run.mtk")).unwrap());
    let one = fs::read(desk.path("one.mts")).unwrap();
    assert!(
        one == fs::read(desk.path("seven.mts")).unwrap(),
        "the number of threads shows"
    );
    assert!(
        one == fs::read(desk.path("run.mts")).unwrap(),
        "the default writes something else"
    );
}

#[test]
fn a_symbol_file_of_another_artifact_is_not_believed() {
    let desk = Desk::new();
    let (_, fresh, _) = desk.run(&["report", "run.mtk", "--json", "--detail"]);
    // Symbols of the cut artifact, beside the whole one.
    let whole = fs::read(desk.path("run.mtk")).unwrap();
    desk.cut();
    succeeds(&mut desk.command(&["symbolize", "run.mtk"]));
    fs::write(desk.path("run.mtk"), whole).unwrap();
    let (status, stale, err) = desk.run(&["report", "run.mtk", "--json", "--detail"]);
    assert_eq!(status, 0, "{err}");
    assert!(fresh == stale, "symbols of another artifact were used");
}

#[test]
fn an_incomplete_artifact_is_said_first_and_fails_only_when_asked() {
    let desk = Desk::new();
    desk.cut();
    for command in [&["report", "run.mtk"][..], &["inspect", "run.mtk"]] {
        let (status, out, err) = desk.run(command);
        assert_eq!(status, 0, "{err}");
        let first = out.lines().take(2).collect::<String>();
        assert!(first.contains("INCOMPLETE"), "{out}");
        let strict = [command, &["--require-complete"]].concat();
        assert_eq!(desk.run(&strict).0, 3);
    }
    assert_eq!(
        desk.run(&["symbolize", "run.mtk", "--require-complete"]).0,
        3
    );
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let desk = Desk::new();
    let (status, _, err) = desk.run(&["report", "run.mtk", "--html=no/such/folder.html"]);
    assert_eq!(status, 1);
    assert!(err.contains("no/such/folder.html"), "{err}");
    let (status, _, err) = desk.run(&["symbolize", "run.mtk", "-o", "no/such/run.mts"]);
    assert_eq!(status, 1);
    assert!(err.contains("no/such/run.mts"), "{err}");
}

#[test]
fn nothing_is_written_over_the_artifact_or_over_another_output() {
    let desk = Desk::new();
    fs::copy(desk.path("run.mtk"), desk.path("named.mts")).unwrap();
    let before = fs::read(desk.path("run.mtk")).unwrap();
    for words in [
        &["report", "run.mtk", "--html=./run.mtk"][..],
        &["report", "run.mtk", "--json=x", "--html=./x"],
        &["symbolize", "run.mtk", "-o", "./run.mtk"],
        &["symbolize", "named.mts"],
    ] {
        let (status, _, err) = desk.run(words);
        assert_eq!(status, 1, "{words:?}: {err}");
    }
    assert_eq!(fs::read(desk.path("run.mtk")).unwrap(), before);
    assert_eq!(fs::read(desk.path("named.mts")).unwrap(), before);
    assert_eq!(desk.names(), ["named.mts", "run.mtk"]);
}

#[test]
fn several_artifacts_are_symbolized_in_one_go_and_a_bad_one_does_not_stop_the_rest() {
    let desk = Desk::new();
    fs::copy(desk.path("run.mtk"), desk.path("zweite.mtk")).unwrap();
    fs::write(desk.path("bad.mtk"), "no artifact").unwrap();
    let (status, _, err) = desk.run(&["symbolize", "bad.mtk", "run.mtk", "zweite.mtk"]);
    assert_eq!(status, 1);
    assert!(err.contains("bad.mtk"), "{err}");
    assert_eq!(
        desk.names(),
        ["bad.mtk", "run.mtk", "run.mts", "zweite.mtk", "zweite.mts"]
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let desk = Desk::new();
    let mut child = desk
        .command(&["report", "run.mtk", "--json", "--detail"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let (status, _, err) = told(&child.wait_with_output().unwrap());
    assert_eq!(status, 0, "{err}");
    assert!(!err.contains("panicked"), "{err}");
}
