//! The formats a report can be written in.
//!
//! A new one is a file with a type that implements [`Report`], and a line in
//! [`FORMATS`].

use crate::{folded::Folded, html, json::Json, svg::Svg, text::Text};
use memtrack_analyze::findings::{Findings, Measure};
use std::io::{self, Write};

/// All formats. The first is the default.
pub const FORMATS: &[&dyn Report] = &[&Text, &Html, &Json, &Folded, &Svg];

/// One way to show findings. Implementations have no state.
pub trait Report: Sync {
    /// Its name, as in `--NAME`.
    fn name(&self) -> &'static str;

    /// What it is, in a few words, for lists of options.
    fn summary(&self) -> &'static str;

    /// The file that it is written to when none is named; `None`: standard
    /// output.
    fn default_file(&self) -> Option<&'static str> {
        None
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// What `out` refuses. A closed pipe is an error here as well
    /// ([`io::ErrorKind::BrokenPipe`]); whether it is a failure is for the
    /// caller to say.
    fn write(&self, findings: &Findings, options: &Options, out: &mut dyn Write) -> io::Result<()>;
}

/// What can be chosen. Each format takes what applies to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What flame graphs and folded stacks measure.
    pub measure: Measure,
    /// Rows of each table of the text report.
    pub top: usize,
    /// Callers that the text report shows below each call site.
    pub callers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            measure: Measure::PeakBytes,
            top: 10,
            callers: 2,
        }
    }
}

/// The format of that name.
#[must_use]
pub fn format(name: &str) -> Option<&'static dyn Report> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}

/// What a measure counts, for titles: "bytes live at the peak".
#[must_use]
pub fn describe(measure: Measure) -> &'static str {
    match measure {
        Measure::PeakBytes => "bytes live at the peak",
        Measure::AllocatedBytes => "bytes allocated",
        Measure::Allocations => "allocations",
        Measure::LeakedBytes => "bytes leaked",
    }
}

/// The page of [`html`].
#[derive(Clone, Copy, Debug)]
struct Html;

impl Report for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn summary(&self) -> &'static str {
        "one self-contained page"
    }

    fn default_file(&self) -> Option<&'static str> {
        Some("report.html")
    }

    fn write(&self, findings: &Findings, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        html::write(findings, out)
    }
}
