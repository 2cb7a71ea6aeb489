use super::*;
use crate::test_elf::{function, image};
use memtrack_artifact::{
    Architecture, Artifact, Avma, BuildId, ByteString, Ending, FileIdentity, FileOffset, Header,
    Losses, Silent, Tid,
};
use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const ID: [u8; 20] = [0xab; 20];

fn elf(id: Option<&[u8]>) -> Vec<u8> {
    image(&[0x90; 64], &[function("work", 0, 16)], id)
}

/// The record that the kernel would write when this process maps `path` now.
pub(super) fn mapping_of(path: &Path, build_id: Option<&[u8]>) -> ModuleRecord {
    let found = std::fs::metadata(path).unwrap();
    record(
        path.as_os_str().as_bytes(),
        FileIdentity {
            device: (libc::major(found.dev()), libc::minor(found.dev())),
            inode: found.ino(),
            generation: 0,
            build_id: build_id.map(|id| BuildId(id.to_vec())),
        },
    )
}

fn record(path: &[u8], file: FileIdentity) -> ModuleRecord {
    ModuleRecord {
        time_ns: crate::clock::monotonic_ns(),
        pid: Pid(std::process::id()),
        tid: Tid(std::process::id()),
        event: ModuleEvent::Map(Mapping {
            start: Avma(0x1000),
            len: 0x1000,
            file_offset: FileOffset(0x1000),
            protection: 5,
            file,
            path: path.to_vec(),
        }),
    }
}

fn mapping(record: &ModuleRecord) -> &Mapping {
    match &record.event {
        ModuleEvent::Map(mapping) => mapping,
        other => panic!("{other:?}"),
    }
}

pub(super) fn finished(harvest: Harvest) -> Artifact {
    let header = Header {
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
    };
    let mut writer = ArtifactWriter::new(Vec::new(), &header).unwrap();
    harvest.finish(&mut writer, &Silent).unwrap();
    let ending = Ending {
        end_monotonic_ns: 0,
        status: None,
        root_pid: None,
        null_frees: 0,
    };
    let (bytes, _) = writer.finish(&Losses::default(), &ending).unwrap();
    Artifact::from_bytes("test", bytes).unwrap()
}

/// Sees one mapping, does something to the files, and harvests.
fn after(record: &ModuleRecord, change: impl FnOnce()) -> Artifact {
    let mut harvest = Harvest::new();
    harvest.see(record);
    change();
    finished(harvest)
}

/// The same, without a descriptor from when the file was mapped.
fn after_without_descriptor(record: &ModuleRecord, change: impl FnOnce()) -> Artifact {
    let mut harvest = Harvest::new();
    harvest.held_count = MAX_HELD;
    harvest.see(record);
    change();
    finished(harvest)
}

fn refusal(artifact: &Artifact) -> &str {
    assert!(artifact.modules().is_empty());
    match artifact.refused_modules() {
        [refused] => &refused.reason,
        other => panic!("{other:?}"),
    }
}

fn file_in(folder: &TempDir, name: &[u8], bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(OsStr::from_bytes(name));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_file_is_taken_with_its_sections() {
    let folder = TempDir::new().unwrap();
    let bytes = elf(Some(&ID));
    let path = file_in(&folder, b"program", &bytes);
    let mapped = mapping_of(&path, Some(&ID));
    let artifact = after(&mapped, || {});
    let [module] = artifact.modules() else {
        panic!("{:?}", artifact.refused_modules());
    };
    assert_eq!(module.key, ModuleKey::BuildId(BuildId(ID.to_vec())));
    assert_eq!(module.file_bytes, bytes.len() as u64);
    assert_eq!(module.elf_type, 2);
    assert_eq!(artifact.module_of(mapping(&mapped)), Some(module.id));
    let names: Vec<&str> = module
        .sections
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, [".note.gnu.build-id", ".symtab", ".strtab"]);
    let symbols = &module.sections[1];
    assert_eq!(symbols.link.as_deref(), Some(".strtab"));
    assert_eq!(symbols.entry_bytes, 24);
    let start = symbols.file_offset.0 as usize;
    assert_eq!(
        artifact.section(module.id, ".symtab").unwrap().unwrap(),
        bytes[start..start + symbols.len as usize]
    );
}

#[test]
fn paths_are_bytes_and_may_end_like_an_unlinked_file() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"a\nb <i>\xff (deleted)", &elf(Some(&ID)));
    for artifact in [
        after(&mapping_of(&path, Some(&ID)), || {}),
        after_without_descriptor(&mapping_of(&path, Some(&ID)), || {}),
    ] {
        let [module] = artifact.modules() else {
            panic!("{:?}", artifact.refused_modules());
        };
        assert_eq!(module.mapped_as[0].path, path.as_os_str().as_bytes());
    }
}

#[test]
fn a_file_that_is_unlinked_while_the_program_runs_is_taken() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"program", &elf(None));
    let artifact = after(&mapping_of(&path, None), || {
        std::fs::remove_file(&path).unwrap();
    });
    assert_eq!(artifact.modules().len(), 1);
    assert!(matches!(artifact.modules()[0].key, ModuleKey::Content(_)));
}

#[test]
fn a_file_that_vanished_before_it_was_held_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"program", &elf(Some(&ID)));
    let artifact = after_without_descriptor(&mapping_of(&path, Some(&ID)), || {
        std::fs::remove_file(&path).unwrap();
    });
    assert!(refusal(&artifact).contains("No such file"));
}

#[test]
fn another_build_at_the_path_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"program", &elf(Some(&ID)));
    let artifact = after_without_descriptor(&mapping_of(&path, Some(&ID)), || {
        std::fs::remove_file(&path).unwrap();
        file_in(&folder, b"program", &elf(Some(&[0xcd; 20])));
    });
    let reason = refusal(&artifact);
    assert!(reason.starts_with("changed since it was mapped: build id cdcd"));
    assert!(reason.ends_with("was abababababababababababababababababababab"));
}

