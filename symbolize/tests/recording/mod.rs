//! Stacks of real programs without any privilege: a preloaded library writes
//! registers and stack at `malloc` ([`unwind_recorder.c`]), and this module
//! makes an artifact of what it wrote and of the files that were mapped.
//!
//! [`unwind_recorder.c`]: ../../../testdata/programs/unwind_recorder.c

#![allow(dead_code, reason = "each test and bench uses its own part")]

pub(crate) mod peer;
pub(crate) mod sites;

use memtrack_artifact::{
    Architecture, Artifact, ArtifactWriter, Avma, ByteString, Ending, FileIdentity, FileOffset,
    Header, Losses, MappedFile, Mapping, Module, ModuleEvent, ModuleId, ModuleKey, ModuleRecord,
    Pid, SectionInfo, Segment, StackForm, StackId, StackRecord, Svma, Tid,
};
use object::{
    LittleEndian,
    elf::{self, FileHeader64},
    read::elf::{FileHeader, ProgramHeader, SectionHeader},
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    process::Command,
};

/// Everything a run of the recorder wrote.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) stacks: Vec<Stack>,
    /// Times and texts of `/proc/PID/maps`.
    pub(crate) maps: Vec<(u64, String)>,
    /// The files that were mapped executable.
    files: Vec<MappedBytes>,
}

#[derive(Debug)]
struct MappedBytes {
    path: PathBuf,
    inode: u64,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct Stack {
    pub(crate) time_ns: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) available_bytes: u64,
    pub(crate) registers: [u64; 17],
    pub(crate) window: Vec<u8>,
}

/// Which calls are recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) skip: u64,
    pub(crate) every: u64,
    pub(crate) max: u64,
    pub(crate) bytes: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            skip: 0,
            every: 1,
            max: 1000,
            bytes: 65_536,
        }
    }
}

/// Where the test programs' sources are.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/programs")
}

/// Whether programs can be compiled here. Where they cannot the test is
/// skipped with a reason, and fails when `CI=true`.
pub(crate) fn can_compile() -> bool {
    let found = Command::new("gcc").arg("--version").output().is_ok();
    if !found {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "gcc is missing; install it"
        );
        eprintln!("skipped: gcc is missing, so the test program cannot be built");
    }
    found
}

/// Compiles with `gcc` (or `g++`).
pub(crate) fn compile(compiler: &str, arguments: &[&str], source: &Path, out: &Path) {
    let output = Command::new(compiler)
        .args(arguments)
        .arg(source)
        .arg("-o")
        .arg(out)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{compiler} {}: {}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a command with the recorder preloaded.
pub(crate) fn record(folder: &Path, command: &mut Command, plan: Plan) -> Recording {
    let library = folder.join("recorder.so");
    if !library.exists() {
        compile(
            "gcc",
            &["-O2", "-g", "-fPIC", "-shared", "-Wl,-Bsymbolic"],
            &sources().join("unwind_recorder.c"),
            &library,
        );
    }
    let out = folder.join("stacks");
    let status = command
        .env("LD_PRELOAD", &library)
        .env("UNWIND_OUT", &out)
        .env("UNWIND_SKIP", plan.skip.to_string())
        .env("UNWIND_EVERY", plan.every.to_string())
        .env("UNWIND_MAX", plan.max.to_string())
        .env("UNWIND_BYTES", plan.bytes.to_string())
        .status()
        .unwrap();
    assert!(status.success(), "{command:?}: {status}");
    let mut recording = parse(&std::fs::read(out).unwrap());
    for (_, mapping) in recording.mappings() {
        use std::os::unix::fs::MetadataExt;
        let path = PathBuf::from(String::from_utf8(mapping.path).unwrap());
        if path.is_absolute() && recording.files.iter().all(|file| file.path != path) {
            recording.files.push(MappedBytes {
                inode: std::fs::metadata(&path).unwrap().ino(),
                bytes: std::fs::read(&path).unwrap(),
                path,
            });
        }
    }
    recording
}

fn parse(mut bytes: &[u8]) -> Recording {
    fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
        let (head, rest) = bytes.split_at(count);
        *bytes = rest;
        head
    }
    fn u32_of(bytes: &mut &[u8]) -> u32 {
        u32::from_le_bytes(take(bytes, 4).try_into().unwrap())
    }
    fn u64_of(bytes: &mut &[u8]) -> u64 {
        u64::from_le_bytes(take(bytes, 8).try_into().unwrap())
    }
    let mut recording = Recording::default();
    while !bytes.is_empty() {
        let tag = u32_of(&mut bytes);
        let len = u32_of(&mut bytes) as usize;
        let time_ns = u64_of(&mut bytes);
        if tag == u32::from(b'M') {
            let text = String::from_utf8_lossy(take(&mut bytes, len)).into_owned();
            recording.maps.push((time_ns, text));
            continue;
        }
        assert_eq!(tag, u32::from(b'S'));
        let (pid, tid) = (u32_of(&mut bytes), u32_of(&mut bytes));
        let available_bytes = u64_of(&mut bytes);
        let registers = std::array::from_fn(|_| u64_of(&mut bytes));
        recording.stacks.push(Stack {
            time_ns,
            pid,
            tid,
            available_bytes,
            registers,
            window: take(&mut bytes, len).to_vec(),
        });
    }
    recording
}

