//! A recording from beginning to end.

use crate::{
    attach::{Attached, Attacher},
    clock::monotonic_ns,
    counters,
    detach::Detaching,
    drain::{BATCHES, Drain},
    error::{Error, Result, system},
    guardian::Guardian,
    harvest::{Harvest, HarvestSummary},
    mappings::ModuleStream,
    options::{Options, StackMode},
    output::Output,
    probes::Probes,
    programs::{self, Programs},
    signals::{Forwarding, Inherited, Prepared},
    spawn::Held,
    stops::Stops,
    switches::Switches,
    user::User,
    writer::{Counts, Recorder, Written},
};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapMut};
use memtrack_artifact::{
    Ending, ExitStatus, LossCount, LossReason, Losses, Pid, Progress, StackForm, WriteSummary,
};
use memtrack_bpf::types;
use std::{
    fs::{self, File},
    io,
    mem::MaybeUninit,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process,
    sync::{
        atomic::{AtomicBool, Ordering::Release},
        mpsc::sync_channel,
    },
    thread::{self, Scope, ScopedJoinHandle},
    time::Duration,
};

/// The link of the initial pid namespace (`PROC_PID_INIT_INO` of
/// include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";
/// A `struct process` of `bpf/maps.h` that is all zeros is a process that is
/// tracked, and recorded from its exec on.
const TRACKED: [u8; size_of::<types::process>()] = [0; size_of::<types::process>()];

/// What a recording has come to.
#[derive(Debug)]
pub struct Outcome {
    /// How the command ended.
    pub status: ExitStatus,
    /// The artifact.
    pub path: PathBuf,
    /// What was counted while writing.
    pub counts: Counts,
    /// Calls of `free(NULL)`.
    pub null_frees: u64,
    /// Everything that was lost, and who was held.
    pub losses: Losses,
    /// The files that were taken along.
    pub modules: HarvestSummary,
    /// What the artifact holds.
    pub summary: WriteSummary,
}

/// Runs a command and records it.
///
/// `progress` hears of the work that is left when the command has ended.
///
/// # Errors
/// When recording cannot begin, when the command cannot be started (see
/// [`Error::shell_status`]), or when the artifact cannot be written. Whatever
/// is lost on the way is no error, but in [`Outcome::losses`].
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Outcome> {
    programs::check(options)?;
    check_pid_namespace()?;
    let mut notes = Vec::new();
    let stacks = usable_stacks(options, &mut notes);

    let mut object = MaybeUninit::uninit();
    let programs = Programs::load(&mut object, options, stacks)?;
    let maps = programs.maps();
    let stops = Stops::new(
        handle("pressure_stopped", &maps.pressure_stopped)?,
        handle("attach_stopped", &maps.attach_stopped)?,
    );
    // Before anything is attached, and before there are threads.
    let guardian = Guardian::start([&maps.pressure_stopped, &maps.attach_stopped])?;
    let tracepoints = programs.follow_processes()?;
    let mut attacher = Attacher::new(
        Probes::new(&programs),
        handle("known_files", &maps.known_files)?,
        &stops,
    );
    attacher.prepare()?;

    let user = User::behind_sudo();
    let signals = Forwarding::prepare()?;
    let held = Held::fork(&options.command, Inherited::read()?, user.as_ref())?;
    let pid = held.pid();
    let output = Output::create(options, pid, user.as_ref())?;

    let recorded = Recording {
        programs: &programs,
        stops: &stops,
        stacks,
    }
    .record(held, signals, attacher, options, &output);
    let (status, written, attached, left_bytes) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            // Unless the command has run and something of it was written.
            if error.is_before_start() {
                output.discard();
            }
            return Err(error);
        }
    };

    let mut losses = attached.losses;
    losses.notes.extend(notes);
    losses.pauses = stops.take_pauses();
    let null_frees = counters::gather(&handle("counters", &maps.counters)?, &mut losses)?;
    let end_monotonic_ns = monotonic_ns();
    let left = maps.processes.keys().count();
    if left > 0 {
        losses.notes.push(format!(
            "{left} processes outlived the command; what they did after its end is not recorded"
        ));
    }
    // From here on only the file matters.
    drop(guardian);
    let mut links = attached.links;
    links.extend(tracepoints);
    let detaching = Detaching::start(links);
    note_missing(&written, &mut losses);
    if left_bytes > 0 {
        losses.add(LossReason::WriteFailed, 1, end_monotonic_ns);
        losses.notes.push(format!(
            "{left_bytes} bytes of the rings were never completed by the kernel side"
        ));
    }
    let not_written = |source| Error::NotWritten { status, source };
    if let Some(failure) = written.failure {
        return Err(not_written(failure));
    }
    let mut artifact = written.artifact;
    let modules = written
        .harvest
        .finish(&mut artifact, progress)
        .map_err(not_written)?;
    let ending = Ending {
        end_monotonic_ns,
        status: Some(status),
        root_pid: Some(Pid(pid)),
        null_frees,
    };
    let (_, summary) = artifact.finish(&losses, &ending).map_err(not_written)?;
    drop(detaching);
    Ok(Outcome {
        status,
        path: output.path().to_owned(),
        counts: written.counts,
        null_frees,
        losses,
        modules,
        summary,
    })
}

