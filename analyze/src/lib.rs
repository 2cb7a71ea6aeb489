//! Questions over recorded events: replays an artifact and answers what was
//! live, when, and by whom.
//!
//! This room reads an [`Artifact`] and the [`Symbols`] made from it, and leaves
//! [`findings::Findings`]: plain data for reports. It does not read other
//! files, name addresses, or lay anything out for people.
//!
//! # Rules of the replay
//!
//! - Effects are replayed in the order of time, over all processes.
//! - A `realloc` ends its old block when it is entered and begins the new one
//!   when it returns; a failed one changes nothing. `realloc(p, 0)` that
//!   returns nothing is a free of `p`.
//! - A free counts only when it releases a live block. A free of an address
//!   where nothing is live is *unknown*, unless the same thread's last free was
//!   of that address: then one call was recorded twice, and is counted once.
//!   Such frees right before a thread's end are the C library's own, of what it
//!   had cached for the thread; they are counted apart.
//! - An allocation at an address that is live ends the block there, *unseen*.
//! - A forked child has a copy of its parent's blocks. The copies are no newly
//!   live bytes: they are in no sum, and their end (by `free`, `realloc`, exec
//!   or exit of the child) is neither a free nor a leak; frees of copies are
//!   counted apart. A child that shares its parent's memory (vfork) works on
//!   the parent's blocks until its exec.
//! - An exec, of the last process in an address space, drops its blocks: they
//!   ended, and did not leak. What is live when the last process of a space
//!   exits, or when the recording ends, leaked.
//! - So always: allocations = frees + leaked + dropped by exec + ended unseen.
//!
//! # Example
//!
//! ```no_run
//! use memtrack_analyze::{Options, analyze};
//! use memtrack_artifact::{Artifact, Silent, read_symbols};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let artifact = Artifact::open("run.mtk".as_ref())?;
//! let symbols = read_symbols("run.mts".as_ref())?;
//! let findings = analyze(&artifact, &symbols, &Options::default(), &Silent)?;
//! println!("{}", findings.verdict.headline);
//! println!("{} bytes at the peak", findings.totals.peak_bytes);
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! [`analyze`] replays on the calling thread and decodes ahead on another. An
//! artifact can be analyzed by several threads at once; findings are plain data
//! and may go anywhere.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allocators;
mod detail;
pub mod findings;
mod join;
mod ledger;
mod modules;
mod names;
mod order;
mod processes;
mod replay;
mod run;
mod space;
mod stacks;
#[cfg(test)]
mod tests;
mod threads;
mod timeline;
mod verdict;

use memtrack_artifact::{Artifact, Progress, Symbols};

/// What to compute beyond the standard findings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fill [`findings::Findings::detail`].
    pub detail: bool,
    /// At most this many points of the timeline.
    pub timeline_points: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            detail: false,
            timeline_points: 2_000,
        }
    }
}

/// A failure of an analysis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The artifact cannot be read.
    #[error(transparent)]
    Artifact(#[from] memtrack_artifact::Error),
}

/// Replays `artifact` and joins the costs with the names of `symbols`. With
/// empty symbols all numbers are the same, and no stack has a name.
///
/// Memory is bounded by the blocks live at one time, the distinct stacks and
/// the events that happen during the longest call; not by the number of events.
///
/// A chunk that cannot be read is left out; the verdict then names it and is
/// not "complete".
pub fn analyze(
    artifact: &Artifact,
    symbols: &Symbols,
    options: &Options,
    progress: &dyn Progress,
) -> Result<findings::Findings, Error> {
    run::run(artifact, symbols, options, progress)
}
