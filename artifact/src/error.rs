//! What can be wrong with an artifact or a symbol file.

use std::path::PathBuf;

/// A failure of reading or writing an artifact. What the operating system said
/// is the error's source and not part of its own text, so that a chain of
/// errors tells it once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Writing failed.
    #[error("writing failed after {offset} whole bytes")]
    Write {
        /// How far the file is whole.
        offset: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a file of ours.
    #[error("{name}: not a memtrack {expected} ({})", begins(found))]
    NotOurs {
        /// The file.
        name: String,
        /// "artifact" or "symbol file".
        expected: &'static str,
        /// The first bytes.
        found: Vec<u8>,
    },
    /// A version that this build does not read.
    #[error(
        "{name}: format version {found} is not supported (this memtrack reads up to {supported}); \
         use a newer memtrack"
    )]
    UnsupportedVersion {
        /// The file.
        name: String,
        /// Its version.
        found: u16,
        /// The newest that is read.
        supported: u16,
    },
    /// Bytes that cannot be what they should be.
    #[error("{name}: {what} at byte {offset}")]
    Malformed {
        /// The file.
        name: String,
        /// Where.
        offset: u64,
        /// What is wrong, in words.
        what: String,
    },
}

/// How a file begins, in words.
fn begins(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "it is empty".to_owned();
    }
    format!("it begins with \"{}\"", bytes.escape_ascii())
}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
