//! Names from debug information that was split off: taken along, found by build
//! id, shared by dwz, or compressed into the program. They must be those of the
//! whole program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod recording;

use memtrack_artifact::{
    Artifact, BuildId, DebugFile, DebugFileKind, DebugFileProof, Module, ModuleKey, Silent,
    Symbols, Termination,
};
use memtrack_symbolize::{Options, symbolize};
use recording::{
    Plan, Recording, can_compile, compile, record, sections_of,
    sites::{CPP, site},
    sources,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

const ID: [u8; 8] = [0xab, 0xcd, 0xef, 1, 2, 3, 4, 5];

/// Whether a tool is here; as for compilers, a missing one fails with `CI=true`.
fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{tool} is missing; install it"
        );
        eprintln!("skipped: {tool} is missing");
    }
    found
}

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {words}");
}

/// The program in parts: `full`, `program` (stripped), `program.debug`.
struct Parts(TempDir);

impl Parts {
    fn new() -> Option<Self> {
        Self::compiled(&[])
    }

    fn compiled(more: &[&str]) -> Option<Self> {
        if !can_compile() || !have("objcopy") {
            return None;
        }
        let parts = Self(TempDir::new().unwrap());
        let full = parts.path("full");
        let options = ["-O1", "-g", "-Wl,--build-id=0xabcdef0102030405"];
        let options = [&options, more].concat();
        compile("g++", &options, &sources().join("unwind_names.cc"), &full);
        parts.objcopy(&["--only-keep-debug", "full", "program.debug"]);
        parts.objcopy(&["--strip-all", "full", "program"]);
        Some(parts)
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn objcopy(&self, arguments: &[&str]) {
        run(self.folder(), "objcopy", arguments);
    }

    fn record(&self) -> Recording {
        let mut command = Command::new(self.path("program"));
        record(self.folder(), &mut command, Plan::default())
    }

    /// Puts a file where its build id is looked for.
    fn place(&self, name: &str, id: &str) {
        let (start, rest) = id.split_at(2);
        let folder = self.path(".build-id").join(start);
        fs::create_dir_all(&folder).unwrap();
        fs::rename(self.path(name), folder.join(format!("{rest}.debug"))).unwrap();
    }

    /// Names with this folder as the one of debug files.
    fn named(&self, artifact: &Artifact) -> Symbols {
        let options = Options {
            debug_dirs: vec![self.folder().to_owned()],
            ..Options::default()
        };
        symbolize(artifact, &options, &Silent).unwrap()
    }

    /// Two debug files with a third, `shared`, by dwz. Gives its build id.
    fn share(&self) -> BuildId {
        fs::copy(self.path("program.debug"), self.path("second.debug")).unwrap();
        let arguments = ["-m", "shared", "program.debug", "second.debug"];
        run(self.folder(), "dwz", &arguments);
        let bytes = fs::read(self.path("program.debug")).unwrap();
        let (infos, contents) = sections_of(&bytes);
        let at = infos
            .iter()
            .position(|info| info.name == ".gnu_debugaltlink")
            .unwrap();
        let link = memtrack_artifact::AlternateLink::parse(contents[at]).unwrap();
        link.build_id
    }
}

fn is_program(module: &Module) -> bool {
    module.mapped_as[0].path.ends_with(b"/program")
}

/// Takes a debug file along, as capture does.
fn take(module: &mut Module, contents: &mut Vec<Vec<u8>>, kind: DebugFileKind, path: &Path) {
    let bytes = fs::read(path).unwrap();
    let (infos, parts) = sections_of(&bytes);
    for (mut info, part) in infos.into_iter().zip(parts) {
        info.name.insert_str(0, kind.section_prefix());
        module.sections.push(info);
        contents.push(part.to_vec());
    }
    module.debug_files.push(DebugFile {
        kind,
        path: path.as_os_str().as_encoded_bytes().to_vec(),
        proof: DebugFileProof::BuildId,
        build_id: None,
        file_bytes: bytes.len() as u64,
    });
}

fn taken(recording: &Recording, files: &[(DebugFileKind, PathBuf)]) -> Artifact {
    recording.artifact_edited(
        |_, bytes| Some(bytes.to_vec()),
        |module, contents| {
            if is_program(module) {
                for (kind, path) in files {
                    take(module, contents, *kind, path);
                }
            }
        },
    )
}

/// Nothing is taken along; the program has its build id as key.
fn keyed(recording: &Recording) -> Artifact {
    recording.artifact_edited(
        |_, bytes| Some(bytes.to_vec()),
        |module, _| {
            if is_program(module) {
                module.key = ModuleKey::BuildId(BuildId(ID.to_vec()));
            }
        },
    )
}

fn notes<'a>(artifact: &Artifact, symbols: &'a Symbols) -> &'a [String] {
    let at = artifact.modules().iter().position(is_program).unwrap();
    &symbols.audits[at].notes
}

