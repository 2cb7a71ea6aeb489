//! Why a recording could not be made.

use memtrack_artifact::ExitStatus;
use std::{ffi::OsString, io, path::PathBuf};

/// A failure of a recording. What the system said is its
/// [`source`](std::error::Error::source), not part of its text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to run.
    #[error("no command to run")]
    NoCommand,
    /// An option's value cannot be.
    #[error("{option}: {value} is not possible: {reason}")]
    Option {
        /// Its name.
        option: &'static str,
        /// The value given.
        value: u64,
        /// What would be.
        reason: &'static str,
    },
    /// The kernel describes no types of its own.
    #[error(
        "the kernel has no /sys/kernel/btf/vmlinux: memtrack needs a kernel built with \
         CONFIG_DEBUG_INFO_BTF (every current distribution's is)"
    )]
    NoBtf,
    /// Process numbers differ from those that the kernel side sees.
    #[error(
        "memtrack runs in a pid namespace of its own, where process numbers are not those of the \
         kernel; run it on the host (docker: --pid=host)"
    )]
    PidNamespace,
    /// BPF is not permitted.
    #[error(
        "the kernel refused to load the BPF programs: run memtrack as root, for example with sudo; \
         `memtrack doctor` tells what this machine permits"
    )]
    NotPermitted {
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// The programs or maps could not be loaded.
    #[error("the BPF programs could not be loaded{log}")]
    Load {
        /// What libbpf said last.
        source: libbpf_rs::Error,
        /// Its messages, each on a line of its own.
        log: String,
    },
    /// Rings and maps do not fit.
    #[error(
        "the kernel has no memory for the rings and maps: use smaller ones (--event-ring, \
         --stack-ring), or allow this control group more"
    )]
    NoMemory {
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// A program could not be attached.
    #[error("the BPF program {program} could not be attached{log}")]
    Attach {
        /// Which.
        program: &'static str,
        /// What libbpf said last.
        source: libbpf_rs::Error,
        /// Its messages, each on a line of its own.
        log: String,
    },
    /// A map could not be used.
    #[error("the BPF map {map} cannot be used")]
    Map {
        /// Which.
        map: &'static str,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// The artifact could not be opened.
    #[error("{}", path.display())]
    Output {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The artifact could not be begun.
    #[error(transparent)]
    Artifact(#[from] memtrack_artifact::Error),
    /// The artifact could not be written to its end; the command ran to its
    /// own. What was written opens and says that it is cut.
    #[error("the artifact is incomplete")]
    NotWritten {
        /// How the command ended.
        status: ExitStatus,
        /// What was wrong.
        source: memtrack_artifact::Error,
    },
    /// There is no such command.
    #[error("{}: command not found", command.display())]
    CommandNotFound {
        /// As given.
        command: OsString,
    },
    /// The command could not be started.
    #[error("{}: cannot be run", command.display())]
    CommandNotRunnable {
        /// As given.
        command: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The module stream could not be opened.
    #[error(transparent)]
    Modules(#[from] crate::mappings::ModuleStreamError),
    /// The writing thread ended before its time.
    #[error("the thread that writes the artifact has ended")]
    WriterGone,
    /// A thread of memtrack's own panicked.
    #[error("memtrack's {thread} thread panicked; please report it")]
    Panicked {
        /// Its work.
        thread: &'static str,
    },
    /// A system call failed that never should.
    #[error("{action}")]
    System {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// How the command ended, where it ran to its end.
    #[must_use]
    pub fn command_status(&self) -> Option<ExitStatus> {
        match self {
            Self::NotWritten { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether it kept the command from running at all.
    pub(crate) fn is_before_start(&self) -> bool {
        matches!(
            self,
            Self::CommandNotFound { .. }
                | Self::CommandNotRunnable { .. }
                | Self::Artifact(_)
                | Self::Map { .. }
                | Self::Modules(_)
        )
    }

    /// The exit status by which a shell tells of this failure to run a
    /// command: 127 when there is none, 126 when it cannot be run.
    #[must_use]
    pub fn shell_status(&self) -> Option<u8> {
        match self {
            Self::CommandNotFound { .. } => Some(127),
            Self::CommandNotRunnable { .. } => Some(126),
            _ => None,
        }
    }
}

/// For `map_err`: names what was being done.
pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::System {
        action,
        source: source.into(),
    }
}
