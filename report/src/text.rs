//! The report for a terminal: the verdict, a summary, the costliest call
//! sites by each measure.

mod sites;
mod summary;

use crate::format::{Options, Report};
use memtrack_analyze::findings::{Findings, Measure};
use std::io::{self, Write};

/// The text format.
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl Report for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn summary(&self) -> &'static str {
        "a summary and the costliest call sites, for a terminal"
    }

    fn write(&self, findings: &Findings, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        summary::verdict(&findings.verdict, out)?;
        summary::run(findings, out)?;
        summary::totals(findings, out)?;
        summary::processes(&findings.processes, options.top, out)?;
        for measure in [
            Measure::PeakBytes,
            Measure::AllocatedBytes,
            Measure::Allocations,
            Measure::LeakedBytes,
        ] {
            sites::table(findings, measure, options, out)?;
        }
        Ok(())
    }
}