impl Recording {
    /// The mappings of all snapshots, each once: (time, mapping).
    pub(crate) fn mappings(&self) -> Vec<(u64, Mapping)> {
        let mut seen = HashSet::new();
        let mut out = Vec::new();
        for (time_ns, text) in &self.maps {
            for line in text.lines() {
                if seen.insert(line.to_owned())
                    && let Some(mapping) = mapping_of(line)
                {
                    out.push((*time_ns, mapping));
                }
            }
        }
        out
    }

    /// An artifact of the recording.
    pub(crate) fn artifact(&self) -> Artifact {
        self.artifact_with(|_, bytes| Some(bytes.to_vec()))
    }

    /// The same with sections changed or, by `None`, left out.
    pub(crate) fn artifact_with(
        &self,
        change: impl FnMut(&str, &[u8]) -> Option<Vec<u8>>,
    ) -> Artifact {
        self.artifact_edited(change, |_, _| ())
    }

    /// The same with `edit` of every module and its sections' bytes.
    pub(crate) fn artifact_edited(
        &self,
        mut change: impl FnMut(&str, &[u8]) -> Option<Vec<u8>>,
        mut edit: impl FnMut(&mut Module, &mut Vec<Vec<u8>>),
    ) -> Artifact {
        let mut writer = ArtifactWriter::new(Vec::new(), &header()).unwrap();
        for file in &self.files {
            let (mut module, contents) = module_of(file);
            let infos = std::mem::take(&mut module.sections);
            let mut kept = Vec::new();
            for (info, content) in infos.into_iter().zip(contents) {
                if let Some(content) = change(&info.name, content) {
                    module.sections.push(info);
                    kept.push(content);
                }
            }
            edit(&mut module, &mut kept);
            let sections: Vec<&[u8]> = kept.iter().map(Vec::as_slice).collect();
            writer.module(module, &sections).unwrap();
        }
        let pid = self.stacks.first().map_or(1, |stack| stack.pid);
        for (time_ns, mapping) in self.mappings() {
            writer
                .module_record(&ModuleRecord {
                    time_ns,
                    pid: Pid(pid),
                    tid: Tid(pid),
                    event: ModuleEvent::Map(mapping),
                })
                .unwrap();
        }
        let mut known = HashSet::from([pid]);
        for (id, stack) in (0..).zip(&self.stacks) {
            if known.insert(stack.pid) {
                writer
                    .module_record(&ModuleRecord {
                        time_ns: stack.time_ns,
                        pid: Pid(stack.pid),
                        tid: Tid(stack.pid),
                        event: ModuleEvent::Fork { parent: Pid(pid) },
                    })
                    .unwrap();
            }
            writer.stack(&stack.record(StackId(id))).unwrap();
        }
        let ending = Ending {
            end_monotonic_ns: 0,
            status: None,
            root_pid: Some(Pid(pid)),
            null_frees: 0,
        };
        let (bytes, _) = writer.finish(&Losses::default(), &ending).unwrap();
        Artifact::from_bytes("recording", bytes).unwrap()
    }
}

impl Stack {
    pub(crate) fn record(&self, id: StackId) -> StackRecord<'_> {
        StackRecord {
            id,
            pid: Pid(self.pid),
            tid: Tid(self.tid),
            time_ns: self.time_ns,
            form: StackForm::Raw,
            registers: &self.registers,
            stack_pointer: Avma(self.registers[7]),
            window: &self.window,
            available_bytes: self.available_bytes,
            frame_pointer_chain: &[],
        }
    }
}

