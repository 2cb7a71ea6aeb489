//! The BPF programs, from opening to being loaded.

use crate::{
    error::{Error, Result},
    libbpf_log,
    mappings::online_cpus,
    options::{MAX_STACK_BYTES, Options, StackMode},
    switches::Switches,
};
use libbpf_rs::{
    ErrorKind, Link, MapCore as _, MapFlags, OpenObject, ProgramAttachType,
    btf::{Btf, types::Struct},
    skel::{OpenSkel as _, SkelBuilder as _},
};
use memtrack_bpf::{
    MemtrackMaps, MemtrackProgs, MemtrackSkel, MemtrackSkelBuilder, OpenMemtrackSkel, types,
};
use std::{mem::MaybeUninit, path::Path};

/// `SCRATCH_SLOTS` of `bpf/config.h`.
const SCRATCH_SLOTS: u32 = 4;
/// Parts of a ring, in percent: above the first the writer is stopped.
const HIGH_PERCENT: u64 = 75;
/// Below this fill everybody goes on.
pub(crate) const LOW_PERCENT: u64 = 25;
/// `image_templates`: the entry that says "code everywhere".
const EVERYWHERE: u32 = 1;

/// The loaded programs and maps.
pub(crate) struct Programs<'obj> {
    skeleton: MemtrackSkel<'obj>,
    /// The shared words.
    pub(crate) switches: Switches<'obj>,
    /// Whether uprobes are attached many at once.
    pub(crate) multi: bool,
}

impl<'obj> Programs<'obj> {
    /// Loads everything. Nothing is attached yet, nobody is tracked.
    pub(crate) fn load(
        object: &'obj mut MaybeUninit<OpenObject>,
        options: &Options,
        stacks: StackMode,
    ) -> Result<Self> {
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(Error::NoBtf);
        }
        libbpf_log::install();
        let mut open = MemtrackSkelBuilder::default()
            .open(object)
            .map_err(explain)?;
        let multi = !options.single_probes && has_uprobe_multi();
        configure(&mut open, options, stacks, multi)?;
        let mut skeleton = open.load().map_err(explain)?;

        let memory = skeleton.maps.bss_data.take().ok_or(Error::NoBtf)?;
        let switches = Switches::new(memory);
        // All ones: also the reference count, which nobody reads here.
        skeleton
            .maps
            .image_templates
            .update(
                &EVERYWHERE.to_ne_bytes(),
                &[0xff; size_of::<types::image>()],
                MapFlags::ANY,
            )
            .map_err(|source| Error::Map {
                map: "image_templates",
                source,
            })?;
        Ok(Self {
            skeleton,
            switches,
            multi,
        })
    }

    /// The programs.
    pub(crate) fn progs(&self) -> &MemtrackProgs<'obj> {
        &self.skeleton.progs
    }

    /// The maps.
    pub(crate) fn maps(&self) -> &MemtrackMaps<'obj> {
        &self.skeleton.maps
    }

    /// Attaches the tracepoints that follow processes and mappings.
    pub(crate) fn follow_processes(&self) -> Result<Vec<Link>> {
        [
            ("on_fork", &self.progs().on_fork),
            ("on_exec", &self.progs().on_exec),
            ("on_exit", &self.progs().on_exit),
            ("on_syscall_exit", &self.progs().on_syscall_exit),
        ]
        .into_iter()
        .map(|(program, prog)| {
            prog.attach().map_err(|source| Error::Attach {
                program,
                source,
                log: libbpf_log::take(),
            })
        })
        .collect()
    }
}

fn configure(
    open: &mut OpenMemtrackSkel<'_>,
    options: &Options,
    stacks: StackMode,
    multi: bool,
) -> Result<()> {
    // A CPU that comes later has no slots: its stacks are lost, and counted.
    // Room for every possible CPU would be gigabytes on some machines.
    let cpus = online_cpus()?.last().map_or(1, |last| last + 1);
    let settings = open.maps.rodata_data.as_deref_mut().ok_or(Error::NoBtf)?;
    settings.stack_mode = match stacks {
        StackMode::Off => 0,
        StackMode::FramePointer => 1,
        StackMode::Raw => 2,
    };
    settings.stack_bytes = options.stack_bytes & !7;
    settings.event_high_bytes = u64::from(options.event_ring_bytes) * HIGH_PERCENT / 100;
    settings.stack_high_bytes = u64::from(options.stack_ring_bytes) * HIGH_PERCENT / 100;
    let slots = cpus.saturating_mul(SCRATCH_SLOTS);
    // Without stacks nothing is copied, and nothing remembered.
    let (slots, stack_ring_bytes, stack_keys) = match stacks {
        StackMode::Off => (1, 1 << 16, 1),
        _ => (slots, options.stack_ring_bytes, options.stack_keys),
    };
    let sizes = [
        (&mut open.maps.scratches, "scratches", slots),
        (&mut open.maps.scratch_use, "scratch_use", cpus),
        (
            &mut open.maps.event_ring,
            "event_ring",
            options.event_ring_bytes,
        ),
        (&mut open.maps.stack_ring, "stack_ring", stack_ring_bytes),
        (&mut open.maps.stacks_seen, "stacks_seen", stack_keys),
    ];
    for (map, name, entries) in sizes {
        map.set_max_entries(entries)
            .map_err(|source| Error::Map { map: name, source })?;
    }
    if multi {
        for program in [
            &mut open.progs.allocation_entry,
            &mut open.progs.allocation_return,
            &mut open.progs.free_entry,
        ] {
            program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
        }
    }
    Ok(())
}

/// Whether the kernel can attach many uprobes by one link (Linux 6.6; some
/// vendors' kernels have it earlier): then it has the type of such a link.
fn has_uprobe_multi() -> bool {
    Btf::from_vmlinux().is_ok_and(|btf| {
        btf.type_by_name::<Struct<'_>>("bpf_uprobe_multi_link")
            .is_some()
    })
}

fn explain(source: libbpf_rs::Error) -> Error {
    let log = libbpf_log::take();
    match source.kind() {
        ErrorKind::OutOfMemory => Error::NoMemory { source },
        // The verifier refuses with EACCES and a log.
        ErrorKind::PermissionDenied if !log.contains("BEGIN PROG LOAD LOG") => {
            Error::NotPermitted { source }
        }
        _ => Error::Load { source, log },
    }
}

/// Checks the options that the kernel would refuse with a bare "invalid".
pub(crate) fn check(options: &Options) -> Result<()> {
    if options.command.is_empty() {
        return Err(Error::NoCommand);
    }
    if !(64..=MAX_STACK_BYTES).contains(&options.stack_bytes) {
        return Err(Error::Option {
            option: "stack-bytes",
            value: options.stack_bytes.into(),
            reason: "it must lie between 64 and 65536",
        });
    }
    for (option, value) in [
        ("event-ring", options.event_ring_bytes),
        ("stack-ring", options.stack_ring_bytes),
    ] {
        // The largest record must fit several times.
        if !value.is_power_of_two() || !(1 << 18..=1 << 30).contains(&value) {
            return Err(Error::Option {
                option,
                value: value.into(),
                reason: "it must be a power of two between 262144 (256 KiB) and 1073741824 (1 GiB)",
            });
        }
    }
    if options.stack_keys == 0 {
        return Err(Error::Option {
            option: "stack-keys",
            value: 0,
            reason: "it must be at least 1",
        });
    }
    Ok(())
}