fn says(artifact: &Artifact, symbols: &Symbols, words: &str) {
    let notes = notes(artifact, symbols);
    assert!(notes.iter().any(|note| note.contains(words)), "{notes:?}");
}

fn assert_whole(recording: &Recording, symbols: &Symbols) {
    for (size, expected) in CPP {
        assert_eq!(site(recording, symbols, size), expected, "{size}");
    }
}

/// No name of the program that it does not export.
fn assert_bare(recording: &Recording, symbols: &Symbols) {
    for (size, _) in CPP {
        assert_eq!(site(recording, symbols, size), ["? :0"], "{size}");
    }
}

#[test]
fn a_file_that_was_taken_along_names_all() {
    let Some(parts) = Parts::new() else { return };
    let recording = parts.record();
    for compression in ["none", "zlib", "zlib-gnu"] {
        let option = format!("--compress-debug-sections={compression}");
        parts.objcopy(&[&option, "program.debug", "packed"]);
        let files = [(DebugFileKind::Separate, parts.path("packed"))];
        let artifact = taken(&recording, &files);
        let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
        assert_whole(&recording, &symbols);
        let notes = notes(&artifact, &symbols);
        assert_eq!(notes.len(), 1, "{notes:?}");
        says(&artifact, &symbols, "found by build id");
    }
}

#[test]
fn a_file_of_the_build_id_on_this_machine_names_all() {
    let Some(parts) = Parts::new() else { return };
    let recording = parts.record();
    let artifact = keyed(&recording);
    assert_bare(&recording, &parts.named(&artifact));
    parts.place("program.debug", "abcdef0102030405");
    let symbols = parts.named(&artifact);
    assert_whole(&recording, &symbols);
    says(
        &artifact,
        &symbols,
        "cdef0102030405.debug, found by build id",
    );
    // Only when asked.
    let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
    assert_bare(&recording, &symbols);
    says(&artifact, &symbols, "--debug-dir");
}

#[test]
fn a_file_of_another_build_id_is_refused() {
    let Some(parts) = Parts::new() else { return };
    let recording = parts.record();
    let artifact = keyed(&recording);
    let options = ["-O1", "-g", "-Wl,--build-id=0xabcdef0102030406"];
    let other = parts.path("other");
    compile("g++", &options, &sources().join("unwind_names.cc"), &other);
    parts.place("other", "abcdef0102030405");
    let symbols = parts.named(&artifact);
    assert_bare(&recording, &symbols);
    says(
        &artifact,
        &symbols,
        "its build id differs: abcdef0102030406",
    );

    fs::write(parts.path("text"), "no ELF file").unwrap();
    parts.place("text", "abcdef0102030405");
    let symbols = parts.named(&artifact);
    assert_bare(&recording, &symbols);
    says(&artifact, &symbols, "refused");
}

#[test]
fn what_dwz_shares_is_followed() {
    let Some(parts) = Parts::new() else { return };
    if !have("dwz") {
        return;
    }
    let recording = parts.record();
    let id = parts.share();
    let separate = (DebugFileKind::Separate, parts.path("program.debug"));
    let alternate = (DebugFileKind::Alternate, parts.path("shared"));
    let artifact = taken(&recording, &[separate.clone(), alternate]);
    let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
    assert_whole(&recording, &symbols);
    says(&artifact, &symbols, "shared debug information from");

    // Without it nothing is invented, and the audit says what is missing.
    let artifact = taken(&recording, &[separate]);
    let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
    says(&artifact, &symbols, &format!("build id {id}"));
    let is_whole =
        |(size, expected): &(u64, &[&str])| site(&recording, &symbols, *size) == *expected;
    assert!(!CPP.iter().all(is_whole));

    // It is found on this machine by its build id.
    parts.place("shared", &id.to_string());
    assert_whole(&recording, &parts.named(&artifact));
    parts.place("program.debug", "abcdef0102030405");
    let artifact = keyed(&recording);
    assert_whole(&recording, &parts.named(&artifact));
}

