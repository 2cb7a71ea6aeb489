//! Flags and their defaults.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::{ffi::OsString, path::PathBuf};

/// Where a program's memory goes: capture it once, explain it anywhere.
#[derive(Debug, Parser)]
#[command(name = "memtrack", version, about, after_help = crate::exit::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command and record what it allocates
    Capture(Capture),
    /// Show what an artifact holds
    Inspect(Inspect),
    /// Unwind and name the stacks of artifacts
    Symbolize(Symbolize),
    /// Show where the memory went
    Report(Report),
    /// Tell what this machine permits, and how to permit more
    Doctor(Doctor),
}

/// Shown under `report --help`.
const FORMATS_HELP: &str = "\
Every format takes an optional file: `--html` writes report.html, `--html=page.html` that file;
`--json`, `--folded`, `--svg` and `--text` without a file go to standard output. Several can be
given at once; without any, text.";

/// How stacks are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stacks {
    /// Registers and a copy of the stack, unwound offline
    #[default]
    Raw,
    /// The frame-pointer chain alone
    Fp,
    /// No stacks
    Off,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Capture {
    /// Write the artifact here [default: memtrack-COMMAND-PID.mtk]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Copy at most this much of each new stack, up to 64K [default: 32K]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) stack_bytes: Option<u32>,
    /// How stacks are recorded
    #[arg(long, value_enum, default_value_t)]
    pub(crate) stacks: Stacks,
    /// Size of the ring of events, a power of two [default: 32M]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) event_ring: Option<u32>,
    /// Size of the ring of stacks, a power of two [default: 128M]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) stack_ring: Option<u32>,
    /// Search separate debug files here (by build id, by .gnu_debuglink) before
    /// /usr/lib/debug; can be repeated
    #[arg(long, value_name = "FOLDER")]
    pub(crate) debug_dir: Vec<PathBuf>,
    /// Take along separate debug files of at most this size [default: 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) max_debug: Option<u32>,
    /// Exit 0 although data were lost
    #[arg(long)]
    pub(crate) allow_loss: bool,
    /// Do not print the closing line when all is well
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Inspect {
    /// The artifact
    #[arg(value_name = "ARTIFACT")]
    pub(crate) artifact: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit 3 when the artifact is incomplete
    #[arg(long)]
    pub(crate) require_complete: bool,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Symbolize {
    /// The artifacts
    #[arg(required = true, value_name = "ARTIFACT")]
    pub(crate) artifacts: Vec<PathBuf>,
    /// Write the symbol file here (with one artifact) [default: beside it,
    /// as .mts]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Worker threads [default: one per core]
    #[arg(short = 'j', long, value_name = "N")]
    pub(crate) threads: Option<std::num::NonZeroUsize>,
    /// For modules whose debug information is not in the artifact, use files
    /// of the same build id below this folder (such as /usr/lib/debug); can be
    /// repeated
    #[arg(long, value_name = "FOLDER")]
    pub(crate) debug_dir: Vec<PathBuf>,
    /// Exit 3 when an artifact is incomplete
    #[arg(long)]
    pub(crate) require_complete: bool,
}

#[derive(Debug, Args)]
#[command(after_help = format!("{FORMATS_HELP}\n\n{}", crate::exit::HELP))]
pub(crate) struct Report {
    /// The artifact [default: the newest .mtk of this folder]
    #[arg(value_name = "ARTIFACT")]
    pub(crate) artifact: Option<PathBuf>,
    /// Summary and top call sites for a terminal
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub(crate) text: Option<Option<PathBuf>>,
    /// One self-contained page
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub(crate) html: Option<Option<PathBuf>>,
    /// All findings as JSON
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Folded stacks, one a line, for flame graph tools
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub(crate) folded: Option<Option<PathBuf>>,
    /// A flame graph as SVG
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub(crate) svg: Option<Option<PathBuf>>,
    /// What --folded and --svg measure
    #[arg(long, value_enum, default_value_t)]
    pub(crate) measure: Measure,
    /// Rows of each table of the text report
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// With --json: also list allocations by stack, function, size and process
    #[arg(long)]
    pub(crate) detail: bool,
    /// Exit 3 when the artifact is incomplete
    #[arg(long)]
    pub(crate) require_complete: bool,
}

/// What a flame graph measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Bytes live at the peak
    #[default]
    Peak,
    /// Bytes allocated
    Allocated,
    /// Number of allocations
    Count,
    /// Bytes live at the end
    Leaked,
}

impl From<Measure> for memtrack_analyze::findings::Measure {
    fn from(measure: Measure) -> Self {
        match measure {
            Measure::Peak => Self::PeakBytes,
            Measure::Allocated => Self::AllocatedBytes,
            Measure::Count => Self::Allocations,
            Measure::Leaked => Self::LeakedBytes,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A number of bytes with an optional binary suffix.
fn bytes(text: &str) -> Result<u32, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("'{text}' is not a number of bytes such as 4096, 32K or 64M"))?;
    number
        .checked_shl(shift)
        .filter(|bytes| bytes >> shift == number)
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| format!("'{text}' is more than 4G"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bytes_take_binary_suffixes_and_refuse_what_does_not_fit() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("32K"), Ok(32 << 10));
        assert_eq!(bytes("64m"), Ok(64 << 20));
        assert!(bytes("4G").is_err());
        assert!(bytes("99999999999999999999K").is_err());
        assert!(bytes("K").is_err());
        assert!(bytes("").is_err());
        assert!(bytes("ü").is_err());
    }

    #[test]
    fn formats_take_a_file_only_after_an_equals_sign() {
        let cli = Cli::parse_from(["memtrack", "report", "--html", "run.mtk", "--json=x"]);
        let Command::Report(report) = cli.command else {
            panic!("not report");
        };
        assert_eq!(report.artifact, Some(PathBuf::from("run.mtk")));
        assert_eq!(report.html, Some(None));
        assert_eq!(report.json, Some(Some(PathBuf::from("x"))));
        assert_eq!(report.text, None);
    }
}
