//! New files: a thread that has mapped code which nobody has looked at waits
//! until this thread has.

use crate::{
    clock::monotonic_ns,
    error::{Error, Result},
    probes::Probes,
    ring::Ring,
    stops::{Stops, stop_key},
    switches::Switches,
};
use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle};
use memtrack_artifact::{LossReason, Losses};
use memtrack_bpf::record::{AttachRequest, FileKey};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering::Acquire},
        mpsc::SyncSender,
    },
    time::Duration,
};

/// How long to wait for a request before looking whether all is over.
const PATIENCE: Duration = Duration::from_millis(20);
/// Remarks kept: a program can map any number of odd files.
const MAX_NOTES: usize = 100;

/// Where a system has its C library: looking at it beforehand saves the first
/// program a stop. Whatever else there is is found when it is mapped.
const USUAL_LIBRARIES: [&str; 5] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/aarch64-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib/libc.so.6",
    "/lib64/ld-linux-x86-64.so.2",
];

/// What the attaching thread works with.
pub(crate) struct Attacher<'a> {
    probes: Probes<'a>,
    /// Files that were looked at, as the programs name them.
    known: MapHandle,
    /// Files that were looked at, by device and inode of fstat(2), with their
    /// length: each is probed once, whatever the kernel calls it.
    probed: HashMap<(u64, u64), u64>,
    stops: &'a Stops,
    losses: Losses,
}

impl<'a> Attacher<'a> {
    /// Nothing is probed yet.
    pub(crate) fn new(probes: Probes<'a>, known: MapHandle, stops: &'a Stops) -> Self {
        Self {
            probes,
            known,
            probed: HashMap::new(),
            stops,
            losses: Losses::default(),
        }
    }

    /// Probes what the command will most likely use.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        for path in USUAL_LIBRARIES {
            let Ok(Some(file)) = open_regular(Path::new(path)) else {
                continue;
            };
            let Ok(metadata) = file.metadata() else {
                continue;
            };
            // On some file systems (btrfs, overlayfs) stat(2) names another
            // device than the mapping will: then the file is asked for again,
            // and `probed` keeps it from being probed twice.
            let key = FileKey {
                inode: metadata.ino(),
                device: (libc::major(metadata.dev()), libc::minor(metadata.dev())),
                size_bytes: metadata.len(),
            };
            self.look_at(key, &file, path)?;
        }
        Ok(())
    }

    /// Serves requests until `ended` is set, then lets everybody go on.
    /// Returns the probes, which are to be kept until the recording is over.
    ///
    /// Sends to `ready` when the ring is open. The look at `switches` says that somebody is there to undo stops also
    /// while the draining thread waits for a slow disk.
    pub(crate) fn run(
        mut self,
        requests: &MapHandle,
        switches: Switches<'_>,
        ready: SyncSender<()>,
        ended: &AtomicBool,
    ) -> Result<Attached> {
        let ring = Ring::open("attach_ring", requests)?;
        // If nobody listens, it is over already.
        let _ = ready.send(());
        drop(ready);
        loop {
            switches.reader_is_here(monotonic_ns());
            // Read first: what came before is served below.
            let ending = ended.load(Acquire);
            ring.wait(PATIENCE)?;
            for record in ring.records().iter() {
                if let Some(request) = AttachRequest::read(record) {
                    self.serve(&request)?;
                }
            }
            self.stops.wake_parents();
            if ending && self.stops.release_attach() {
                break;
            }
        }
        self.losses.notes.extend(self.probes.take_notes());
        Ok(Attached {
            losses: self.losses,
            links: self.probes.into_links(),
        })
    }

    fn serve(&mut self, request: &AttachRequest) -> Result<()> {
        for &(key, address) in &request.files {
            if self.is_known(key)? {
                continue;
            }
            match open_mapped(request.pid, address) {
                Ok(Some((file, name))) => self.look_at(key, &file, &name)?,
                Ok(None) => {}
                Err(error) => {
                    self.fail(
                        request.time_ns,
                        format!(
                            "a file mapped by process {} at {address:#x} could not be looked at: \
                             {error}",
                            request.pid
                        ),
                    );
                }
            }
        }
        if request.stopped {
            self.stops
                .release_attach_of(stop_key(request.pid, request.tid));
        }
        Ok(())
    }

    /// Probes a file where it has something to probe, and makes it known.
    fn look_at(&mut self, key: FileKey, file: &File, name: &str) -> Result<()> {
        match self.is_probed(file) {
            Ok(true) => {}
            Ok(false) => {
                if let Err(error) = self.probes.add(file, name) {
                    self.fail(monotonic_ns(), error.to_string());
                }
            }
            Err(error) => self.fail(monotonic_ns(), format!("{name}: {error}")),
        }
        self.known
            .update(&key.to_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(known_files)
    }

    /// Whether a file was looked at before, under whatever name; if not, it is
    /// noted now. A file that was rewritten in place since then still has its
    /// old probes, at places that mean something else by now: they are left
    /// alone, and that is said.
    fn is_probed(&mut self, file: &File) -> io::Result<bool> {
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        match self.probed.insert(identity, metadata.len()) {
            None => Ok(false),
            Some(len) if len == metadata.len() => Ok(true),
            Some(_) => Err(io::Error::other(
                "the file was rewritten while it was probed; its calls are not recorded",
            )),
        }
    }

    fn is_known(&self, key: FileKey) -> Result<bool> {
        let found = self
            .known
            .lookup(&key.to_bytes(), MapFlags::ANY)
            .map_err(known_files)?;
        Ok(found.is_some())
    }

    fn fail(&mut self, time_ns: u64, note: String) {
        self.losses.add(LossReason::AttachFailed, 1, time_ns);
        if self.losses.notes.len() < MAX_NOTES {
            self.losses.notes.push(note);
        }
    }
}

