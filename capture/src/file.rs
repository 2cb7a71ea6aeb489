//! A file's bytes, mapped.

#![allow(unsafe_code)]

use memmap2::Mmap;
use std::{fs::File, io, ops::Deref};

/// A whole file, mapped read-only and private.
///
/// Borrowing instead of copying keeps memory flat: debug information alone can
/// be gigabytes. The price is that a file which somebody truncates while it is
/// being read ends memtrack with SIGBUS; package managers and linkers replace
/// files instead of truncating them.
pub(crate) struct FileBytes(Option<Mmap>);

impl FileBytes {
    /// Maps `file`.
    ///
    /// # Errors
    /// When the system refuses, for example because it is a directory.
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            // mmap(2) refuses a length of 0.
            return Ok(Self(None));
        }
        // SAFETY: the mapping is private and read-only; nothing here hands out
        // references that outlive it. That another process may write to the
        // file is the caller's risk as documented: every reader of these bytes
        // treats them as hostile and checks each length.
        unsafe { Mmap::map(file) }.map(|map| Self(Some(map)))
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
