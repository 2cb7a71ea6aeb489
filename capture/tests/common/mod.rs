//! Compiling the programs of `testdata/programs`, recording them, and reading
//! what was recorded.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]
#![allow(clippy::unwrap_used)]

use memtrack_artifact::{Artifact, Event, EventKind, Silent};
use memtrack_capture::{Options, Outcome, run};
use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// In the folder for temporary files. Probes are system-wide, so that
/// privileged tests disturb one another.
const LOCK: &str = "memtrack-priv.lock";

/// A place for a test's files, and its turn.
pub struct Stage {
    folder: TempDir,
    _turn: File,
}

impl Stage {
    /// `None`, with the reason printed, where recording is not permitted. In
    /// CI that is a failure.
    pub fn set() -> Option<Self> {
        if !nix::unistd::Uid::effective().is_root() {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "not run: recording needs root"
            );
            eprintln!("not run: recording needs root");
            return None;
        }
        let turn = File::create(std::env::temp_dir().join(LOCK)).unwrap();
        turn.lock().unwrap();
        Some(Self {
            folder: tempfile::tempdir().unwrap(),
            _turn: turn,
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a program of `testdata/programs`.
    pub fn compile(&self, source: &str, flags: &[&str]) -> PathBuf {
        self.compile_with("cc", source, flags)
    }

    pub fn compile_with(&self, compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../testdata/programs")
            .join(source);
        let to = self.path(source.trim_end_matches(".c"));
        let status = Command::new(compiler)
            .args(["-O1", "-g", "-fno-builtin", "-pthread", "-o"])
            .arg(&to)
            .arg(from)
            .args(flags)
            .status()
            .unwrap();
        assert!(status.success(), "{compiler} {source}");
        to
    }

    /// Options for a command that writes `run.mtk`.
    pub fn options<A: Into<OsString>>(&self, command: impl IntoIterator<Item = A>) -> Options {
        Options {
            command: command.into_iter().map(Into::into).collect(),
            output: Some(self.path("run.mtk")),
            ..Options::default()
        }
    }

    /// Records a command, which must lose nothing.
    pub fn record<A: Into<OsString>>(&self, command: impl IntoIterator<Item = A>) -> Recorded {
        let recorded = Recorded::of(&self.options(command));
        recorded.assert_complete();
        recorded
    }
}

/// A recording and what it says.
pub struct Recorded {
    pub outcome: Outcome,
    pub artifact: Artifact,
    pub events: Vec<Event>,
}

impl Recorded {
    pub fn of(options: &Options) -> Self {
        let outcome = run(options, &Silent).unwrap();
        let artifact = Artifact::open(&outcome.path).unwrap();
        let events = artifact
            .event_chunks()
            .iter()
            .flat_map(|chunk| chunk.decode().unwrap().iter().collect::<Vec<_>>())
            .collect();
        Self {
            outcome,
            artifact,
            events,
        }
    }

    pub fn assert_complete(&self) {
        assert_eq!(self.outcome.losses.total(), 0, "{:?}", self.outcome.losses);
    }

    /// Events of a kind and size.
    pub fn count(&self, kind: EventKind, size: u64) -> usize {
        self.of_size(kind, size).count()
    }

    pub fn of_size(&self, kind: EventKind, size: u64) -> impl Iterator<Item = &Event> {
        self.events
            .iter()
            .filter(move |event| event.kind == kind && event.size == size)
    }

    /// Frees of blocks that an allocation of this size returned.
    pub fn frees_of(&self, size: u64) -> usize {
        // Of one process without address reuse by other sizes; by time.
        let mut ordered: Vec<&Event> = self.events.iter().collect();
        ordered.sort_by_key(|event| event.time_ns);
        let mut live = std::collections::HashMap::new();
        let mut freed = 0;
        for event in ordered {
            if event.kind == EventKind::Free {
                freed += usize::from(live.remove(&(event.pid, event.address)) == Some(size));
            } else if event.kind.is_allocation() && !event.failed() {
                live.remove(&(event.pid, event.old_address));
                live.insert((event.pid, event.address), event.size);
            }
        }
        freed
    }
}
