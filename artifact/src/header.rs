//! What an artifact says of the run it holds.

use crate::module::serde_bytes_vec;
use serde::{Deserialize, Serialize};

/// The recorded machine's architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// AMD64.
    X86_64,
    /// 64-bit ARM, little-endian.
    Aarch64,
}

/// The first chunk of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the memtrack that wrote it.
    pub memtrack_version: String,
    /// Architecture of the recorded processes.
    pub architecture: Architecture,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// `CLOCK_MONOTONIC` at the start, ns. All times are of this clock.
    pub start_monotonic_ns: u64,
    /// The matching wall time, ns since 1970-01-01 UTC.
    pub start_wall_ns: u64,
    /// `uname -r` and `-v`.
    pub kernel: String,
    /// The command line, byte strings as given.
    pub command: Vec<ByteString>,
    /// Names (not values) of the environment variables the command got.
    pub environment_names: Vec<ByteString>,
    /// The working directory.
    pub working_directory: ByteString,
    /// The options in force, as `name=value`.
    pub options: Vec<String>,
    /// Which backend recorded ("bpf").
    pub backend: String,
}

/// Bytes that are usually text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteString(#[serde(with = "serde_bytes_vec")] pub Vec<u8>);

impl std::fmt::Display for ByteString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}

/// How the traced command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Written at the end of a capture, before the footer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// `CLOCK_MONOTONIC` when recording ended, ns.
    pub end_monotonic_ns: u64,
    /// The command's end, where memtrack started it.
    pub status: Option<ExitStatus>,
    /// The process id of the command, where memtrack started it.
    pub root_pid: Option<crate::id::Pid>,
    /// Calls of `free(NULL)`: they release nothing and are not recorded as
    /// events.
    pub null_frees: u64,
}
