//! What to record, and how.

use crate::harvest::DebugSearch;
use std::{ffi::OsString, path::PathBuf};

/// What is taken of each call stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackMode {
    /// Registers and a copy of the user stack, to be unwound offline.
    #[default]
    Raw,
    /// Only the chain of frame pointers: cheap, and useless for programs
    /// compiled without them.
    FramePointer,
    /// Nothing: events alone.
    Off,
}

impl StackMode {
    /// The word of the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::FramePointer => "fp",
            Self::Off => "off",
        }
    }
}

/// The longest copy of a stack that can be asked for (`STACK_BYTES_MAX` of
/// `bpf/config.h`).
pub const MAX_STACK_BYTES: u32 = 64 << 10;

/// The options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command and its arguments. Not empty.
    pub command: Vec<OsString>,
    /// The artifact to write. `None`: `memtrack-<command>-<pid>.mtk` in the
    /// working directory.
    pub output: Option<PathBuf>,
    /// What is taken of a stack.
    pub stacks: StackMode,
    /// Bytes copied of a stack at most, from the stack pointer up. Rounded to
    /// a multiple of 8; at most [`MAX_STACK_BYTES`].
    pub stack_bytes: u32,
    /// Size of the ring of events, bytes: a power of two of whole pages.
    pub event_ring_bytes: u32,
    /// Size of the ring of stacks, bytes: a power of two of whole pages.
    pub stack_ring_bytes: u32,
    /// Distinct stacks that can be told from new ones. More are shipped each
    /// time they occur. Costs about 80 bytes of kernel memory each.
    pub stack_keys: u32,
    /// Attach each probe by a link of its own, as on kernels before 6.6, also
    /// where many could be attached by one. Slower to begin and to end.
    pub single_probes: bool,
    /// Where debug information that was split off is searched.
    pub debug: DebugSearch,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            output: None,
            stacks: StackMode::default(),
            stack_bytes: 32 << 10,
            event_ring_bytes: 32 << 20,
            stack_ring_bytes: 128 << 20,
            stack_keys: 1 << 20,
            single_probes: false,
            debug: DebugSearch::default(),
        }
    }
}

impl Options {
    /// The options in force, as `name=value`, for the artifact's header.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut options = vec![
            format!("stacks={}", self.stacks.name()),
            format!("stack-bytes={}", self.stack_bytes),
            format!("event-ring-bytes={}", self.event_ring_bytes),
            format!("stack-ring-bytes={}", self.stack_ring_bytes),
            format!("stack-keys={}", self.stack_keys),
            format!("single-probes={}", self.single_probes),
            format!("max-debug-bytes={}", self.debug.max_bytes),
        ];
        let folders = self.debug.folders.iter();
        options.extend(folders.map(|folder| format!("debug-dir={}", folder.display())));
        options
    }
}
