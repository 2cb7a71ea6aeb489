//! One CPU's perf events and their ring: the system calls and the shared
//! memory of the module stream.
//!
//! Layout and protocol are those of `struct perf_event_mmap_page` in
//! include/uapi/linux/perf_event.h: the kernel writes at `data_head` and never
//! beyond `data_tail`, which the reader advances when it has copied.

#![allow(unsafe_code)]

use memmap2::{MmapOptions, MmapRaw};
use memtrack_artifact::Pid;
use perf_event_open_sys::{
    bindings::{
        PERF_COUNT_SW_DUMMY, PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_LOST, PERF_SAMPLE_IDENTIFIER,
        PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr,
        perf_event_mmap_page,
    },
    ioctls, perf_event_open,
};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd},
    ptr::addr_of_mut,
    sync::atomic::{AtomicU64, Ordering},
};

/// Which step failed.
pub(super) enum OpenError {
    /// `perf_event_open`.
    Event(io::Error),
    /// Mapping the ring.
    Memory(io::Error),
}

/// The events of one CPU.
pub(super) struct Ring {
    event: File,
    /// The event that reports build ids, and its id.
    build_ids: Option<(File, u64)>,
    map: MmapRaw,
    page_bytes: usize,
    data_bytes: usize,
}

impl Ring {
    /// Opens the events of `pid` on `cpu`, with a ring of `data_bytes`, a
    /// power of two and at least a page.
    pub(super) fn open(pid: Pid, cpu: u32, data_bytes: usize) -> Result<Self, OpenError> {
        let page_bytes = page_bytes();
        let data_bytes = data_bytes.max(page_bytes);
        let event = open_event(pid, cpu, data_bytes, false).map_err(OpenError::Event)?;
        let map = MmapOptions::new()
            .len(page_bytes + data_bytes)
            .map_raw(&event)
            .map_err(OpenError::Memory)?;
        // Without it (before Linux 5.12) build ids are read from the files.
        let build_ids = open_event(pid, cpu, data_bytes, true)
            .and_then(|other| redirect(&other, &event).map(|id| (other, id)))
            .ok();
        Ok(Self {
            event,
            build_ids,
            map,
            page_bytes,
            data_bytes,
        })
    }

    /// The id that records of the build id event carry.
    pub(super) fn build_id_event(&self) -> Option<u64> {
        self.build_ids.as_ref().map(|(_, id)| *id)
    }

    /// Appends every record that is whole to `out`, and frees its room.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) {
        let page = self.map.as_mut_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the map begins with the control page, whole and aligned to a
        // page; it lives as long as `self`. The kernel writes `data_head` and
        // this reader alone writes `data_tail`, both only as atomics.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(addr_of_mut!((*page).data_head)),
                AtomicU64::from_ptr(addr_of_mut!((*page).data_tail)),
            )
        };
        // Pairs with the kernel's barrier before it moves the head: what lies
        // below it is written.
        let end = head.load(Ordering::Acquire);
        let start = tail.load(Ordering::Relaxed);
        let len = usize::try_from(end.wrapping_sub(start)).unwrap_or(usize::MAX);
        if len > self.data_bytes {
            // Only a kernel that broke the protocol gets here. Start afresh.
            tail.store(end, Ordering::Release);
            return;
        }
        let at = (start as usize) & (self.data_bytes - 1);
        let first = len.min(self.data_bytes - at);
        // SAFETY: `at + first` and `len - first` are at most `data_bytes`,
        // which the map holds after the control page. The kernel does not
        // write between tail and head.
        unsafe {
            let data = self.map.as_ptr().add(self.page_bytes);
            out.extend_from_slice(std::slice::from_raw_parts(data.add(at), first));
            out.extend_from_slice(std::slice::from_raw_parts(data, len - first));
        }
        // Release: the copy is done before the kernel may write there again.
        tail.store(end, Ordering::Release);
    }

    /// Records that found no room, as far as the kernel counts them
    /// (`PERF_FORMAT_LOST`, Linux 6.0 and later; else 0).
    pub(super) fn dropped_count(&self) -> u64 {
        let others = self.build_ids.iter().map(|(file, _)| file);
        std::iter::once(&self.event)
            .chain(others)
            .map(|mut file| {
                // The counter's value, then the number of lost records.
                let mut values = [0u8; 16];
                match file.read(&mut values) {
                    Ok(16) => u64::from_ne_bytes([
                        values[8], values[9], values[10], values[11], values[12], values[13],
                        values[14], values[15],
                    ]),
                    _ => 0,
                }
            })
            .sum()
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Opens one event, without the count of lost records on kernels that do not
/// know it.
fn open_event(pid: Pid, cpu: u32, data_bytes: usize, build_ids: bool) -> io::Result<File> {
    let mut attr = attributes(data_bytes, build_ids);
    attr.read_format = u64::from(PERF_FORMAT_LOST);
    open_with(&mut attr, pid, cpu).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => open_with(&mut attributes(data_bytes, build_ids), pid, cpu),
        _ => Err(error),
    })
}

fn attributes(data_bytes: usize, build_ids: bool) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(PERF_COUNT_SW_DUMMY),
        sample_type: u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER),
        clockid: libc::CLOCK_MONOTONIC,
        ..perf_event_attr::default()
    };
    attr.set_inherit(1);
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    // What the kernel does is not asked for, so that less privilege will do.
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    if build_ids {
        attr.set_build_id(1);
    } else {
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
    }
    attr.set_watermark(1);
    attr.wakeup_watermark = u32::try_from(data_bytes / 4).unwrap_or(u32::MAX);
    attr
}

fn open_with(attr: &mut perf_event_attr, pid: Pid, cpu: u32) -> io::Result<File> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let pid = i32::try_from(pid.0).map_err(invalid)?;
    let cpu = i32::try_from(cpu).map_err(invalid)?;
    // SAFETY: `attr` is a whole, initialised `perf_event_attr` of the size it
    // states. A dummy event has no effect on the observed process.
    let fd = unsafe { perf_event_open(attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just given this descriptor to us alone.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Makes `event` write to the ring of `target`; gives the id of its records.
fn redirect(event: &File, target: &File) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: both descriptors are open perf events, and `id` outlives the
    // call that writes it.
    let failed = unsafe {
        ioctls::SET_OUTPUT(event.as_raw_fd(), target.as_raw_fd()) < 0
            || ioctls::ID(event.as_raw_fd(), &mut id) < 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(id)
}

/// The page size in bytes.
fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}
