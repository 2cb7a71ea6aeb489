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
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// Whether this process was started with `SIGPIPE` ignored. Rust's runtime
/// ignores it before `main`, so it has to be read earlier.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Whether it was started with `SIGCHLD` ignored. Then the kernel reaps
/// children itself and nobody can learn how they ended: memtrack needs the
/// default.
static CHILD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = read_before_main;

extern "C" fn read_before_main() {
    PIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    CHILD_WAS_IGNORED.store(is_ignored(libc::SIGCHLD), Ordering::Relaxed);
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

/// The signal state that the command is to begin with: what memtrack itself
/// was started with. Ignored signals stay ignored over fork and exec, and
/// handlers are reset by exec, so that the mask and the two that memtrack
/// changes remain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    mask: SigSet,
    pipe: SigHandler,
    child: SigHandler,
}

impl Inherited {
    /// Of the calling thread. From here on memtrack's own children can be
    /// waited for.
    pub(crate) fn read() -> Result<Self> {
        let handler = |was_ignored: &AtomicBool| {
            if was_ignored.load(Ordering::Relaxed) {
                SigHandler::SigIgn
            } else {
                SigHandler::SigDfl
            }
        };
        let child = handler(&CHILD_WAS_IGNORED);
        if matches!(child, SigHandler::SigIgn) {
            // SAFETY: no handler function is installed.
            unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }
                .map_err(system("default of SIGCHLD"))?;
        }
        Ok(Self {
            mask: SigSet::thread_get_mask().map_err(system("signal mask"))?,
            pipe: handler(&PIPE_WAS_IGNORED),
            child,
        })
    }

    /// In the child, before exec.
    pub(crate) fn restore(self) -> io::Result<()> {
        // SAFETY: no handler function is installed.
        unsafe {
            signal(Signal::SIGPIPE, self.pipe)?;
            signal(Signal::SIGCHLD, self.child)?;
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
