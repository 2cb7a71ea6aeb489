//! The guardian: a small process that lets everybody go on when memtrack dies,
//! however it dies.
//!
//! A stopped process can be woken by nobody but memtrack, so memtrack's death
//! must not be the end of it. The guardian is a fork of memtrack that holds the
//! stop maps and the read end of a pipe whose write end memtrack alone has.
//! When the pipe ends, memtrack is gone, and the guardian wakes whoever is in
//! the maps. It looks again for a while, since a BPF program that was running
//! at that moment may still have stopped somebody.
//!
//! After the fork of a process with threads only async-signal-safe calls are
//! allowed: the loop below makes bare system calls and allocates nothing.
#![allow(unsafe_code)]

use crate::{
    error::{Result, system},
    stops::StopKey,
};
use libbpf_rs::libbpf_sys;
use nix::{
    fcntl::OFlag,
    sys::wait::waitpid,
    unistd::{ForkResult, Pid, fork, pipe2},
};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};

/// How often the maps are looked through after memtrack's end, and how long
/// it waits in between: two seconds in all.
const ROUNDS: u32 = 100;
const ROUND_PAUSE_NS: libc::c_long = 20_000_000;
/// Entries handled per look at a map, so that it ends although others add.
const ENTRIES_PER_ROUND: u32 = 65_536;

/// The running guardian. Dropping it ends it.
pub(crate) struct Guardian {
    /// Closed by the drop, or by the kernel when this process ends.
    alive: Option<OwnedFd>,
    process: Pid,
}

impl Guardian {
    /// Starts one over the stop maps. To be called before links exist, so
    /// that the fork does not keep programs attached.
    pub(crate) fn start(maps: [&dyn AsFd; 2]) -> Result<Self> {
        let (ended, alive) = pipe2(OFlag::O_CLOEXEC).map_err(system("pipe of the guardian"))?;
        let keep = [
            ended.as_raw_fd(),
            maps[0].as_fd().as_raw_fd(),
            maps[1].as_fd().as_raw_fd(),
        ];
        // SAFETY: the child calls async-signal-safe functions only, see
        // `guard`, and never returns from it.
        match unsafe { fork() }.map_err(system("fork of the guardian"))? {
            ForkResult::Child => guard(keep),
            ForkResult::Parent { child } => Ok(Self {
                alive: Some(alive),
                process: child,
            }),
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if let Some(alive) = self.alive.take() {
            // A byte means: an orderly end, everybody has been let go.
            let _ = nix::unistd::write(&alive, &[ORDERLY]);
        }
        let _ = waitpid(self.process, None);
    }
}

/// Told to the guardian at an orderly end.
const ORDERLY: u8 = b'.';

fn guard(keep: [RawFd; 3]) -> ! {
    let [pipe, maps @ ..] = keep;
    // A session of its own: signals of the terminal and to the process group
    // pass it by.
    // SAFETY: takes no pointers and is async-signal-safe.
    unsafe { libc::setsid() };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: takes no pointers and is async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    close_all_but(keep);
    if !ends_orderly(pipe) {
        for _ in 0..ROUNDS {
            for map in maps {
                wake(map);
            }
            pause();
        }
    }
    // SAFETY: never returns and runs no handlers of the parent's.
    unsafe { libc::_exit(0) }
}

/// Waits for memtrack's end, and tells of which kind it was.
fn ends_orderly(pipe: RawFd) -> bool {
    let mut byte = 0_u8;
    loop {
        // SAFETY: the buffer is one byte that outlives the call.
        let read = unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) };
        if read == 1 {
            return byte == ORDERLY;
        }
        if read == 0 || nix::errno::Errno::last_raw() != libc::EINTR {
            return false;
        }
    }
}

fn pause() {
    let pause = libc::timespec {
        tv_sec: 0,
        tv_nsec: ROUND_PAUSE_NS,
    };
    // SAFETY: the first pointer is to a local, the second may be null.
    unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
}

/// Closes every descriptor but these, also the standard ones: whoever waits
/// for the end of memtrack's output must not wait for the guardian.
fn close_all_but(mut keep: [RawFd; 3]) {
    keep.sort_unstable();
    let mut from = 0;
    for fd in keep {
        let fd = libc::c_uint::try_from(fd).unwrap_or(0);
        if from < fd {
            close_range(from, fd - 1);
        }
        from = fd + 1;
    }
    close_range(from, libc::c_uint::MAX);
}

fn close_range(first: libc::c_uint, last: libc::c_uint) {
    // SAFETY: takes no pointers; nothing else runs in this process, so nobody
    // uses the descriptors.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Lets everybody in a stop map go on.
fn wake(map: RawFd) {
    let mut previous: Option<StopKey> = None;
    for _ in 0..ENTRIES_PER_ROUND {
        let mut key: StopKey = 0;
        let from = previous
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        let mut since_ns = 0_u64;
        // SAFETY: keys and values of the stop maps are 8 bytes (`bpf/maps.h`),
        // and all pointers are null or to 8-byte locals.
        let removed = unsafe {
            if libbpf_sys::bpf_map_get_next_key(map, from.cast(), (&raw mut key).cast()) != 0 {
                return;
            }
            let found = libbpf_sys::bpf_map_lookup_elem(
                map,
                (&raw const key).cast(),
                (&raw mut since_ns).cast(),
            );
            // Without a time the signal is still to be sent: next round.
            found == 0
                && since_ns != 0
                && libbpf_sys::bpf_map_delete_elem(map, (&raw const key).cast()) == 0
        };
        if removed {
            // SAFETY: takes no pointers.
            unsafe { libc::kill((key >> 32) as libc::pid_t, libc::SIGCONT) };
        } else {
            previous = Some(key);
        }
    }
}
