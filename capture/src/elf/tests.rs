use super::*;
use crate::test_elf::{CODE_OFFSET, LOAD_BIAS, TestSymbol, function, image};

fn summary(bytes: &[u8]) -> Vec<(AllocatorFunction, Vec<String>, u64)> {
    allocator_functions(bytes)
        .unwrap()
        .into_iter()
        .map(|found| (found.function, found.names, found.offset.0 - CODE_OFFSET))
        .collect()
}

#[test]
fn names_at_one_address_are_one_function() {
    let file = image(
        &[0x90; 64],
        &[
            function("memalign", 32, 8),
            function("malloc@@GLIBC_2.2.5", 0, 8),
            function("aligned_alloc", 32, 8),
            function("cfree", 16, 8),
            function("free", 16, 8),
            function("mallopt", 48, 8),
        ],
        None,
    );
    assert_eq!(
        summary(&file),
        [
            (AllocatorFunction::Malloc, vec!["malloc".into()], 0),
            (
                AllocatorFunction::Free,
                vec!["cfree".into(), "free".into()],
                16
            ),
            (
                AllocatorFunction::AlignedAlloc,
                vec!["aligned_alloc".into(), "memalign".into()],
                32
            ),
        ]
    );
}

#[test]
fn an_offset_is_not_an_address() {
    let file = image(
        &[0x90; 64],
        &[function("malloc", 8, 8), function("free", 16, 8)],
        None,
    );
    let found = allocator_functions(&file).unwrap();
    assert_eq!(found[0].offset, FileOffset(CODE_OFFSET + 8));
    assert_eq!(found[0].address, Svma(LOAD_BIAS + CODE_OFFSET + 8));
}

#[test]
fn a_file_without_free_is_no_allocator() {
    let file = image(&[0x90; 64], &[function("malloc", 0, 8)], None);
    assert_eq!(summary(&file), []);
}

#[test]
fn resolvers_objects_and_addresses_outside_code_are_skipped() {
    let symbol = |info, at| TestSymbol {
        name: "calloc",
        info,
        at,
        len: 8,
    };
    for odd in [symbol(0x1a, 32), symbol(0x11, 32), symbol(0x12, 0x8000)] {
        let file = image(
            &[0x90; 64],
            &[function("malloc", 0, 8), function("free", 16, 8), odd],
            None,
        );
        assert_eq!(summary(&file).len(), 2);
    }
}

#[test]
fn a_build_id_is_read() {
    let id = [7; 20];
    let file = image(&[0x90; 16], &[], Some(&id));
    assert_eq!(
        ElfFile::parse(&file).unwrap().build_id(),
        Some(BuildId(id.to_vec()))
    );
    let without = image(&[0x90; 16], &[], None);
    assert_eq!(ElfFile::parse(&without).unwrap().build_id(), None);
}

#[test]
fn errors_say_what_the_file_is() {
    let error = |bytes: &[u8]| ElfFile::parse(bytes).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error(b"#!/bin/sh\nexec true\n"),
        "not an ELF file (it begins with [23, 21, 2f, 62])"
    );
    let mut i386 = image(&[0x90; 16], &[], None);
    i386[4] = 1;
    i386[18] = 3;
    assert!(error(&i386).contains("machine 3 (32 bits)"));
}

#[test]
fn broken_files_never_panic() {
    let whole = image(
        &[0x90; 64],
        &[function("malloc", 0, 8), function("free", 16, 8)],
        Some(&[1; 20]),
    );
    let read = |bytes: &[u8]| {
        if let Ok(file) = ElfFile::parse(bytes) {
            let _ = file.allocator_functions();
            let _ = file.build_id();
            let _ = file.soname();
        }
    };
    for len in (0..whole.len()).step_by(7) {
        read(&whole[..len]);
    }
    // Every byte of every header, set to values that overflow.
    let headers = (0..0x200).chain(CODE_OFFSET as usize + 64..whole.len());
    for at in headers {
        for value in [0x00, 0x7f, 0x80, 0xff] {
            let mut broken = whole.clone();
            broken[at] = value;
            read(&broken);
        }
    }
}

#[test]
fn the_c_library_of_this_machine_is_an_allocator_and_its_loader_is_not() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = |part: &str| {
        let line = maps.lines().find(|line| line.contains(part))?;
        line.split_whitespace().last().map(std::path::PathBuf::from)
    };
    let Some(libc) = mapped("/libc.so") else {
        println!("skipped: this test binary does not use a shared C library");
        return;
    };
    let bytes = std::fs::read(libc).unwrap();
    let found = allocator_functions(&bytes).unwrap();
    for function in [
        AllocatorFunction::Malloc,
        AllocatorFunction::Calloc,
        AllocatorFunction::Realloc,
        AllocatorFunction::PosixMemalign,
        AllocatorFunction::Free,
    ] {
        assert!(
            found.iter().any(|one| one.function == function),
            "{function:?}"
        );
    }
    let loader = std::fs::read(mapped("/ld-linux").unwrap()).unwrap();
    assert!(ElfFile::parse(&loader).unwrap().is_glibc_loader());
    assert_eq!(allocator_functions(&loader).unwrap(), []);
}
