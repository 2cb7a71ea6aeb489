//! `memtrack inspect`: what an artifact holds, without unwinding or naming.

use crate::{args, exit::Exit, output::Output};
use anyhow::Result;
use memtrack_artifact::{
    Artifact, ByteString, EventKind, FileIdentity, MappedFile, ModuleEvent, Pid,
};
use memtrack_report::{escape::printable, units};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Everything `inspect` tells, as its JSON has it.
#[derive(Serialize)]
struct Inspection {
    file: String,
    fingerprint: String,
    complete: bool,
    headline: String,
    problems: Vec<String>,
    notes: Vec<String>,
    command: Vec<Bytes>,
    working_directory: Bytes,
    environment_names: Vec<Bytes>,
    options: Vec<String>,
    kernel: String,
    architecture: memtrack_artifact::Architecture,
    page_bytes: u64,
    backend: String,
    memtrack_version: String,
    start_wall_ns: u64,
    duration_ns: Option<u64>,
    status: Option<memtrack_artifact::ExitStatus>,
    losses: memtrack_artifact::Losses,
    events: u64,
    events_by_kind: BTreeMap<&'static str, u64>,
    failed_calls: u64,
    null_frees: Option<u64>,
    stacks: u64,
    stacks_cut: u64,
    window_bytes: u64,
    processes: Vec<Process>,
    modules: Vec<Module>,
    refused_modules: Vec<Refused>,
    parts: Vec<Part>,
    file_bytes: u64,
    bytes_per_event: Option<f64>,
}

/// Bytes that are usually text: `hex` is there when `text` had to replace
/// some.
#[derive(Serialize)]
struct Bytes {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self {
                text: text.to_owned(),
                hex: None,
            },
            Err(_) => Self {
                text: String::from_utf8_lossy(bytes).into_owned(),
                hex: Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            },
        }
    }
}

impl From<&ByteString> for Bytes {
    fn from(string: &ByteString) -> Self {
        Self::from(string.0.as_slice())
    }
}

#[derive(Default, Serialize)]
struct Process {
    pid: u32,
    parent: Option<u32>,
    names: Vec<String>,
    mappings: u64,
    events: u64,
}

#[derive(Serialize)]
struct Module {
    id: u32,
    key: String,
    paths: Vec<Bytes>,
    identities: Vec<Identity>,
    machine: u16,
    file_bytes: u64,
    kept_bytes: u64,
    sections: Vec<String>,
    debug_files: Vec<Bytes>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Identity {
    device: String,
    inode: u64,
    generation: u64,
    build_id: Option<String>,
}

impl From<&FileIdentity> for Identity {
    fn from(file: &FileIdentity) -> Self {
        Self {
            device: format!("{}:{}", file.device.0, file.device.1),
            inode: file.inode,
            generation: file.generation,
            build_id: file.build_id.as_ref().map(ToString::to_string),
        }
    }
}

#[derive(Serialize)]
struct Refused {
    path: Bytes,
    identity: Identity,
    reason: String,
}

#[derive(Serialize)]
struct Part {
    name: &'static str,
    chunks: u64,
    stored_bytes: u64,
    raw_bytes: u64,
}

pub(crate) fn run(args: &args::Inspect) -> Result<Exit> {
    let artifact = Artifact::open(&args.artifact)?;
    let inspection = inspect(&args.artifact.display().to_string(), &artifact)?;
    let mut out = Output::stdout();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &inspection).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        print(&inspection, &mut out)?;
    }
    out.finish()?;
    Ok(if args.require_complete && !inspection.complete {
        Exit::Incomplete
    } else {
        Exit::Success
    })
}

