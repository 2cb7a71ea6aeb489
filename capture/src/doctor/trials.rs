//! What is tried for real.

use super::{
    Check, Status, settings,
    trial::{self, Counter, Kind, Scope},
};
use crate::mappings::ModuleStream;
use libbpf_rs::libbpf_sys as sys;
use memtrack_artifact::Pid;
use perf_event_open_sys::bindings::perf_event_attr;
use std::{ffi::CStr, io, os::fd::OwnedFd};

const MAPS: &str = "BPF maps";
const PROGRAMS: &str = "BPF programs";
const PROBES: &str = "Probes";
const MODULES: &str = "Module stream";

/// How a trial went.
enum Outcome {
    /// It did what it should.
    Works(String),
    /// It was permitted, and then nothing happened.
    Dead(String),
    /// A step failed.
    Failed(&'static str, io::Error),
    /// The machine lacks what the trial needs.
    Absent(String),
}

/// What recording cannot do without.
pub(super) fn required() -> Vec<Check> {
    let mut checks = vec![ring_buffer(), helpers(), uprobe(false), uprobe(true)];
    checks.extend(typed_tracepoints());
    checks.push(module_stream());
    checks
}

/// Everything.
pub(super) fn all() -> Vec<Check> {
    let mut checks = vec![ring_buffer(), stack_map(), helpers()];
    checks.extend([uprobe(false), uprobe(true), uprobe_multi()]);
    checks.extend(typed_tracepoints());
    checks.extend([raw_tracepoint(), tracepoint(), kprobe(), fentry(), lsm()]);
    checks.push(module_stream());
    checks
}

/// Makes a check of an outcome.
fn check(
    (topic, name): (&'static str, &'static str),
    required: bool,
    instead: Option<&'static str>,
    outcome: Outcome,
) -> Check {
    let (status, found) = match outcome {
        Outcome::Works(found) => (Status::Ok, found),
        Outcome::Dead(found) => (Status::Refused, found),
        Outcome::Absent(found) => (Status::Missing, found),
        Outcome::Failed(step, error) => {
            let status = match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => Status::Refused,
                Some(libc::EINVAL | libc::ENOENT | libc::ESRCH | libc::ENOSYS | libc::ENOTSUP) => {
                    Status::Missing
                }
                _ => Status::Refused,
            };
            (status, format!("{step}: {error}"))
        }
    };
    Check {
        topic,
        name,
        status,
        found,
        required,
        instead,
        fix: match status {
            Status::Refused => settings::run_as_root(),
            Status::Missing if required => Some("boot a newer kernel (6.6 or later)".into()),
            _ => None,
        },
    }
}

/// Loads a counting program, attaches it, sets it off, and looks whether it
/// counted.
fn count_hits(
    kind: Kind,
    attach: impl FnOnce(&OwnedFd) -> io::Result<OwnedFd>,
    set_off: impl Fn(),
) -> Outcome {
    let counter = match Counter::new() {
        Ok(counter) => counter,
        Err(error) => return Outcome::Failed("the counter's map", error),
    };
    let program = match trial::load(kind, &counter) {
        Ok(program) => program,
        Err(error) => return Outcome::Failed("loading", error),
    };
    let attached = match attach(&program) {
        Ok(attached) => attached,
        Err(error) => return Outcome::Failed("attaching", error),
    };
    set_off();
    drop(attached);
    match counter.value() {
        0 => Outcome::Dead("loaded and attached, but it did not run".into()),
        _ => Outcome::Works("loaded, attached and run".into()),
    }
}

fn ring_buffer() -> Check {
    let outcome = match trial::map(sys::BPF_MAP_TYPE_RINGBUF, 0, 0, 64 << 10) {
        Ok(_) => Outcome::Works("created".into()),
        Err(error) => Outcome::Failed("creating", error),
    };
    check((MAPS, "ring buffer"), true, None, outcome)
}

fn stack_map() -> Check {
    let outcome = match trial::map(sys::BPF_MAP_TYPE_STACK_TRACE, 4, 127 * 8, 16) {
        Ok(_) => Outcome::Works("created".into()),
        Err(error) => Outcome::Failed("creating", error),
    };
    let instead = "nothing is lost: stacks go through a ring";
    check((MAPS, "stack map"), false, Some(instead), outcome)
}

