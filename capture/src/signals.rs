//! Signals: the command gets what it would get alone.
//!
//! An interrupt from the terminal reaches memtrack and the command alike, and
//! memtrack lets it pass, since the artifact is still to be completed. A
//! signal that somebody sends to memtrack alone is handed on.
#![allow(unsafe_code)]

use crate::error::{Result, system};
use nix::{
    sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, signal, sigprocmask},
    unistd::Pid,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    flag,
    iterator::{Handle, SignalsInfo, exfiltrator::origin::WithOrigin},
    low_level::siginfo::Cause,
};
use std::{
    fs, io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    thread::{self, JoinHandle},
};

/// What memtrack changes for itself, and Rust's runtime before `main`: how it
/// was before has to be read earlier.
///
/// - `SIGPIPE` is ignored by the runtime.
/// - While `SIGCHLD` is ignored the kernel reaps children itself, and nobody
///   can learn how they ended.
/// - `SIGXFSZ` would end memtrack at a limit of file size, instead of an error
///   of the write.
const CHANGED: [Signal; 3] = [Signal::SIGPIPE, Signal::SIGCHLD, Signal::SIGXFSZ];

/// By the place in [`CHANGED`], a bit for each that was ignored.
static WERE_IGNORED: AtomicU8 = AtomicU8::new(0);

/// A bit for each standard descriptor that was closed: the runtime puts
/// `/dev/null` there.
static WERE_CLOSED: AtomicU8 = AtomicU8::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = read_before_main;

extern "C" fn read_before_main() {
    for (place, signal) in CHANGED.into_iter().enumerate() {
        let ignored = u8::from(is_ignored(signal as libc::c_int));
        WERE_IGNORED.fetch_or(ignored << place, Ordering::Relaxed);
    }
    for descriptor in 0..=2 {
        // SAFETY: takes no pointers.
        let closed = unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1;
        WERE_CLOSED.fetch_or(u8::from(closed) << descriptor, Ordering::Relaxed);
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an all-zero sigaction is a valid value, only read here when the
    // call has filled it; with a null new action the call changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The state that the command is to begin with: what memtrack itself was
/// started with. Ignored signals stay ignored over fork and exec, and handlers
/// are reset by exec, so that the mask, [`CHANGED`] and closed descriptors
/// remain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    mask: SigSet,
    ignored: u8,
    closed: u8,
}

impl Inherited {
    /// Of the calling thread. From here on memtrack's own children can be
    /// waited for, and a limit of file size is an error.
    pub(crate) fn read() -> Result<Self> {
        for (changed, handler) in [
            (Signal::SIGCHLD, SigHandler::SigDfl),
            (Signal::SIGXFSZ, SigHandler::SigIgn),
        ] {
            // SAFETY: no handler function is installed.
            unsafe { signal(changed, handler) }.map_err(system("change of a signal"))?;
        }
        Ok(Self {
            mask: SigSet::thread_get_mask().map_err(system("signal mask"))?,
            ignored: WERE_IGNORED.load(Ordering::Relaxed),
            closed: WERE_CLOSED.load(Ordering::Relaxed),
        })
    }

    /// In the child, before exec.
    pub(crate) fn restore(self) -> io::Result<()> {
        for (place, changed) in CHANGED.into_iter().enumerate() {
            let handler = if self.ignored >> place & 1 == 1 {
                SigHandler::SigIgn
            } else {
                SigHandler::SigDfl
            };
            // SAFETY: no handler function is installed.
            unsafe { signal(changed, handler)? };
        }
        for descriptor in 0..=2 {
            if self.closed >> descriptor & 1 == 1 {
                // SAFETY: this process is the fork, and nothing in it uses
                // what the runtime put there.
                unsafe { libc::close(descriptor) };
            }
        }
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None)?;
        Ok(())
    }
}

/// Lets interrupts pass and hands on what is sent to this process, until
/// dropped. From then on a signal does what it did before.
pub(crate) struct Forwarding {
    handle: Option<Handle>,
    thread: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

/// The handlers stay for good once they are there: taking one away would not
/// bring the default back. `over` tells them to do what the default does.
struct Handlers {
    over: Arc<AtomicBool>,
    /// What memtrack was told to ignore stays ignored.
    ignored: u64,
}

static HANDLERS: Mutex<Option<Handlers>> = Mutex::new(None);

/// Installs them at the first recording.
fn handlers() -> Result<(Arc<AtomicBool>, u64)> {
    let mut handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handlers) = &*handlers {
        return Ok((Arc::clone(&handlers.over), handlers.ignored));
    }
    let ignored = ignored_signals();
    let over = Arc::new(AtomicBool::new(false));
    for signal in not_ignored(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP], ignored) {
        flag::register_conditional_default(signal, Arc::clone(&over))
            .map_err(system("handler of a signal"))?;
    }
    *handlers = Some(Handlers {
        over: Arc::clone(&over),
        ignored,
    });
    Ok((over, ignored))
}

fn not_ignored(signals: &[i32], ignored: u64) -> Vec<i32> {
    let taken = |signal: &&i32| (ignored >> (**signal - 1)) & 1 == 0;
    signals.iter().filter(taken).copied().collect()
}

impl Forwarding {
    /// Prepares it, before the fork.
    pub(crate) fn prepare() -> Result<Prepared> {
        let (over, ignored) = handlers()?;
        over.store(false, Ordering::SeqCst);
        let signals = SignalsInfo::<WithOrigin>::new(not_ignored(&[SIGTERM, SIGHUP], ignored))
            .map_err(system("handler of a signal"))?;
        Ok(Prepared { signals, over })
    }
}

/// Handlers are in place; nothing is handed on yet.
pub(crate) struct Prepared {
    signals: SignalsInfo<WithOrigin>,
    over: Arc<AtomicBool>,
}

impl Prepared {
    /// Hands signals on to `child`.
    pub(crate) fn forward_to(mut self, child: u32) -> Result<Forwarding> {
        let child = Pid::from_raw(child.cast_signed());
        let handle = self.signals.handle();
        let thread = thread::Builder::new()
            .name("memtrack-signals".into())
            .spawn(move || {
                for origin in &mut self.signals {
                    // The terminal's own go to the whole process group.
                    if matches!(origin.cause, Cause::Kernel) {
                        continue;
                    }
                    if let Ok(signal) = Signal::try_from(origin.signal) {
                        let _ = kill(child, signal);
                    }
                }
            })
            .map_err(system("thread for signals"))?;
        Ok(Forwarding {
            handle: Some(handle),
            thread: Some(thread),
            over: self.over,
        })
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(handle) = self.handle.take() {
            handle.close();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The set of ignored signals, bit 0 for signal 1 (proc_pid_status(5)).
fn ignored_signals() -> u64 {
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("SigIgn:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .unwrap_or(0)
}