fn inspect(name: &str, artifact: &Artifact) -> Result<Inspection> {
    let header = artifact.header();
    let verdict = super::verdict(artifact)?;
    let mut processes: BTreeMap<Pid, Process> = BTreeMap::new();
    let mut events_by_kind = BTreeMap::new();
    let (mut events, mut failed_calls) = (0, 0);
    for chunk in artifact.event_chunks() {
        // A damaged chunk is among the problems already.
        let Ok(batch) = chunk.decode() else { continue };
        for event in batch.iter() {
            events += 1;
            failed_calls += u64::from(event.failed());
            *events_by_kind.entry(event.kind.name()).or_default() += 1;
            let process = processes.entry(event.pid).or_default();
            process.events += 1;
            if event.kind == EventKind::Fork
                && let Ok(child) = u32::try_from(event.address)
            {
                processes.entry(Pid(child)).or_default().parent = Some(event.pid.0);
            }
        }
    }
    for record in artifact.module_records() {
        let process = processes.entry(record.pid).or_default();
        match &record.event {
            ModuleEvent::Map(_) => process.mappings += 1,
            ModuleEvent::Fork { parent } => process.parent = Some(parent.0),
            ModuleEvent::Comm { name } if record.tid.0 == record.pid.0 => {
                let name = String::from_utf8_lossy(name).into_owned();
                if process.names.last() != Some(&name) {
                    process.names.push(name);
                }
            }
            _ => {}
        }
    }
    for (pid, process) in &mut processes {
        process.pid = pid.0;
    }
    let (mut stacks, mut stacks_cut, mut window_bytes) = (0, 0, 0);
    for chunk in artifact.stack_chunks() {
        let Ok(batch) = chunk.decode() else { continue };
        for stack in batch.iter() {
            stacks += 1;
            stacks_cut += u64::from(stack.is_cut());
            window_bytes += stack.window.len() as u64;
        }
    }
    let sizes = artifact.part_sizes();
    let event_bytes: u64 = sizes
        .parts
        .iter()
        .filter(|part| part.0 == "events")
        .map(|part| part.2)
        .sum();
    Ok(Inspection {
        file: name.to_owned(),
        fingerprint: format!("{:016x}", artifact.fingerprint()),
        complete: verdict.complete,
        headline: verdict.headline,
        problems: verdict.problems,
        notes: verdict.notes,
        command: header.command.iter().map(Bytes::from).collect(),
        working_directory: Bytes::from(&header.working_directory),
        environment_names: header.environment_names.iter().map(Bytes::from).collect(),
        options: header.options.clone(),
        kernel: header.kernel.clone(),
        architecture: header.architecture,
        page_bytes: header.page_bytes,
        backend: header.backend.clone(),
        memtrack_version: header.memtrack_version.clone(),
        start_wall_ns: header.start_wall_ns,
        duration_ns: artifact.ending().map(|end| {
            end.end_monotonic_ns
                .saturating_sub(header.start_monotonic_ns)
        }),
        status: artifact.ending().and_then(|end| end.status),
        losses: artifact.losses().clone(),
        events,
        events_by_kind,
        failed_calls,
        null_frees: artifact.ending().map(|end| end.null_frees),
        stacks,
        stacks_cut,
        window_bytes,
        processes: processes.into_values().collect(),
        modules: artifact.modules().iter().map(module).collect(),
        refused_modules: artifact
            .refused_modules()
            .iter()
            .map(|refused| Refused {
                path: Bytes::from(refused.mapped_as.path.as_slice()),
                identity: Identity::from(&refused.mapped_as.file),
                reason: refused.reason.clone(),
            })
            .collect(),
        parts: sizes
            .parts
            .iter()
            .map(|&(name, chunks, stored_bytes, raw_bytes)| Part {
                name,
                chunks,
                stored_bytes,
                raw_bytes,
            })
            .collect(),
        file_bytes: sizes.file_bytes,
        bytes_per_event: (events > 0).then(|| event_bytes as f64 / events as f64),
    })
}

fn module(module: &memtrack_artifact::Module) -> Module {
    let path = |file: &MappedFile| Bytes::from(file.path.as_slice());
    Module {
        id: module.id.0,
        key: module.key.to_string(),
        paths: module.mapped_as.iter().map(path).collect(),
        identities: module
            .mapped_as
            .iter()
            .map(|file| Identity::from(&file.file))
            .collect(),
        machine: module.machine,
        file_bytes: module.file_bytes,
        kept_bytes: module.sections.iter().map(|section| section.len).sum(),
        sections: module
            .sections
            .iter()
            .map(|section| section.name.clone())
            .collect(),
        debug_files: module
            .debug_files
            .iter()
            .map(|file| Bytes::from(file.path.as_slice()))
            .collect(),
        notes: module.notes.clone(),
    }
}

