//! What the end-to-end tests share: whether this machine permits a capture, the
//! lock that keeps captures apart, programs built for a test, and memtrack's own
//! JSON as far as the tests read it.

// Each test program compiles this file for itself, as a private module of which it
// uses a part.
#![allow(dead_code, unreachable_pub)]

pub mod findings;
pub mod programs;

use findings::Findings;
use std::{
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tempfile::TempDir;

/// The program under test.
pub fn memtrack() -> Command {
    Command::new(env!("CARGO_BIN_EXE_memtrack"))
}

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// A place where captures are permitted, one at a time: probes are system-wide.
pub struct Privileged {
    /// Everything that the test leaves; removed at its end.
    pub folder: TempDir,
    _in_this_process: MutexGuard<'static, ()>,
    _on_this_machine: Option<File>,
}

impl Privileged {
    /// Waits for its turn. `None` (the test is skipped, with a reason printed)
    /// where captures are not permitted; with `CI=true` that fails instead.
    pub fn enter() -> Option<Self> {
        static ONE: Mutex<()> = Mutex::new(());
        let in_this_process = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let on_this_machine = lock_machine();
        let folder = TempDir::new().unwrap();
        let tried = memtrack()
            .args(["capture", "-q", "-o"])
            .arg(folder.path().join("try.mtk"))
            .args(["--", "true"])
            .output()
            .unwrap();
        if tried.status.code() != Some(125) {
            return Some(Self {
                folder,
                _in_this_process: in_this_process,
                _on_this_machine: on_this_machine,
            });
        }
        let why = String::from_utf8_lossy(&tried.stderr);
        assert!(
            std::env::var_os("CI").is_none_or(|value| value != "true"),
            "captures must be permitted where CI=true: {why}"
        );
        eprintln!("skipped, no capture is permitted here: {}", why.trim());
        None
    }

    /// A path in the test's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Captures a command into `name`, prepared by `prepare` (environment,
    /// input). It must end with 0, which also says that nothing was lost.
    pub fn capture<S: AsRef<OsStr>>(
        &self,
        name: &str,
        command: impl IntoIterator<Item = S>,
        prepare: impl FnOnce(&mut Command),
    ) -> PathBuf {
        let artifact = self.path(name);
        let mut capture = memtrack();
        capture
            .args(["capture", "-o"])
            .arg(&artifact)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        prepare(&mut capture);
        succeeds(&mut capture);
        artifact
    }
}

/// Takes the lock that all tests with captures take, unless `flock FILE` does so
/// for us: then it is one of our open files.
fn lock_machine() -> Option<File> {
    let path = std::env::temp_dir().join("memtrack-priv.lock");
    let inherited = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .any(|open| open == path);
    if inherited {
        return None;
    }
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .expect("the lock file opens");
    file.lock().expect("the lock file can be locked");
    Some(file)
}

/// Runs a command that must end with 0.
pub fn succeeds(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

/// Symbolizes an artifact and reads what memtrack found in it.
pub fn findings(artifact: &Path, detail: bool) -> Findings {
    succeeds(memtrack().arg("symbolize").arg(artifact));
    let json = artifact.with_extension("json");
    let mut report = memtrack();
    report
        .arg("report")
        .arg(artifact)
        .arg(format!("--json={}", json.display()));
    if detail {
        report.arg("--detail");
    }
    succeeds(&mut report);
    serde_json::from_slice(&fs::read(&json).unwrap()).unwrap()
}
