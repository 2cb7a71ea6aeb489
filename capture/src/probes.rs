//! Probes on files: each place once, whoever maps the file.

use crate::{
    elf::{AllocatorFunction, DefinedFunction, ElfError, ElfFile},
    file::FileBytes,
    libbpf_log,
    programs::Programs,
    site::{Placement, Site, place},
};
use libbpf_rs::{Link, ProgramMut, UprobeMultiOpts, UprobeOpts};
use memtrack_bpf::Cookie;
use std::{
    fs::File,
    io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

/// Processes of any number: the programs filter.
const EVERY_PROCESS: i32 = -1;

/// Why a file could not be probed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// Its bytes could not be had.
    #[error("{name}: {source}")]
    Read {
        /// Its name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It is an allocator, and its symbols cannot be read.
    #[error("{name}: {source}")]
    Elf {
        /// Its name.
        name: String,
        /// What is wrong.
        source: ElfError,
    },
    /// The kernel refused a probe.
    #[error("{name}: {functions} could not be probed: {source}{log}")]
    Attach {
        /// Its name.
        name: String,
        /// Which functions.
        functions: String,
        /// What the kernel said.
        source: libbpf_rs::Error,
        /// libbpf's messages.
        log: String,
    },
}

/// One place and what its programs are told.
struct Probe {
    name: String,
    offset: u64,
    cookie: u64,
    returns: bool,
}

/// All probes so far.
pub(crate) struct Probes<'a> {
    programs: &'a Programs<'a>,
    links: Vec<Link>,
    /// Places so far, for the numbers of the next.
    places: u16,
    /// Remarks for people.
    notes: Vec<String>,
}

impl<'a> Probes<'a> {
    /// None yet.
    pub(crate) fn new(programs: &'a Programs<'a>) -> Self {
        Self {
            programs,
            links: Vec::new(),
            places: 0,
            notes: Vec::new(),
        }
    }

    /// Probes the allocator functions of a file, if it has any; returns their
    /// number. `name` is for people.
    pub(crate) fn add(&mut self, file: &File, name: &str) -> Result<usize, ProbeError> {
        let bytes = FileBytes::map(file).map_err(|source| ProbeError::Read {
            name: name.into(),
            source,
        })?;
        let elf = match ElfFile::parse(&bytes) {
            Ok(elf) => elf,
            // JIT buffers and the like.
            Err(ElfError::NotElf { .. }) => return Ok(0),
            Err(source) => {
                return Err(ProbeError::Elf {
                    name: name.into(),
                    source,
                });
            }
        };
        let functions = elf
            .allocator_functions()
            .map_err(|source| ProbeError::Elf {
                name: name.into(),
                source,
            })?;
        let probes: Vec<Probe> = functions
            .iter()
            .filter_map(|function| self.plan(&elf, function, &functions, name))
            .collect();
        let (frees, allocations): (Vec<_>, Vec<_>) =
            probes.into_iter().partition(|probe| !probe.returns);
        let count = frees.len() + allocations.len();
        let progs = self.programs.progs();
        // Returns first: a call that slips in between is then seen to end
        // without a beginning, which counts as a loss; the other way round it
        // would be lost unseen.
        for (program, probes, is_return) in [
            (&progs.allocation_return, &allocations, true),
            (&progs.allocation_entry, &allocations, false),
            (&progs.free_entry, &frees, false),
        ] {
            self.attach(program, file, probes, is_return)
                .map_err(|source| ProbeError::Attach {
                    name: name.into(),
                    functions: names(probes),
                    source,
                    log: libbpf_log::take(),
                })?;
        }
        Ok(count)
    }

    fn plan(
        &mut self,
        elf: &ElfFile<'_>,
        function: &DefinedFunction,
        all: &[DefinedFunction],
        name: &str,
    ) -> Option<Probe> {
        let Placement::Probe(site) = place(elf, function, all) else {
            return None;
        };
        let function_name = function.names.join("/");
        if !site.emulated {
            self.notes.push(format!(
                "{name}: every call of {function_name} costs a single step (the probed \
                 instruction is `{}`)",
                site.instruction
            ));
        }
        self.places = self.places.wrapping_add(1);
        Some(Probe {
            cookie: cookie(function.function, &site, self.places).encode(),
            name: function_name,
            offset: site.entry.0,
            returns: site.ret.is_some(),
        })
    }

    fn attach(
        &mut self,
        program: &ProgramMut<'_>,
        file: &File,
        probes: &[Probe],
        retprobe: bool,
    ) -> Result<(), libbpf_rs::Error> {
        if probes.is_empty() {
            return Ok(());
        }
        // The very file, whatever its path leads to by now.
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if self.programs.multi {
            let link = attach_many(program, &path, probes, retprobe)?;
            self.links.push(link);
            return Ok(());
        }
        for probe in probes {
            let link = attach_one(program, &path, probe, retprobe)?;
            self.links.push(link);
        }
        Ok(())
    }

    /// What holds the probes in place.
    pub(crate) fn into_links(self) -> Vec<Link> {
        self.links
    }

    /// Takes the remarks.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

fn attach_many(
    program: &ProgramMut<'_>,
    path: &Path,
    probes: &[Probe],
    retprobe: bool,
) -> Result<Link, libbpf_rs::Error> {
    let offsets = probes
        .iter()
        .map(|probe| usize::try_from(probe.offset).unwrap_or(usize::MAX));
    program.attach_uprobe_multi_with_opts(
        EVERY_PROCESS,
        path,
        "",
        UprobeMultiOpts {
            offsets: offsets.collect(),
            cookies: probes.iter().map(|probe| probe.cookie).collect(),
            retprobe,
            ..UprobeMultiOpts::default()
        },
    )
}

fn attach_one(
    program: &ProgramMut<'_>,
    path: &Path,
    probe: &Probe,
    retprobe: bool,
) -> Result<Link, libbpf_rs::Error> {
    program.attach_uprobe_with_opts(
        EVERY_PROCESS,
        path,
        usize::try_from(probe.offset).unwrap_or(usize::MAX),
        UprobeOpts {
            cookie: probe.cookie,
            retprobe,
            ..UprobeOpts::default()
        },
    )
}

fn cookie(function: AllocatorFunction, site: &Site, place: u16) -> Cookie {
    Cookie {
        kind: function.event_kind() as u8,
        argument_registers: site.argument_registers.map(|register| register.0),
        pushed_words: u8::try_from(site.stack_pushed_bytes / 8).unwrap_or(u8::MAX),
        product: site.product,
        array: function == AllocatorFunction::Reallocarray,
        place,
    }
}

fn names(probes: &[Probe]) -> String {
    let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
    names.join(", ")
}
