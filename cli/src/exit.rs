//! Exit codes: the one list of them.

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Success,
    /// The work could not be done.
    Failed,
    /// Data were lost (`capture`), or the input is incomplete and
    /// `--require-complete` was given.
    Incomplete,
    /// `capture` itself failed, or could not start the command for a reason of
    /// its own.
    CaptureFailed,
    /// `capture`: the command's own status (128+n for signal n).
    #[cfg(all(feature = "capture", target_os = "linux"))]
    Command(u8),
}

impl Exit {
    /// The process's exit status.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Incomplete => 3,
            Self::CaptureFailed => 125,
            #[cfg(all(feature = "capture", target_os = "linux"))]
            Self::Command(code) => code,
        }
    }
}

/// Shown under `--help`.
pub(crate) const HELP: &str = "\
Exit status:
  0    done
  1    failed: the message says what and where
  2    the command line was wrong
  3    data were lost in a capture whose command succeeded (see --allow-loss),
       or the input is incomplete and --require-complete was given
  125  capture itself failed; 126 the command could not be executed,
       127 it was not found
  any other status of `capture` is the command's own (128+n for signal n)";
