//! Where results go: a file opened before the work starts and put in place
//! when it is whole, or standard output.

use anyhow::{Context, Result};
use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// An opened place for one result.
pub(crate) enum Output {
    /// Standard output.
    Stdout(BufWriter<io::Stdout>),
    /// A regular file: written beside its place and renamed over it, so that
    /// a failure never leaves half a file under the name.
    File {
        temporary: BufWriter<NamedTempFile>,
        path: PathBuf,
    },
    /// A path that is there and is no regular file (a device, a pipe).
    Special {
        file: BufWriter<std::fs::File>,
        path: PathBuf,
    },
}

impl Output {
    pub(crate) fn stdout() -> Self {
        Self::Stdout(BufWriter::new(io::stdout()))
    }

    /// Opens a file for writing; fails at once when that is not possible.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("{}: cannot be written", path.display());
        if path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
            let file = std::fs::OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(path)
                .with_context(cannot)?;
            return Ok(Self::Special {
                file: BufWriter::new(file),
                path: path.to_owned(),
            });
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".memtrack-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The umask takes away what it should, as for any new file.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let temporary = builder.tempfile_in(folder).with_context(cannot)?;
        Ok(Self::File {
            temporary: BufWriter::new(temporary),
            path: path.to_owned(),
        })
    }

    /// The file's path; `None` for standard output.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdout(_) => None,
            Self::File { path, .. } | Self::Special { path, .. } => Some(path),
        }
    }

    /// Puts a finished file in its place.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Stdout(mut out) => out.flush(),
            Self::Special { mut file, .. } => file.flush(),
            Self::File { temporary, path } => {
                let temporary = temporary.into_inner().map_err(|error| error.into_error())?;
                temporary.persist(path)?;
                Ok(())
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File { temporary, .. } => temporary.write(bytes),
            Self::Special { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File { temporary, .. } => temporary.flush(),
            Self::Special { file, .. } => file.flush(),
        }
    }
}

/// The path without links and relative parts; the file need not be there yet.
pub(crate) fn place_of(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    })
}

/// Whether an error is only a reader that went away (`memtrack report | head`).
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_under_its_name_only_when_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = Output::create(&path).unwrap();
        output.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(output);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut output = Output::create(&path).unwrap();
        output.write_all(b"whole").unwrap();
        output.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_folder_that_is_not_there_is_refused_at_once_by_name() {
        let path = Path::new("/nonexistent/folder/out");
        let error = Output::create(path).err().unwrap();
        assert!(format!("{error:#}").contains("/nonexistent/folder/out"));
    }
}