/// The text form. Everything from outside is made printable.
fn print(inspection: &Inspection, out: &mut Output) -> io::Result<()> {
    let i = inspection;
    writeln!(out, "{}", i.headline)?;
    for problem in &i.problems {
        writeln!(out, "  {}", printable(problem))?;
    }
    for note in &i.notes {
        writeln!(out, "  note: {}", printable(note))?;
    }
    let command: Vec<&str> = i.command.iter().map(|word| word.text.as_str()).collect();
    writeln!(out)?;
    writeln!(out, "command   {}", printable(&command.join(" ")))?;
    writeln!(out, "started   {}", units::wall_time(i.start_wall_ns))?;
    if let Some(duration_ns) = i.duration_ns {
        writeln!(out, "lasted    {}", units::duration(duration_ns))?;
    }
    match i.status {
        Some(memtrack_artifact::ExitStatus::Code(code)) => {
            writeln!(out, "ended     exit code {code}")?
        }
        Some(memtrack_artifact::ExitStatus::Signal(signal)) => {
            writeln!(out, "ended     signal {signal}")?;
        }
        None => writeln!(out, "ended     unknown")?,
    }
    writeln!(out, "kernel    {}", printable(&i.kernel))?;
    writeln!(
        out,
        "recorded  by memtrack {} ({}), {}",
        printable(&i.memtrack_version),
        printable(&i.backend),
        printable(&i.options.join(" "))
    )?;
    writeln!(out)?;
    writeln!(
        out,
        "{} events ({} failed calls, {} of free(NULL) not recorded)",
        units::count(i.events),
        units::count(i.failed_calls),
        i.null_frees
            .map_or_else(|| "an unknown number".to_owned(), units::count),
    )?;
    for (kind, number) in &i.events_by_kind {
        writeln!(out, "  {:>14}  {kind}", units::count(*number))?;
    }
    writeln!(
        out,
        "{} distinct stacks, {} of windows, {} longer than the copy",
        units::count(i.stacks),
        units::bytes(i.window_bytes),
        units::count(i.stacks_cut)
    )?;
    if !i.losses.pauses.is_empty() {
        let longest = i
            .losses
            .pauses
            .iter()
            .map(|pause| pause.end_ns.saturating_sub(pause.start_ns))
            .max()
            .unwrap_or(0);
        writeln!(
            out,
            "{} of the program, the longest {}",
            units::counted(i.losses.pauses.len() as u64, "pause", "pauses"),
            units::duration(longest)
        )?;
    }
    writeln!(out)?;
    writeln!(out, "processes")?;
    for process in &i.processes {
        writeln!(
            out,
            "  {:>8}  {:>14} events  {}",
            process.pid,
            units::count(process.events),
            printable(&process.names.join(" -> "))
        )?;
    }
    writeln!(out, "modules")?;
    for module in &i.modules {
        let path = module.paths.first().map_or("", |path| path.text.as_str());
        writeln!(
            out,
            "  {:>9} of {:>9}  {}  {}",
            units::bytes(module.kept_bytes),
            units::bytes(module.file_bytes),
            module.key,
            printable(path)
        )?;
        for file in &module.debug_files {
            writeln!(out, "      with {}", printable(&file.text))?;
        }
        for note in &module.notes {
            writeln!(out, "      {}", printable(note))?;
        }
    }
    for refused in &i.refused_modules {
        writeln!(
            out,
            "  refused: {}: {}",
            printable(&refused.path.text),
            printable(&refused.reason)
        )?;
    }
    writeln!(out, "file")?;
    for part in &i.parts {
        writeln!(
            out,
            "  {:>9}  ({:>9} before compression, {:>6} chunks)  {}",
            units::bytes(part.stored_bytes),
            units::bytes(part.raw_bytes),
            units::count(part.chunks),
            part.name
        )?;
    }
    write!(out, "  {:>9}  in all", units::bytes(i.file_bytes))?;
    match i.bytes_per_event {
        Some(bytes) => writeln!(out, ", {bytes:.2} bytes an event"),
        None => writeln!(out),
    }
}
