//! Starting the command: it is there, waiting, before it becomes the program.
//!
//! ```text
//! memtrack        ── fork ──▶ child
//!   reads the pid ◀───────── writes its pid
//!   tracks it, opens its
//!   module stream, probes
//!   lets it go ────────────▶ becomes the user, resets signals, execs
//! ```
//!
//! `Command::spawn` returns when the exec has happened, so it runs on a thread
//! of its own.
#![allow(unsafe_code)]

use crate::{
    error::{Error, Result, system},
    signals::Inherited,
    user::User,
};
use nix::{
    fcntl::OFlag,
    unistd::{pipe2, read, write},
};
use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd, RawFd},
        unix::process::CommandExt as _,
    },
    process::{Child, Command},
    thread::{self, JoinHandle},
};

/// A child that has not become the command yet. Dropping it ends it.
pub(crate) struct Held {
    command: OsString,
    pid: u32,
    release: Option<OwnedFd>,
    spawner: Option<JoinHandle<io::Result<Child>>>,
}

impl Held {
    /// Forks it.
    pub(crate) fn fork(
        command: &[OsString],
        inherited: Inherited,
        user: Option<&User>,
    ) -> Result<Self> {
        let (program, arguments) = command.split_first().ok_or(Error::NoCommand)?;
        let (pid_from, pid_to) = pipe2(OFlag::O_CLOEXEC).map_err(system("pipe to the child"))?;
        let (release_from, release) =
            pipe2(OFlag::O_CLOEXEC).map_err(system("pipe to the child"))?;

        let mut child = Command::new(program);
        child.args(arguments);
        let user = user.cloned();
        let our_end = release.as_raw_fd();
        // SAFETY: between fork and exec the closure makes bare system calls
        // through nix, on values made before the fork, and allocates nothing.
        unsafe {
            child.pre_exec(move || {
                wait_for_release(&pid_to, &release_from, our_end)?;
                if let Some(user) = &user {
                    user.become_it()?;
                }
                inherited.restore()
            });
        }
        let spawner = thread::Builder::new()
            .name("memtrack-spawn".into())
            .spawn(move || {
                // The pipes' ends in the closure go with `child`: if the fork
                // fails, reading the pid below ends.
                let result = child.spawn();
                drop(child);
                result
            })
            .map_err(system("thread for the child"))?;

        let mut bytes = [0; 4];
        let got = read(&pid_from, &mut bytes).map_err(system("pid of the child"))?;
        if got != bytes.len() {
            let source = match spawner.join() {
                Ok(Err(source)) => source,
                _ => io::ErrorKind::UnexpectedEof.into(),
            };
            return Err(Error::System {
                action: "fork of the command",
                source,
            });
        }
        Ok(Self {
            command: program.clone(),
            pid: u32::from_ne_bytes(bytes),
            release: Some(release),
            spawner: Some(spawner),
        })
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it become the command.
    pub(crate) fn exec(mut self) -> Result<Child> {
        if let Some(release) = self.release.take() {
            write(&release, &[0]).map_err(system("release of the child"))?;
        }
        let spawned = match self.spawner.take().map(JoinHandle::join) {
            Some(Ok(spawned)) => spawned,
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let command = self.command.clone();
        spawned.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::CommandNotFound { command },
            _ => Error::CommandNotRunnable { command, source },
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The child finds the pipe closed and ends without an exec; `spawn`
        // has reaped it when it returns.
        self.release = None;
        if let Some(spawner) = self.spawner.take() {
            let _ = spawner.join();
        }
    }
}

/// In the child: says who it is, and waits.
fn wait_for_release(pid_to: &OwnedFd, release_from: &OwnedFd, our_end: RawFd) -> io::Result<()> {
    // The child's copy of the parent's end would keep the pipe open when the
    // parent is gone.
    // SAFETY: this process is the fork, which has no other user of that
    // descriptor: the owner is in the parent, and exec closes the rest.
    unsafe { libc::close(our_end) };
    write(pid_to, &std::process::id().to_ne_bytes())?;
    let mut byte = [0];
    loop {
        match read(release_from, &mut byte) {
            Ok(1) => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
