//! Files made by gcc, objcopy and dwz, as distributions make them.

use super::*;
use crate::{
    elf::ElfFile,
    harvest::tests::{finished, mapping_of},
    harvest::{DebugSearch, Harvest},
};
use memtrack_artifact::Artifact;
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

const SOURCE: &str = "int work(int n) { return n + 1; }\nint main(void) { return work(2); }\n";
const OTHER: &str = "\n\nint other(int n) { return n + 2; }\nint main(void) { return other(2); }\n";

/// Whether the programs are here. A test is skipped where they are not, and
/// fails with `CI=true`.
fn have(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let found = Command::new(program).arg("--version").output().is_ok();
        if !found {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "{program} is missing; install it"
            );
            println!("skipped: {program} is missing");
        }
        found
    })
}

fn run(program: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Compiles `source` as `full`, splits it to `prog` and `prog.debug`.
fn split(folder: &Path, source: &str, build_id: &str, options: &[&str]) {
    fs::write(folder.join("prog.c"), source).unwrap();
    let id = format!("-Wl,--build-id={build_id}");
    let fixed = ["-g", "-O1", &id, "prog.c", "-o", "full"];
    run("gcc", &[&fixed, options].concat(), folder);
    run(
        "objcopy",
        &["--only-keep-debug", "full", "prog.debug"],
        folder,
    );
    run("objcopy", &["--strip-all", "full", "prog"], folder);
}

fn link(folder: &Path) {
    run(
        "objcopy",
        &["--add-gnu-debuglink=prog.debug", "prog"],
        folder,
    );
}

/// Harvests `prog`, with `debug` below the folder as the folder of debug files.
fn harvest(folder: &Path) -> Artifact {
    let search = DebugSearch {
        folders: vec![folder.join("debug")],
        ..DebugSearch::default()
    };
    harvest_with(folder, search)
}

fn harvest_with(folder: &Path, search: DebugSearch) -> Artifact {
    let path = folder.join("prog");
    let bytes = fs::read(&path).unwrap();
    let build_id = ElfFile::parse(&bytes).unwrap().build_id();
    let mut harvest = Harvest::with_search(search);
    harvest.see(&mapping_of(
        &path,
        build_id.as_ref().map(|id| id.0.as_slice()),
    ));
    finished(harvest)
}

fn only(artifact: &Artifact) -> &Module {
    match artifact.modules() {
        [module] => module,
        other => panic!("{other:?}"),
    }
}

/// The file that was taken, and that its sections are those on the disk.
fn taken(artifact: &Artifact, kind: DebugFileKind) -> DebugFile {
    let module = only(artifact);
    let file = module.debug_files.iter().find(|file| file.kind == kind);
    let file = file.unwrap_or_else(|| panic!("{:?}", module.notes)).clone();
    let bytes = fs::read(OsStr::from_bytes(&file.path)).unwrap();
    let elf = ElfFile::parse(&bytes).unwrap();
    let name = format!("{}.debug_info", kind.section_prefix());
    let held = artifact.section(module.id, &name).unwrap().unwrap();
    assert_eq!(Some(&held[..]), elf.section(b".debug_info"));
    assert_eq!(file.file_bytes, bytes.len() as u64);
    file
}

fn refused(artifact: &Artifact, reason: &str) {
    let module = only(artifact);
    assert_eq!(module.debug_files, []);
    assert!(
        module.notes.iter().any(|note| note.contains(reason)),
        "{:?}",
        module.notes
    );
    let foreign = |info: &SectionInfo| info.name.contains(':');
    assert!(!module.sections.iter().any(foreign));
}

#[test]
fn a_file_is_found_by_build_id() {
    if !have(&["gcc", "objcopy"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    split(folder, SOURCE, "0xabcdef0123456789", &[]);
    let place = folder.join("debug/.build-id/ab");
    fs::create_dir_all(&place).unwrap();
    let path = place.join("cdef0123456789.debug");
    fs::rename(folder.join("prog.debug"), &path).unwrap();
    let artifact = harvest(folder);
    let file = taken(&artifact, DebugFileKind::Separate);
    assert_eq!(file.path, path.as_os_str().as_bytes());
    assert_eq!(file.proof, DebugFileProof::BuildId);
    assert!(
        !only(&artifact)
            .notes
            .iter()
            .any(|note| note.contains("stripped"))
    );

    // The same place with the file of another build.
    fs::remove_file(&path).unwrap();
    split(folder, OTHER, "0xabcdef0123456788", &[]);
    fs::rename(folder.join("prog.debug"), &path).unwrap();
    split(folder, SOURCE, "0xabcdef0123456789", &[]);
    refused(&harvest(folder), "its build id differs: abcdef0123456788");
}

#[test]
fn a_linked_file_is_found_beside_in_debug_and_below_the_debug_folder() {
    if !have(&["gcc", "objcopy"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    split(&folder, SOURCE, "none", &[]);
    link(&folder);
    let below = folder.join("debug").join(folder.strip_prefix("/").unwrap());
    let places = [folder.clone(), folder.join(".debug"), below];
    let mut now = folder.join("prog.debug");
    for place in &places {
        fs::create_dir_all(place).unwrap();
        let path = place.join("prog.debug");
        fs::rename(&now, &path).unwrap();
        now = path;
        let file = taken(&harvest(&folder), DebugFileKind::Separate);
        assert_eq!(file.path, now.as_os_str().as_bytes());
        assert_eq!(file.proof, DebugFileProof::Checksum);
    }
    fs::remove_file(&now).unwrap();
    refused(
        &harvest(&folder),
        "its debug file prog.debug (.gnu_debuglink) is not there",
    );
}

#[test]
fn a_linked_file_of_another_build_is_refused() {
    if !have(&["gcc", "objcopy"]) {
        return;
    }
    for (own, other, reason) in [
        ("none", "none", "its checksum differs"),
        (
            "0x1234",
            "0x1235",
            "its build id differs: 1235, wanted is 1234",
        ),
        ("0x1234", "none", "its checksum differs"),
    ] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        split(folder, OTHER, other, &[]);
        fs::rename(folder.join("prog.debug"), folder.join("wrong")).unwrap();
        split(folder, SOURCE, own, &[]);
        link(folder);
        fs::rename(folder.join("wrong"), folder.join("prog.debug")).unwrap();
        refused(&harvest(folder), reason);
    }
}

#[test]
fn one_changed_byte_is_noticed() {
    if !have(&["gcc", "objcopy"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    split(folder, SOURCE, "none", &[]);
    link(folder);
    let path = folder.join("prog.debug");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    refused(&harvest(folder), "its checksum differs");
}

#[test]
fn a_file_over_the_bound_and_what_is_no_file_are_refused() {
    if !have(&["gcc", "objcopy"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    split(folder, SOURCE, "none", &[]);
    link(folder);
    let path = folder.join("prog.debug");
    let len = fs::metadata(&path).unwrap().len();
    let bounded = |max_bytes| DebugSearch {
        folders: Vec::new(),
        max_bytes,
    };
    taken(&harvest_with(folder, bounded(len)), DebugFileKind::Separate);
    refused(&harvest_with(folder, bounded(len - 1)), "--max-debug");

    fs::remove_file(&path).unwrap();
    run("mkfifo", &["prog.debug"], folder);
    refused(&harvest(folder), "not a regular file");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "text").unwrap();
    refused(&harvest(folder), "not an ELF file");
}

#[test]
fn a_program_with_its_own_debug_information_is_not_searched() {
    if !have(&["gcc", "objcopy"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    split(folder, SOURCE, "0xabcdef0123456789", &[]);
    fs::rename(folder.join("full"), folder.join("prog")).unwrap();
    link(folder);
    let artifact = harvest(folder);
    assert_eq!(only(&artifact).debug_files, []);
    assert_eq!(only(&artifact).notes, Vec::<String>::new());
}

/// Enough in common for dwz to move types and functions, not strings alone.
const COMMON: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    struct node { struct node *left, *right; FILE *file; div_t division; char name[32]; };\n\
    int work(struct node *node) { return node->division.quot + (int)sizeof *node->file; }\n\
    int main(void) { struct node node = {0}; return work(&node); }\n";

/// Two debug files that share a third, as packages of distributions have them.
fn dwz(folder: &Path) {
    split(folder, COMMON, "0xabcdef0123456780", &[]);
    fs::rename(folder.join("prog.debug"), folder.join("second.debug")).unwrap();
    split(folder, COMMON, "0xabcdef0123456789", &[]);
    let arguments = [
        "-m",
        "shared.dwz",
        "-M",
        "../shared.dwz",
        "prog.debug",
        "second.debug",
    ];
    run("dwz", &arguments, folder);
    fs::create_dir(folder.join(".debug")).unwrap();
    // The checksum is that of the file as dwz left it.
    link(folder);
    fs::rename(folder.join("prog.debug"), folder.join(".debug/prog.debug")).unwrap();
}

#[test]
fn the_file_that_several_share_is_taken_too() {
    if !have(&["gcc", "objcopy", "dwz"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    dwz(folder);
    let artifact = harvest(folder);
    taken(&artifact, DebugFileKind::Separate);
    let shared = taken(&artifact, DebugFileKind::Alternate);
    assert_eq!(shared.proof, DebugFileProof::BuildId);
    assert!(shared.path.ends_with(b"shared.dwz"));

    // By its build id, when it is not where the link says.
    let path = folder
        .join("debug")
        .join(shared.build_id.unwrap().debug_path().unwrap());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::rename(folder.join("shared.dwz"), &path).unwrap();
    let found = taken(&harvest(folder), DebugFileKind::Alternate);
    assert_eq!(found.path, path.as_os_str().as_bytes());

    // Another file in its place.
    fs::copy(folder.join("second.debug"), folder.join("shared.dwz")).unwrap();
    fs::remove_file(&path).unwrap();
    let artifact = harvest(folder);
    let module = only(&artifact);
    assert_eq!(module.debug_files.len(), 1);
    let note = "shared.dwz refused: its build id differs: abcdef0123456780";
    assert!(
        module.notes.iter().any(|one| one.contains(note)),
        "{:?}",
        module.notes
    );
}

#[test]
fn compressed_debug_files_are_taken_as_they_are() {
    if !have(&["gcc", "objcopy"]) {
        return;
    }
    for form in ["zlib", "zlib-gnu"] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        split(folder, SOURCE, "none", &[]);
        let option = format!("--compress-debug-sections={form}");
        run("objcopy", &[&option, "prog.debug"], folder);
        link(folder);
        let artifact = harvest(folder);
        let module = only(&artifact);
        assert_eq!(module.debug_files.len(), 1, "{:?}", module.notes);
    }
}