/// What the threads of a recording share.
struct Recording<'a> {
    programs: &'a Programs<'a>,
    stops: &'a Stops,
    stacks: StackMode,
}

impl<'a> Recording<'a> {
    /// Lets the command run, and records it to its end.
    fn record(
        &self,
        held: Held,
        signals: Prepared,
        attacher: Attacher<'a>,
        options: &Options,
        output: &Output,
    ) -> Result<(ExitStatus, Written<File>, Attached, u64)> {
        let pid = held.pid();
        let maps = self.programs.maps();
        let switches = self.programs.switches;
        let form = match self.stacks {
            StackMode::FramePointer => StackForm::FramePointer,
            StackMode::Raw | StackMode::Off => StackForm::Raw,
        };
        let harvest = Harvest::with_search(options.debug.clone());
        let recorder = Recorder::new(output.begin(options, self.stacks)?, form, harvest);
        let (batches, received) = sync_channel(BATCHES);
        let drain = Drain {
            switches,
            stops: self.stops,
            events: handle("event_ring", &maps.event_ring)?,
            stacks: handle("stack_ring", &maps.stack_ring)?,
            modules: self.module_stream(pid)?,
            writer: batches,
        };
        let requests = handle("attach_ring", &maps.attach_ring)?;
        maps.processes
            .update(&pid.to_ne_bytes(), &TRACKED, MapFlags::ANY)
            .map_err(|source| Error::Map {
                map: "processes",
                source,
            })?;
        switches.reader_is_here(monotonic_ns());
        switches.set_recording(true);

        let ended = AtomicBool::new(false);
        let ended = &ended;
        thread::scope(|scope| {
            let writing = start(scope, "write", move || recorder.run(&received))?;
            let (draining_ready, ready) = sync_channel(2);
            let attaching_ready = draining_ready.clone();
            let draining = start(scope, "drain", move || {
                let _undo = self.undo_stops();
                drain.run(draining_ready, ended)
            })?;
            let requests = &requests;
            let attaching = start(scope, "attach", move || {
                let _undo = self.undo_stops();
                attacher.run(requests, switches, attaching_ready, ended)
            })?;

            // One of them may have ended instead: then the command is not
            // started, and the reason comes out of the threads below.
            let status = match (ready.recv(), ready.recv()) {
                (Ok(()), Ok(())) => Some(run_command(held, signals)),
                _ => {
                    drop(held);
                    None
                }
            };
            switches.set_recording(false);
            ended.store(true, Release);
            let attached = join("attach", attaching)?;
            let drained = join("drain", draining)?;
            let written = join("write", writing)?;
            // The command's own failure is the first to tell of.
            let status = status.transpose()?;
            let (left_bytes, attached) = (drained?, attached?);
            let status = status.ok_or(Error::WriterGone)?;
            Ok((status, written, attached, left_bytes))
        })
    }

