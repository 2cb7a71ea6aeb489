//! What can only be read: kernel, capabilities, limits and switches.

use super::{Check, Status};
use std::{fs, path::Path};

/// Bit numbers of include/uapi/linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;

/// Whether this process has a capability in force.
fn has_capability(bit: u32) -> Option<bool> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let mask = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(mask >> bit & 1 == 1)
}

/// Whether everything that root may do is permitted, as far as BPF goes.
pub(super) fn is_privileged() -> bool {
    has_capability(CAP_SYS_ADMIN) == Some(true)
}

/// The remedy for a lack of privilege.
pub(super) fn run_as_root() -> Option<String> {
    (!is_privileged()).then(|| "sudo memtrack ...".into())
}

fn read_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

pub(super) fn kernel() -> Vec<Check> {
    const TOPIC: &str = "Kernel";
    let release = read_line("/proc/sys/kernel/osrelease");
    let architecture = std::env::consts::ARCH;
    let known = matches!(architecture, "x86_64" | "aarch64");
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    let readable = fs::File::open(btf);
    vec![
        Check {
            topic: TOPIC,
            name: "release and machine",
            status: if known { Status::Ok } else { Status::Missing },
            found: format!(
                "Linux {} on {architecture}",
                release.as_deref().unwrap_or("(unknown)")
            ),
            required: true,
            instead: None,
            fix: None,
        },
        Check {
            topic: TOPIC,
            name: "type information (BTF)",
            status: match &readable {
                Ok(_) => Status::Ok,
                Err(_) if btf.exists() => Status::Refused,
                Err(_) => Status::Missing,
            },
            found: match &readable {
                Ok(_) => btf.display().to_string(),
                Err(error) => format!("{}: {error}", btf.display()),
            },
            required: true,
            instead: None,
            fix: readable
                .is_err()
                .then(|| "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y".into()),
        },
        process_numbers(TOPIC),
    ]
}

/// Process numbers are compared with those that BPF programs see.
fn process_numbers(topic: &'static str) -> Check {
    // `PROC_PID_INIT_INO` of include/linux/proc_ns.h.
    const INITIAL: &str = "pid:[4026531836]";
    let (status, found) = match fs::read_link("/proc/self/ns/pid") {
        Ok(link) if link == Path::new(INITIAL) => {
            (Status::Ok, "those of the initial pid namespace".to_owned())
        }
        Ok(_) => (Status::Refused, "of a pid namespace of its own".to_owned()),
        Err(error) => (Status::Unknown, format!("/proc/self/ns/pid: {error}")),
    };
    Check {
        topic,
        name: "process numbers",
        status,
        found,
        required: true,
        instead: None,
        fix: (status == Status::Refused)
            .then(|| "run memtrack on the host (docker: --pid=host)".into()),
    }
}

