//! The format's version and its history. `FORMAT.md` is the specification.
//!
//! | version | since | what changed |
//! |---|---|---|
//! | 1 | 0.1.0 | first |

/// The version this build writes.
pub const FORMAT_VERSION: u16 = 1;

/// Begins an artifact. The first byte is no text, and the line ends show a
/// file that was transferred as text.
pub(crate) const ARTIFACT_MAGIC: [u8; 8] = *b"\x8fMTK\r\n\x1a\n";

/// Begins a symbol file.
pub(crate) const SYMBOLS_MAGIC: [u8; 8] = *b"\x8fMTS\r\n\x1a\n";
