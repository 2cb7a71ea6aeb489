//! Stacks to frames, and addresses to names, from the artifact alone.

use memtrack_artifact::{Artifact, Progress, Symbols};

/// Settings of [`symbolize`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Worker threads; 0 takes one per core.
    pub threads: usize,
}

/// A failure of symbolizing as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The artifact cannot be read.
    #[error(transparent)]
    Artifact(#[from] memtrack_artifact::Error),
}

/// Unwinds every distinct stack and names every distinct address.
pub fn symbolize(
    artifact: &Artifact,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Symbols, Error> {
    let _ = (artifact, options, progress);
    todo!()
}