/// Helper functions by the kernel that brought them.
fn helpers() -> Check {
    const NEEDED: [(&str, sys::bpf_func_id); 7] = [
        ("bpf_send_signal_thread", sys::BPF_FUNC_send_signal_thread),
        ("bpf_ringbuf_query", sys::BPF_FUNC_ringbuf_query),
        (
            "bpf_get_current_task_btf",
            sys::BPF_FUNC_get_current_task_btf,
        ),
        ("bpf_get_attach_cookie", sys::BPF_FUNC_get_attach_cookie),
        ("bpf_task_pt_regs", sys::BPF_FUNC_task_pt_regs),
        ("bpf_find_vma", sys::BPF_FUNC_find_vma),
        ("bpf_loop", sys::BPF_FUNC_loop),
    ];
    let mut absent = Vec::new();
    let mut failed = None;
    for (name, helper) in NEEDED {
        match trial::has_helper(helper) {
            Ok(true) => {}
            Ok(false) => absent.push(name),
            Err(error) => failed = Some(error),
        }
    }
    // Without the right to load programs every helper seems to be absent.
    let can_load = Counter::new().and_then(|counter| trial::load(uprobe_kind(), &counter));
    let outcome = match (failed, can_load) {
        (_, Err(error)) | (Some(error), _) => Outcome::Failed("loading", error),
        _ if absent.is_empty() => Outcome::Works(format!("all {} are there", NEEDED.len())),
        _ => Outcome::Absent(format!("{} (Linux 5.17 has them all)", absent.join(", "))),
    };
    check((PROGRAMS, "helper functions"), true, None, outcome)
}

fn uprobe_kind() -> Kind {
    Kind {
        program: sys::BPF_PROG_TYPE_KPROBE,
        ..Kind::default()
    }
}

/// Where the probed function of this program lies in its file.
fn probed_offset() -> io::Result<u64> {
    let address = trial::probed as *const () as usize as u64;
    let maps = std::fs::read("/proc/self/maps")?;
    String::from_utf8_lossy(&maps)
        .lines()
        .find_map(|line| {
            let mut fields = line.split_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let hex = |text| u64::from_str_radix(text, 16).ok();
            let (start, end) = (hex(start)?, hex(end)?);
            let offset = hex(fields.nth(1)?)?;
            (start..end)
                .contains(&address)
                .then(|| address - start + offset)
        })
        .ok_or_else(|| io::Error::other("memtrack does not find itself in /proc/self/maps"))
}

const OWN_FILE: &CStr = c"/proc/self/exe";

fn call_probed() {
    std::hint::black_box(trial::probed(1));
}

fn uprobe(at_return: bool) -> Check {
    let name = if at_return {
        "return probe on a user function"
    } else {
        "probe on a user function"
    };
    let outcome = match (perf_kind("uprobe"), probed_offset()) {
        (Ok(kind), Ok(offset)) => count_hits(
            uprobe_kind(),
            |program| {
                let mut attr = perf_event_attr {
                    type_: kind,
                    config: u64::from(at_return),
                    ..perf_event_attr::default()
                };
                attr.uprobe_path = OWN_FILE.as_ptr() as u64;
                attr.probe_offset = offset;
                attach_to_event(attr, program)
            },
            call_probed,
        ),
        (Err(error), _) => Outcome::Absent(format!("built without CONFIG_UPROBE_EVENTS ({error})")),
        (_, Err(error)) => Outcome::Failed("preparing", error),
    };
    check((PROBES, name), true, None, outcome)
}

/// The link keeps the event alive, so only the link is given back.
fn attach_to_event(attr: perf_event_attr, program: &OwnedFd) -> io::Result<OwnedFd> {
    let event = trial::perf_event(attr, Scope::System)?;
    trial::attach_perf(program, &event)
}

