//! The HTML report: one file that works from `file://` with no network.
//!
//! The page has two halves. What a reader must be able to trust without any
//! script (verdict, run, sums, the costliest call sites with a stack each,
//! processes, modules) is written here, by templates that escape by default,
//! and serves screen readers, printing and text search. What one explores
//! (timeline, flame graph, the whole table) is drawn by the script from a
//! block of JSON (`payload`), which is escaped so that no name can end the
//! block (`json`); the script makes elements with `textContent` only. Should
//! both fail, the Content-Security-Policy (`csp`) lets no other script run.
//!
//! The timeline is drawn by uPlot, vendored in `assets/vendor`. The icicle is
//! our own canvas. d3-flame-graph 5.0.0 was tried first: with 100,000 stacks
//! (1.4 million tree nodes) it needed 3.5 s to draw, 2.3 s to search and
//! 1.4 s to zoom in Chromium, since it lays out the whole tree each time, and
//! it has no keyboard access; flame-chart-js 3.3.0 (canvas) has neither
//! search nor descriptions for screen readers. `script/icicle.js` lays out
//! only what is at least a pixel wide, which is bounded by the screen: the
//! same stacks (12 MB of page) are loaded in 1.0 s, zoomed and switched to
//! another measure in 40 ms, searched in 80 ms, first inverted in 170 ms, on
//! the same two cores.

mod csp;
mod json;
mod page;
mod payload;
mod sections;
mod sites;

use memtrack_analyze::findings::Findings;
use std::io::{self, Write};

/// The script, in the order in which its parts need each other.
const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("../../assets/script/format.js"),
    include_str!("../../assets/script/dom.js"),
    include_str!("../../assets/script/data.js"),
    include_str!("../../assets/script/tree.js"),
    include_str!("../../assets/script/search.js"),
    include_str!("../../assets/script/icicle.js"),
    include_str!("../../assets/script/timeline.js"),
    include_str!("../../assets/script/sites.js"),
    include_str!("../../assets/script/main.js"),
    "})();\n"
);
const STYLE: &str = include_str!("../../assets/report.css");
const UPLOT_SCRIPT: &str = include_str!("../../assets/vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/vendor/uplot/uPlot.min.css");
/// The licence asks to go where the program goes.
const UPLOT_LICENCE: &str = include_str!("../../assets/vendor/uplot/LICENSE");

/// Writes the report of `findings` as one HTML page.
///
/// # Errors
///
/// What `out` refuses.
///
/// # Examples
///
/// ```
/// let findings = memtrack_analyze::findings::Findings::default();
/// let mut page = Vec::new();
/// memtrack_report::html::write(&findings, &mut page)?;
/// assert!(page.starts_with(b"<!DOCTYPE html>"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let policy = csp::policy(&[UPLOT_SCRIPT, SCRIPT], &[UPLOT_STYLE, STYLE]);
    let head = page::head(findings, &policy);
    let body = page::body(findings);
    write!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n")?;
    writeln!(out, "{}", head.into_string())?;
    write!(
        out,
        "<style>{UPLOT_STYLE}</style>\n<style>{STYLE}</style>\n"
    )?;
    write!(out, "</head>\n<body>\n{}\n", body.into_string())?;
    write!(out, "<script type=\"application/json\" id=\"findings\">")?;
    json::write(&payload::Payload::new(findings), out)?;
    writeln!(out, "</script>")?;
    write!(
        out,
        "<script>{UPLOT_SCRIPT}</script>\n<script>{SCRIPT}</script>\n"
    )?;
    write!(out, "</body>\n</html>\n")
}

#[cfg(test)]
mod tests;