/// A capability: bit, name, what it is for, what is done without it, and
/// whether CAP_SYS_ADMIN includes it.
type Capability = (u32, &'static str, &'static str, &'static str, bool);

const CAPABILITIES: [Capability; 8] = [
    (
        39,
        "CAP_BPF",
        "loads BPF programs",
        "nothing: BPF programs cannot be loaded",
        true,
    ),
    (
        38,
        "CAP_PERFMON",
        "attaches probes, opens the module stream",
        "nothing: probes cannot be attached",
        true,
    ),
    (
        19,
        "CAP_SYS_PTRACE",
        "looks into processes of other users",
        "only processes of the same user are recorded",
        false,
    ),
    (
        2,
        "CAP_DAC_READ_SEARCH",
        "reads programs that only others may read",
        "such files are refused, and their functions have no names",
        false,
    ),
    (
        5,
        "CAP_KILL",
        "resumes processes of other users after a pause",
        "only processes of the same user are recorded",
        false,
    ),
    (
        40,
        "CAP_CHECKPOINT_RESTORE",
        "opens mapped files through the mapping",
        "mapped files are opened by their path, and checked",
        true,
    ),
    (
        CAP_SYS_ADMIN,
        "CAP_SYS_ADMIN",
        "stands in for the newer ones above",
        "CAP_BPF and CAP_PERFMON do, where they are there",
        false,
    ),
    (
        24,
        "CAP_SYS_RESOURCE",
        "raises the limit of locked memory",
        "nothing is lost: kernels since 5.11 charge BPF memory to the control group",
        false,
    ),
];

pub(super) fn privileges() -> Vec<Check> {
    CAPABILITIES
        .iter()
        .map(|&(bit, name, purpose, instead, in_sys_admin)| {
            let own = has_capability(bit);
            let (status, how) = match own {
                Some(true) => (Status::Ok, ""),
                Some(false) if in_sys_admin && is_privileged() => {
                    (Status::Ok, " (by CAP_SYS_ADMIN)")
                }
                Some(false) => (Status::Missing, ""),
                None => (Status::Unknown, ""),
            };
            Check {
                topic: "Capabilities",
                name,
                status,
                found: format!("{purpose}{how}"),
                required: false,
                instead: Some(instead),
                fix: (status == Status::Missing).then(run_as_root).flatten(),
            }
        })
        .collect()
}

pub(super) fn limits() -> Vec<Check> {
    vec![
        locked_memory(),
        switch(
            "/proc/sys/kernel/perf_event_paranoid",
            "perf_event_paranoid",
            // 2 still permits what the module stream asks for.
            |value| value > 2 && has_capability(38) != Some(true) && !is_privileged(),
            "allocations are counted without stacks",
            "sysctl kernel.perf_event_paranoid=2",
        ),
        switch(
            "/proc/sys/kernel/unprivileged_bpf_disabled",
            "unprivileged_bpf_disabled",
            // Whatever it says, probe programs need CAP_BPF.
            |_| false,
            "nothing is lost: probe programs need CAP_BPF in any case",
            "sysctl kernel.unprivileged_bpf_disabled=0",
        ),
        switch(
            "/proc/sys/kernel/kptr_restrict",
            "kptr_restrict",
            |_| false,
            "kernel addresses are not named",
            "sysctl kernel.kptr_restrict=0",
        ),
        lockdown(),
    ]
}

/// A kernel switch: `refuses` tells of its value whether this process is kept
/// from something by it.
fn switch(
    path: &'static str,
    name: &'static str,
    refuses: impl Fn(i64) -> bool,
    instead: &'static str,
    fix: &str,
) -> Check {
    let value = read_line(path);
    let number = value.as_deref().and_then(|text| text.parse::<i64>().ok());
    let status = match number {
        Some(number) if refuses(number) => Status::Refused,
        Some(_) => Status::Ok,
        None => Status::Unknown,
    };
    Check {
        topic: "Limits",
        name,
        status,
        found: match (value, status) {
            (Some(value), Status::Ok) => format!("{value}, which does not stand in the way"),
            (Some(value), _) => value,
            (None, _) => format!("{path} cannot be read"),
        },
        required: false,
        instead: Some(instead),
        fix: (status == Status::Refused).then(|| fix.into()),
    }
}

fn locked_memory() -> Check {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_whitespace().next());
    let bytes = soft.and_then(|text| text.parse::<u64>().ok());
    // What one ring of the module stream takes beyond the kernel's own
    // allowance (`perf_event_mlock_kb`), generously.
    const ENOUGH: u64 = 1 << 20;
    let privileged = has_capability(14) == Some(true);
    let status = match (soft, bytes) {
        (Some("unlimited"), _) => Status::Ok,
        (_, Some(bytes)) if bytes >= ENOUGH || privileged => Status::Ok,
        (_, Some(_)) => Status::Refused,
        _ => Status::Unknown,
    };
    Check {
        topic: "Limits",
        name: "locked memory",
        status,
        found: match (soft, bytes) {
            (_, Some(bytes)) => format!("{} KiB", bytes >> 10),
            (Some(text), None) => text.to_owned(),
            (None, None) => "/proc/self/limits does not tell".into(),
        },
        required: false,
        instead: Some("the rings of the module stream are made smaller"),
        fix: (status == Status::Refused).then(|| "ulimit -l unlimited".into()),
    }
}

fn lockdown() -> Check {
    const PATH: &str = "/sys/kernel/security/lockdown";
    let mode = read_line(PATH).and_then(|line| {
        let (_, rest) = line.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    });
    let status = match mode.as_deref() {
        Some("confidentiality") => Status::Refused,
        Some(_) => Status::Ok,
        None => Status::Unknown,
    };
    Check {
        topic: "Limits",
        name: "lockdown",
        status,
        found: mode.unwrap_or_else(|| {
            format!("{PATH} is not there; what the kernel permits was tried above")
        }),
        required: false,
        instead: (status == Status::Refused)
            .then_some("nothing: BPF programs may not read kernel memory"),
        fix: (status == Status::Refused).then(|| "boot without lockdown=confidentiality".into()),
    }
}
