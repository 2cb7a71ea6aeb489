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

use crate::error::{Result, system};
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
        // On an orderly end the maps are empty and the guardian leaves at
        // once.
        self.alive = None;
        let _ = waitpid(self.process, None);
    }
}

fn guard(keep: [RawFd; 3]) -> ! {
    let [pipe, maps @ ..] = keep;
    // SAFETY: bare system calls on descriptors that this process has; all
    // pointers are to locals that outlive the call.
    unsafe {
        // A session of its own: signals of the terminal and to the process
        // group pass it by.
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        close_all_but(keep);
        let mut byte = 0_u8;
        loop {
            let read = libc::read(pipe, (&raw mut byte).cast(), 1);
            if read == 0 || (read < 0 && *libc::__errno_location() != libc::EINTR) {
                break;
            }
        }
        for _ in 0..ROUNDS {
            let woken = wake(maps[0]) + wake(maps[1]);
            // Nobody waits, and the program's own end released all of them.
            if woken == 0 && libc::getppid() == libc::getppid() {
                let pause = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: ROUND_PAUSE_NS,
                };
                libc::nanosleep(&raw const pause, std::ptr::null_mut());
            }
        }
        libc::_exit(0)
    }
}
