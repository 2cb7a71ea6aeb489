//! Questions over recorded events: replays an artifact and answers what was
//! live, when, and by whom.

pub mod findings;

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

/// Replays `artifact` and joins the costs with the names of `symbols`.
pub fn analyze(
    artifact: &Artifact,
    symbols: &Symbols,
    options: &Options,
    progress: &dyn Progress,
) -> Result<findings::Findings, Error> {
    let _ = (artifact, symbols, options, progress);
    todo!()
}