/// What is left when the recording is over.
pub(crate) struct Attached {
    /// What could not be probed, and remarks.
    pub(crate) losses: Losses,
    /// Dropping them takes the probes away.
    pub(crate) links: Vec<Link>,
}

fn known_files(source: libbpf_rs::Error) -> Error {
    Error::Map {
        map: "known_files",
        source,
    }
}

/// Opens the file that a process has mapped at an address, with its name.
/// `None` when the process has ended, or maps no regular file there.
fn open_mapped(pid: u32, address: u64) -> io::Result<Option<(File, String)>> {
    let maps = match fs::read(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // That of a process which is ending is empty.
    if maps.is_empty() {
        return Ok(None);
    }
    let line = maps
        .split(|&byte| byte == b'\n')
        .filter_map(parse_line)
        .find(|line| line.holds(address))
        .ok_or_else(|| io::Error::other("nothing is mapped there"))?;
    let path = format!("/proc/{pid}/map_files/{:x}-{:x}", line.start, line.end);
    let file = open_regular(Path::new(&path)).or_else(|error| {
        // It may have ended since.
        if Path::new(&format!("/proc/{pid}/maps")).exists() {
            Err(error)
        } else {
            Ok(None)
        }
    })?;
    Ok(file.map(|file| (file, line.name)))
}

/// A line of `/proc/PID/maps` (proc_pid_maps(5)).
#[derive(Debug, PartialEq, Eq)]
struct Line {
    start: u64,
    end: u64,
    name: String,
}

impl Line {
    fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

fn parse_line(line: &[u8]) -> Option<Line> {
    let text = String::from_utf8_lossy(line);
    // Range, permissions, offset, device, inode, then padding and the path.
    let mut fields = text.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let name = fields.nth(4).unwrap_or_default().trim_start().to_owned();
    Some(Line { start, end, name })
}

/// Opens a regular file; anything else (a device) is not even touched.
fn open_regular(path: &Path) -> io::Result<Option<File>> {
    let handle = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)?;
    if !handle.metadata()?.is_file() {
        return Ok(None);
    }
    File::open(format!("/proc/self/fd/{}", handle.as_raw_fd())).map(Some)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_spaces_in_its_path_keeps_them() {
        let line = b"7f00-7fff r-xp 00000000 fe:00 12                        /a b/c (deleted)";
        let line = parse_line(line).unwrap();
        assert_eq!(line.name, "/a b/c (deleted)");
        assert!(line.holds(0x7f00) && !line.holds(0x7fff));
        assert_eq!((line.start, line.end), (0x7f00, 0x7fff));
    }

    #[test]
    fn an_anonymous_line_has_no_name() {
        let line = parse_line(b"7f00-7fff rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!(line.name, "");
    }

    #[test]
    fn an_empty_line_is_none() {
        assert_eq!(parse_line(b""), None);
    }
}
