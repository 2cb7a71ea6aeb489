//! What stops symbolizing as a whole. A stack that ends early or an address
//! without a name is no error: it is a `Termination` or a missing name.

/// A failure of symbolizing as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The artifact cannot be read.
    #[error(transparent)]
    Artifact(#[from] memtrack_artifact::Error),
    /// The worker threads could not be started.
    #[error("cannot start {threads} worker threads: {reason}; try fewer with --threads")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// A stack id that no capture can have given: ids are dense, so the
    /// largest is not far above the number of stacks.
    #[error(
        "stack id {id} cannot be right in an artifact of {stacks} stacks; \
         the artifact is damaged: capture again"
    )]
    ImplausibleStackId {
        /// The id.
        id: u32,
        /// Stacks in the artifact.
        stacks: usize,
    },
    /// More of something than the symbol file's 32-bit positions can name.
    #[error("the artifact has more than 4,294,967,295 {what}; split the recording")]
    TooMany {
        /// "frames of stacks", "distinct frames", "strings".
        what: &'static str,
    },
}
