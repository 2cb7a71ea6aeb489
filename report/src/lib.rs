//! Findings in the forms that people and programs read.
//!
//! This room takes [`Findings`](memtrack_analyze::findings::Findings), plain
//! data, and writes text, a page, JSON, folded stacks or a flame graph. It reads no files
//! and computes nothing but sums and shares: what a number means is decided by
//! the analysis. Every report says how complete the data are before any number,
//! where its format has a place for words.
//!
//! Whatever came from outside (names, paths, command lines) is escaped for the
//! place where it is shown, see [`escape`].
//!
//! # Example
//!
//! ```
//! use memtrack_report::{Options, format};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let findings = memtrack_analyze::findings::Findings::default();
//! let report = format("folded").ok_or("no such format")?;
//! let mut out = Vec::new();
//! report.write(&findings, &Options::default(), &mut out)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! Formats have no state: several reports of one analysis can be written at
//! the same time.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod escape;
pub mod folded;
pub mod format;
pub mod html;
pub mod json;
mod name;
pub mod svg;
#[cfg(test)]
mod tests;
pub mod text;
pub mod units;

pub use format::{FORMATS, Options, Report, format};