#[test]
fn symbols_that_are_compressed_into_the_program_name_functions() {
    let Some(parts) = Parts::new() else { return };
    if !have("xz") {
        return;
    }
    parts.objcopy(&["--strip-debug", "full", "symbols"]);
    run(parts.folder(), "xz", &["--keep", "symbols"]);
    parts.objcopy(&["--add-section=.gnu_debugdata=symbols.xz", "program"]);
    let recording = parts.record();
    let artifact = recording.artifact();
    let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
    for (size, expected) in CPP {
        let name = expected.last().unwrap().rsplit_once(' ').unwrap().0;
        assert_eq!(site(&recording, &symbols, size), [format!("{name} :0")]);
    }
    says(&artifact, &symbols, "named by .gnu_debugdata");

    // Damaged in every part of it, it costs names at most.
    for at in (0..4000).step_by(97) {
        let artifact = recording.artifact_with(|name, bytes| {
            let mut bytes = bytes.to_vec();
            if name == ".gnu_debugdata"
                && let Some(byte) = bytes.get_mut(at)
            {
                *byte ^= 0x55;
            }
            Some(bytes)
        });
        let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
        assert_eq!(symbols.stacks.len(), recording.stacks.len());
    }
}

#[test]
fn frames_are_left_by_the_debug_files_unwind_tables() {
    let options = ["-fno-asynchronous-unwind-tables", "-fno-exceptions"];
    let Some(parts) = Parts::compiled(&options) else {
        return;
    };
    let recording = parts.record();
    let roots = |artifact: &Artifact| {
        let symbols = symbolize(artifact, &Options::default(), &Silent).unwrap();
        let ends = symbols.stacks.iter().map(|stack| stack.termination);
        ends.filter(|end| *end == Termination::Root).count()
    };
    let without = roots(&recording.artifact());
    let files = [(DebugFileKind::Separate, parts.path("program.debug"))];
    let with = roots(&taken(&recording, &files));
    // The sites stand in functions that the program's own tables leave out.
    assert!(with >= without + CPP.len(), "{without} and {with}");
}

#[test]
fn damaged_debug_files_never_stop_the_run() {
    let Some(parts) = Parts::new() else { return };
    if !have("dwz") {
        return;
    }
    let recording = parts.record();
    parts.share();
    let files = [
        (DebugFileKind::Separate, parts.path("program.debug")),
        (DebugFileKind::Alternate, parts.path("shared")),
    ];
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        // A linear congruential generator (Knuth's constants): the same damage
        // in every run.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below.max(1)
    };
    for _ in 0..60 {
        let artifact = recording.artifact_edited(
            |_, bytes| Some(bytes.to_vec()),
            |module, contents| {
                if !is_program(module) {
                    return;
                }
                let own = contents.len();
                for (kind, path) in &files {
                    take(module, contents, *kind, path);
                }
                for content in contents.iter_mut().skip(own) {
                    for _ in 0..random(12) {
                        let at = random(content.len());
                        if let Some(byte) = content.get_mut(at) {
                            *byte = random(256) as u8;
                        }
                    }
                }
            },
        );
        let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
        assert_eq!(symbols.stacks.len(), recording.stacks.len());
    }

    // Files on this machine are no better.
    let artifact = keyed(&recording);
    let bytes = fs::read(parts.path("full")).unwrap();
    for _ in 0..60 {
        let mut bytes = bytes.clone();
        for _ in 0..random(200) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        bytes.truncate(bytes.len() - random(2) * random(bytes.len()));
        fs::write(parts.path("damaged"), bytes).unwrap();
        parts.place("damaged", "abcdef0102030405");
        let symbols = parts.named(&artifact);
        assert_eq!(symbols.stacks.len(), recording.stacks.len());
    }
}