pub(crate) fn header() -> Header {
    Header {
        memtrack_version: "test".into(),
        architecture: Architecture::X86_64,
        page_bytes: 4096,
        start_monotonic_ns: 0,
        start_wall_ns: 0,
        kernel: String::new(),
        command: Vec::new(),
        environment_names: Vec::new(),
        working_directory: ByteString::default(),
        options: Vec::new(),
        backend: "test".into(),
    }
}

/// An executable line of a maps file: `start-end perms offset dev inode path`.
fn mapping_of(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let protection = words.next()?;
    let offset = words.next()?;
    let _device = words.next()?;
    let inode = words.next()?.parse().ok()?;
    let path = words.collect::<Vec<_>>().join(" ");
    let number = |text| u64::from_str_radix(text, 16).ok();
    protection.contains('x').then_some(())?;
    let start = number(start)?;
    Some(Mapping {
        start: Avma(start),
        len: number(end)? - start,
        file_offset: FileOffset(number(offset)?),
        protection: 5,
        file: FileIdentity {
            inode,
            ..FileIdentity::default()
        },
        path: path.into_bytes(),
    })
}

/// What a capture keeps of a file, with the bytes of each section.
fn module_of(file: &MappedBytes) -> (Module, Vec<&[u8]>) {
    use std::os::unix::ffi::OsStrExt;
    let bytes = file.bytes.as_slice();
    let header = FileHeader64::<LittleEndian>::parse(bytes).unwrap();
    let segments = header
        .program_headers(LittleEndian, bytes)
        .unwrap()
        .iter()
        .map(|segment| Segment {
            kind: segment.p_type(LittleEndian).0,
            flags: segment.p_flags(LittleEndian).0,
            file_offset: FileOffset(segment.p_offset(LittleEndian)),
            address: Svma(segment.p_vaddr(LittleEndian)),
            file_bytes: segment.p_filesz(LittleEndian),
            memory_bytes: segment.p_memsz(LittleEndian),
        })
        .collect();
    let (sections, contents) = sections_of(bytes);
    let module = Module {
        id: ModuleId(0),
        key: ModuleKey::Content([0; 16]),
        mapped_as: vec![MappedFile {
            path: file.path.as_os_str().as_bytes().to_vec(),
            file: FileIdentity {
                inode: file.inode,
                ..FileIdentity::default()
            },
        }],
        machine: elf::EM_X86_64.0,
        elf_type: header.e_type(LittleEndian).0,
        file_bytes: bytes.len() as u64,
        segments,
        sections,
        debug_files: Vec::new(),
        notes: Vec::new(),
    };
    (module, contents)
}

/// The sections that a capture keeps of a file.
pub(crate) fn sections_of(bytes: &[u8]) -> (Vec<SectionInfo>, Vec<&[u8]>) {
    let header = FileHeader64::<LittleEndian>::parse(bytes).unwrap();
    let table = header.sections(LittleEndian, bytes).unwrap();
    let name_of = |section| {
        let name = table.section_name(LittleEndian, section).unwrap();
        String::from_utf8_lossy(name).into_owned()
    };
    let mut sections = Vec::new();
    let mut contents = Vec::new();
    for section in table.iter() {
        let name = name_of(section);
        let wanted = matches!(
            name.as_str(),
            ".eh_frame" | ".eh_frame_hdr" | ".symtab" | ".strtab" | ".dynsym" | ".dynstr"
        ) || name.starts_with(".debug_")
            || name.starts_with(".zdebug_")
            || name.starts_with(".gnu_debug");
        if !wanted || section.sh_type(LittleEndian) == elf::SHT_NOBITS {
            continue;
        }
        let link = table
            .section(object::SectionIndex(section.sh_link(LittleEndian) as usize))
            .ok()
            .filter(|_| section.sh_link(LittleEndian) != 0)
            .map(name_of);
        let content = section.data(LittleEndian, bytes).unwrap();
        sections.push(SectionInfo {
            name,
            kind: section.sh_type(LittleEndian).0,
            flags: section.sh_flags(LittleEndian).0,
            address: Svma(section.sh_addr(LittleEndian)),
            file_offset: FileOffset(section.sh_offset(LittleEndian)),
            len: content.len() as u64,
            entry_bytes: section.sh_entsize(LittleEndian),
            link,
        });
        contents.push(content);
    }
    (sections, contents)
}