    /// To be held by the threads that undo stops.
    fn undo_stops(&self) -> UndoStops<'_> {
        UndoStops {
            switches: self.programs.switches,
            stops: self.stops,
        }
    }

    /// Without stacks the stream is not needed: it may fail then.
    fn module_stream(&self, pid: u32) -> Result<Option<ModuleStream>> {
        match ModuleStream::open(Pid(pid)) {
            Ok(stream) => Ok(Some(stream)),
            Err(_) if self.stacks == StackMode::Off => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A thread without which stops are not undone ends, in whatever way: from
/// here on nobody is stopped, and everybody who is goes on.
struct UndoStops<'a> {
    switches: Switches<'a>,
    stops: &'a Stops,
}

impl Drop for UndoStops<'_> {
    fn drop(&mut self) {
        self.switches.set_recording(false);
        // A stop that was begun is complete within microseconds.
        for _ in 0..1000 {
            let pressure = self.stops.release_pressure();
            let attach = self.stops.release_attach();
            if pressure && attach {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs the command to its end.
fn run_command(held: Held, signals: Prepared) -> Result<ExitStatus> {
    let forwarding = signals.forward_to(held.pid())?;
    let mut child = held.exec()?;
    let status = child.wait().map_err(system("waiting for the command"))?;
    drop(forwarding);
    Ok(exit_status(status))
}

fn exit_status(status: process::ExitStatus) -> ExitStatus {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, signal) => ExitStatus::Signal(signal.unwrap_or(0)),
    }
}

/// Stacks can be taken only where the modules that they point into are known.
fn usable_stacks(options: &Options, notes: &mut Vec<String>) -> StackMode {
    if options.stacks == StackMode::Off {
        return StackMode::Off;
    }
    match ModuleStream::open(Pid(process::id())) {
        Ok(_) => options.stacks,
        Err(error) => {
            notes.push(format!("stacks were switched off: {error}"));
            StackMode::Off
        }
    }
}

fn check_pid_namespace() -> Result<()> {
    match fs::read_link("/proc/self/ns/pid") {
        Ok(link) if link != Path::new(INITIAL_PID_NAMESPACE) => Err(Error::PidNamespace),
        _ => Ok(()),
    }
}

/// Loses only what nothing recorded later.
fn note_missing(written: &Written<File>, losses: &mut Losses) {
    let not_written = written.dropped + written.counts.unreadable;
    losses.add(LossReason::WriteFailed, not_written, 0);
    let lost = written.lost_modules;
    losses.add(LossReason::ModuleRecordLost, lost.count, lost.first_ns);
    if let Some(entry) = losses.counts.get_mut(&LossReason::ModuleRecordLost) {
        entry.last_ns = entry.last_ns.max(lost.last_ns);
    }
    // A stack that found the ring full is shipped again when it next occurs.
    let missing = written.missing_stacks;
    let refused = losses.counts.get(&LossReason::StackRingFull).copied();
    let refused_count = refused.map_or(0, |refused| refused.count);
    if refused_count > missing {
        losses.notes.push(format!(
            "{} times a stack found the stack ring full and was recorded when it occurred again",
            refused_count - missing
        ));
    }
    if missing == 0 {
        losses.counts.remove(&LossReason::StackRingFull);
    } else {
        let span = refused.unwrap_or_default();
        losses.counts.insert(
            LossReason::StackRingFull,
            LossCount {
                count: missing,
                ..span
            },
        );
    }
}

fn handle(name: &'static str, map: &MapMut<'_>) -> Result<MapHandle> {
    MapHandle::try_from(map).map_err(|source| Error::Map { map: name, source })
}

fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new()
        .name(format!("memtrack-{name}"))
        .spawn_scoped(scope, work)
        .map_err(system::<io::Error>("thread for recording"))
}

fn join<T>(thread: &'static str, handle: ScopedJoinHandle<'_, T>) -> Result<T> {
    handle.join().map_err(|_| Error::Panicked { thread })
}
