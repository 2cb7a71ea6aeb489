//! Finds the file behind a mapping, and makes sure that it is the one.

use crate::{elf::ElfFile, file::FileBytes};
use memtrack_artifact::{BuildId, FileIdentity, MappedFile, Mapping, Pid};
use std::{
    ffi::OsStr,
    fs::{File, Metadata, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::{MetadataExt, OpenOptionsExt},
        },
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What the kernel appends to the path of an unlinked file (`d_path`).
const DELETED: &[u8] = b" (deleted)";

/// An opened regular file.
pub(super) struct Found {
    file: File,
    /// It was opened through the mapping itself, whatever the path leads to
    /// by now.
    through_mapping: bool,
    /// When its bytes were last written, as it was when the file was opened.
    modified_ns: i128,
}

impl Found {
    /// Opens a regular file.
    fn open(path: &Path, through_mapping: bool) -> io::Result<Self> {
        let file = open_regular(path)?;
        let modified_ns = modified_ns(&file.metadata()?);
        Ok(Self {
            file,
            through_mapping,
            modified_ns,
        })
    }

    fn inode(&self) -> Option<(u64, u64)> {
        let metadata = self.file.metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    }

    /// Whether it is worth keeping for a file of this identity.
    pub(super) fn may_be(&self, mapped: &FileIdentity) -> bool {
        mapped.build_id.is_some()
            || self
                .file
                .metadata()
                .is_ok_and(|found| self.is_same_inode(&found, mapped))
    }

    /// Whether it has the inode that was mapped. The device number is left out
    /// where the file was opened through the mapping: btrfs gives another one
    /// there. The inode is not: the process may have replaced its image by the
    /// time it is looked at, and have another file at the same addresses.
    fn is_same_inode(&self, metadata: &Metadata, mapped: &FileIdentity) -> bool {
        let device = (libc::major(metadata.dev()), libc::minor(metadata.dev()));
        metadata.ino() == mapped.inode && (self.through_mapping || device == mapped.device)
    }
}

/// Opens a regular file for reading; anything else (a device, a pipe) is not
/// even touched.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let handle = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)?;
    if !handle.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

/// The file that a live process has mapped there, whatever became of its path
/// (proc_pid_map_files(5); needs CAP_CHECKPOINT_RESTORE).
pub(super) fn through_mapping(pid: Pid, mapping: &Mapping) -> Option<Found> {
    let end = mapping.start.checked_add(mapping.len)?;
    let path = format!("/proc/{pid}/map_files/{:x}-{end:x}", mapping.start);
    Found::open(Path::new(&path), true).ok()
}

/// The file at the path as a live process sees it, in its mount namespace.
pub(super) fn through_root(pid: Pid, path: &[u8]) -> Option<Found> {
    if !path.starts_with(b"/") {
        return None;
    }
    let mut full = format!("/proc/{pid}/root").into_bytes();
    full.extend_from_slice(path);
    let full = PathBuf::from(std::ffi::OsString::from_vec(full));
    Found::open(&full, false).ok()
}

/// Opens the file that was mapped as `mapped`, first seen at `first_ns`
/// (`CLOCK_MONOTONIC`), and checks that it still is that file. Gives its bytes
/// and remarks; the error is the reason for refusing, for people.
pub(super) fn open_checked(
    mapped: &MappedFile,
    held: Option<Found>,
    first_ns: u64,
) -> Result<(FileBytes, Vec<String>), String> {
    let held_inode = held.as_ref().and_then(Found::inode);
    let mut reason = None;
    let by_path = candidates(&mapped.path)
        .into_iter()
        .map(|path| Found::open(path, false))
        // The held descriptor knows more about the same file.
        .filter(|found| match found {
            Ok(found) => held_inode.is_none() || found.inode() != held_inode,
            Err(_) => true,
        });
    for found in held.into_iter().map(Ok).chain(by_path) {
        let checked = found
            .map_err(|error| format!("cannot be opened: {error}"))
            .and_then(|found| check(&found, &mapped.file, first_ns));
        match checked {
            Ok(taken) => return Ok(taken),
            // The first reason is about the file itself or its exact path.
            Err(error) => reason = reason.or(Some(error)),
        }
    }
    Err(reason.unwrap_or_else(|| "has no path to open it by".into()))
}

/// The path as the kernel gave it, and without the mark of an unlinked file: a
/// name may end in that mark by itself, and another file may have come to the
/// path. The identity decides.
fn candidates(path: &[u8]) -> Vec<&Path> {
    if !path.starts_with(b"/") || path.starts_with(b"//") {
        return Vec::new();
    }
    std::iter::once(path)
        .chain(path.strip_suffix(DELETED))
        .map(|path| Path::new(OsStr::from_bytes(path)))
        .collect()
}

fn check(
    found: &Found,
    mapped: &FileIdentity,
    first_ns: u64,
) -> Result<(FileBytes, Vec<String>), String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let metadata = found.file.metadata().map_err(failed)?;
    let bytes = FileBytes::map(&found.file).map_err(failed)?;
    let build_id = ElfFile::parse(&bytes)
        .map_err(|error| error.to_string())?
        .build_id();

    let same_inode = found.is_same_inode(&metadata, mapped);
    let written = is_written_since(found, &metadata, first_ns);
    let mut notes = Vec::new();
    match (&mapped.build_id, &build_id) {
        // Equal build ids suffice: device numbers differ on overlayfs and
        // btrfs, and the same build may have been installed again.
        (Some(was), Some(is)) if was == is => {
            if same_inode && written {
                notes.push("written to after it was mapped, but its build id is the same".into());
            }
        }
        (Some(was), is) => {
            return Err(format!(
                "changed since it was mapped: build id {}, was {was}",
                is.as_ref()
                    .map_or_else(|| "none".into(), BuildId::to_string)
            ));
        }
        (None, _) if !same_inode => {
            return Err(format!(
                "another file is there now: inode {} on device {}:{}, was {} on {}:{}",
                metadata.ino(),
                libc::major(metadata.dev()),
                libc::minor(metadata.dev()),
                mapped.inode,
                mapped.device.0,
                mapped.device.1,
            ));
        }
        (None, _) if written => {
            return Err("written to after it was mapped".into());
        }
        (None, _) => {}
    }
    Ok((bytes, notes))
}

/// Whether the file was written to since it was opened early, or else since
/// the moment of its first mapping.
fn is_written_since(found: &Found, now: &Metadata, first_ns: u64) -> bool {
    let modified = modified_ns(now);
    modified != found.modified_ns || modified > wall_ns(first_ns)
}

fn modified_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

/// A moment of `CLOCK_MONOTONIC` as wall time, ns since 1970, by the
/// difference of the two clocks now. A second of grace allows for a clock that
/// is being adjusted.
fn wall_ns(monotonic_ns: u64) -> i128 {
    const GRACE: Duration = Duration::from_secs(1);
    let ago = crate::clock::monotonic_ns().saturating_sub(monotonic_ns);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    (now + GRACE).as_nanos().cast_signed() - i128::from(ago)
}
