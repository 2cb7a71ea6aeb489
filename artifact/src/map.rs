//! The bytes of an opened file: mapped, or owned when they came from memory.
//! This is the only module of the room with unsafe code.

use crate::error::{Error, Result};
use std::{fs::File, path::Path};

/// Bytes that stay where they are for as long as this lives.
pub(crate) enum Bytes {
    Owned(Vec<u8>),
    Mapped(memmap2::Mmap),
}

impl Bytes {
    /// Maps a regular file for reading.
    pub(crate) fn map(path: &Path) -> Result<Self> {
        let io = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(io(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "is not a regular file",
            )));
        }
        if metadata.len() == 0 {
            // Linux refuses mappings of length 0.
            return Ok(Self::Owned(Vec::new()));
        }
        // SAFETY: the mapping is private and read-only, and this type hands
        // out only shared slices bound to its own lifetime. What remains is
        // that another process changes the file meanwhile: every length and
        // id read from these bytes is checked at each use, so changed bytes
        // give wrong values or an error, not an access out of bounds of the
        // mapping. A file that is made shorter meanwhile ends this process
        // with SIGBUS; artifacts are append-only, so only a user's own doing
        // can bring that about.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        Ok(Self::Mapped(map))
    }

    /// All of them.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}