/// The number of a dynamic perf event type.
pub(crate) fn perf_kind(name: &str) -> io::Result<u32> {
    let path = format!("/sys/bus/event_source/devices/{name}/type");
    std::fs::read_to_string(path)?
        .trim()
        .parse()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

fn uprobe_multi() -> Check {
    let kind = Kind {
        attach: sys::BPF_TRACE_UPROBE_MULTI,
        ..uprobe_kind()
    };
    let outcome = match probed_offset() {
        Ok(offset) => count_hits(
            kind,
            |program| trial::attach_multi(program, OWN_FILE, offset),
            call_probed,
        ),
        Err(error) => Outcome::Failed("preparing", error),
    };
    let instead = "probes are attached one by one, and detaching takes longer";
    check(
        (PROBES, "many at once (uprobe_multi)"),
        false,
        Some(instead),
        outcome,
    )
}

fn typed(target: &'static CStr, program: sys::bpf_prog_type, attach: sys::bpf_attach_type) -> Kind {
    Kind {
        program,
        attach,
        target: Some(target),
    }
}

/// The tracepoints that follow processes and mappings, each set off.
fn typed_tracepoints() -> Vec<Check> {
    fn system_call() {
        // Any call will do; this one has no effect.
        std::thread::yield_now();
    }
    fn thread() {
        // A thread is a fork and an exit. Only a joined one is surely gone.
        drop(std::thread::spawn(|| ()).join());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    fn process() {
        drop(std::process::Command::new("true").status());
    }
    type Trial = (&'static str, &'static CStr, fn());
    const TRACEPOINTS: [Trial; 4] = [
        ("typed tracepoint sys_exit", c"sys_exit", system_call),
        ("typed tracepoint of fork", c"sched_process_fork", thread),
        ("typed tracepoint of exec", c"sched_process_exec", process),
        ("typed tracepoint of exit", c"sched_process_exit", thread),
    ];
    TRACEPOINTS
        .iter()
        .map(|&(name, target, set_off)| {
            let kind = typed(target, sys::BPF_PROG_TYPE_TRACING, sys::BPF_TRACE_RAW_TP);
            let outcome = count_hits(kind, trial::attach_typed, set_off);
            check((PROBES, name), true, None, outcome)
        })
        .collect()
}

fn raw_tracepoint() -> Check {
    let kind = Kind {
        program: sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
        ..Kind::default()
    };
    let outcome = count_hits(
        kind,
        |program| trial::attach_raw(program, c"sys_exit"),
        std::thread::yield_now,
    );
    let instead = "nothing is lost: typed tracepoints do the same";
    check((PROBES, "raw tracepoint"), false, Some(instead), outcome)
}

fn tracepoint() -> Check {
    /// Where tracefs is, or was before it had a place of its own.
    const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let id = PLACES.iter().find_map(|place| {
        let path = format!("{place}/events/sched/sched_process_fork/id");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    });
    let outcome = match id {
        None => Outcome::Absent("tracefs is not mounted at /sys/kernel/tracing".into()),
        Some(id) => count_hits(
            Kind {
                program: sys::BPF_PROG_TYPE_TRACEPOINT,
                ..Kind::default()
            },
            |program| {
                attach_to_event(
                    perf_event_attr {
                        type_: perf_event_open_sys::bindings::PERF_TYPE_TRACEPOINT,
                        config: id,
                        ..perf_event_attr::default()
                    },
                    program,
                )
            },
            || drop(std::thread::spawn(|| ()).join()),
        ),
    };
    let instead = "nothing is lost: typed tracepoints do the same";
    let mut check = check((PROBES, "tracepoint"), false, Some(instead), outcome);
    if id.is_none() {
        check.fix = Some("mount -t tracefs tracefs /sys/kernel/tracing".into());
    }
    check
}

fn kprobe() -> Check {
    let outcome = match perf_kind("kprobe") {
        Err(error) => Outcome::Absent(format!("built without CONFIG_KPROBES ({error})")),
        Ok(kind) => count_hits(
            uprobe_kind(),
            |program| {
                let mut attr = perf_event_attr {
                    type_: kind,
                    ..perf_event_attr::default()
                };
                let function = c"security_mmap_file";
                attr.kprobe_func = function.as_ptr() as u64;
                attach_to_event(attr, program)
            },
            map_something,
        ),
    };
    let instead = "nothing is lost: typed tracepoints do the same";
    check(
        (PROBES, "probe on a kernel function"),
        false,
        Some(instead),
        outcome,
    )
}

/// Makes a mapping of a file, and drops it.
fn map_something() {
    let file = std::fs::File::open("/proc/self/exe");
    drop(file.and_then(|file| crate::file::FileBytes::map(&file)));
}

fn fentry() -> Check {
    let kind = typed(
        c"security_mmap_file",
        sys::BPF_PROG_TYPE_TRACING,
        sys::BPF_TRACE_FENTRY,
    );
    let outcome = count_hits(kind, trial::attach_typed, map_something);
    let instead = "mappings are seen at the exit of mmap, by the tracepoint sys_exit";
    check(
        (PROBES, "fentry on a kernel function"),
        false,
        Some(instead),
        outcome,
    )
}

fn lsm() -> Check {
    let kind = typed(c"mmap_file", sys::BPF_PROG_TYPE_LSM, sys::BPF_LSM_MAC);
    let outcome = count_hits(kind, trial::attach_typed, map_something);
    let instead = "mappings are seen at the exit of mmap, by the tracepoint sys_exit";
    check(
        (PROBES, "security hook (LSM)"),
        false,
        Some(instead),
        outcome,
    )
}

fn module_stream() -> Check {
    let (status, found) = match ModuleStream::open(Pid(std::process::id())) {
        Ok(stream) if stream.has_build_ids() => (Status::Ok, "opened, with build ids".to_owned()),
        Ok(_) => (
            Status::Ok,
            "opened; build ids are read from the files".to_owned(),
        ),
        Err(error) => (Status::Refused, error.to_string()),
    };
    Check {
        topic: MODULES,
        name: "mappings, forks and names (perf)",
        status,
        found,
        required: false,
        instead: Some("allocations are counted without stacks"),
        fix: (status == Status::Refused)
            .then(settings::run_as_root)
            .flatten(),
    }
}