#[test]
fn without_a_build_id_the_inode_and_the_time_of_writing_decide() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"program", &elf(None));
    let elsewhere = file_in(&folder, b"other", &elf(None));
    let replaced = after_without_descriptor(&mapping_of(&path, None), || {
        std::fs::rename(&elsewhere, &path).unwrap();
    });
    assert!(refusal(&replaced).starts_with("another file is there now: inode"));

    let rewritten = after(&mapping_of(&path, None), || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        file_in(&folder, b"program", &elf(None));
    });
    assert_eq!(refusal(&rewritten), "written to after it was mapped");
}

#[test]
fn an_equal_build_id_outweighs_a_different_device_number() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"program", &elf(Some(&ID)));
    let file = FileIdentity {
        device: (0, 99),
        inode: 12_345,
        generation: 1,
        build_id: Some(BuildId(ID.to_vec())),
    };
    let artifact = after(&record(path.as_os_str().as_bytes(), file), || {});
    assert_eq!(artifact.modules().len(), 1);
}

#[test]
fn one_file_under_two_names_is_one_module_and_a_stripped_copy_is_not() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"program", &elf(Some(&ID)));
    let link = folder.path().join("link");
    std::fs::hard_link(&path, &link).unwrap();
    let stripped = file_in(&folder, b"stripped", &image(&[0x90; 64], &[], Some(&ID)));
    let mut harvest = Harvest::new();
    for path in [&path, &link, &stripped, &path] {
        harvest.see(&mapping_of(path, Some(&ID)));
    }
    let artifact = finished(harvest);
    let names: Vec<usize> = artifact
        .modules()
        .iter()
        .map(|module| module.mapped_as.len())
        .collect();
    assert_eq!(names, [2, 1]);
}

#[test]
fn what_is_no_elf_file_is_refused_and_anonymous_memory_is_not_looked_at() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"code.dump", b"JIT code");
    let mut harvest = Harvest::new();
    harvest.see(&record(b"//anon", FileIdentity::default()));
    harvest.see(&record(b"[uprobes]", FileIdentity::default()));
    harvest.see(&mapping_of(&path, None));
    assert!(refusal(&finished(harvest)).starts_with("not an ELF file"));
}

#[test]
fn a_pipe_at_the_path_is_not_opened() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    // Opening a pipe for reading would wait for a writer for ever.
    let artifact = after(&mapping_of(&path, Some(&ID)), || {});
    assert!(refusal(&artifact).contains("not a regular file"));
}

#[test]
fn sections_outside_of_the_file_and_doubled_ones_are_noted() {
    let mut bytes = elf(Some(&ID));
    // .shstrtab is the last header; 64 bytes each, the size at 32.
    let headers = bytes.len() - 6 * 64;
    let symbols = headers + 3 * 64;
    bytes[symbols + 32..symbols + 40].copy_from_slice(&u64::MAX.to_le_bytes());
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"broken", &bytes);
    let artifact = after(&mapping_of(&path, Some(&ID)), || {});
    let [module] = artifact.modules() else {
        panic!("{:?}", artifact.refused_modules());
    };
    assert!(
        module
            .notes
            .contains(&".symtab lies outside of the file".to_owned())
    );
    assert!(module.sections.iter().all(|one| one.name != ".symtab"));
}

#[test]
fn the_vdso_is_taken_from_memory_beside_a_program_with_an_odd_name() {
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"odd\n\xff", &elf(Some(&ID)));
    // It is mapped into this very process while it is read.
    let mut odd = Harvest::new();
    odd.see(&mapping_of(&path, Some(&ID)));
    odd.see(&record(b"[vdso]", FileIdentity::default()));
    assert_eq!(finished(odd).refused_modules(), []);

    let artifact = after(&record(b"[vdso]", FileIdentity::default()), || {});
    if let Err(error) = vdso::read() {
        println!("skipped: {error}");
        return;
    }
    let [module] = artifact.modules() else {
        panic!("{:?}", artifact.refused_modules());
    };
    assert!(module.sections.iter().any(|one| one.name == ".eh_frame"));
}

#[test]
fn files_beyond_the_bound_are_counted() {
    let mut harvest = Harvest::new();
    for inode in 0..=MAX_FILES as u64 {
        let file = FileIdentity {
            inode: inode + 1,
            ..FileIdentity::default()
        };
        harvest.see(&record(b"/nowhere/at/all", file));
    }
    assert_eq!(harvest.files.len(), MAX_FILES);
    assert_eq!(harvest.ignored_count, 1);
}

#[test]
fn another_file_mapped_at_the_same_addresses_is_not_taken_for_the_first() {
    // What stands where the record says is this test's own code.
    let maps = std::fs::read("/proc/self/maps").unwrap();
    let maps = String::from_utf8_lossy(&maps);
    let line = maps.lines().find(|line| line.contains(" r-xp ")).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let (start, end) = (
        u64::from_str_radix(start, 16).unwrap(),
        u64::from_str_radix(end, 16).unwrap(),
    );
    let folder = TempDir::new().unwrap();
    let path = file_in(&folder, b"program", &elf(None));
    let mut record = mapping_of(&path, None);
    if let ModuleEvent::Map(mapping) = &mut record.event {
        mapping.start = Avma(start);
        mapping.len = end - start;
    }
    let artifact = after(&record, || {});
    let [module] = artifact.modules() else {
        panic!("{:?}", artifact.refused_modules());
    };
    assert_eq!(module.file_bytes, elf(None).len() as u64);
}
