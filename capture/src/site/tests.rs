//! The sites of this machine's C library, tried on the running process: each
//! must fire once per call, find the arguments where it says, and leave the
//! registers alone that a function has to preserve.

#![allow(unsafe_code)]

use super::*;
use crate::doctor::{
    trial::{self, Kind, MAP_LOOKUP_ELEM, PSEUDO_MAP_FD, Scope, instruction},
    trials::perf_kind,
};
use libbpf_rs::libbpf_sys as sys;
use perf_event_open_sys::bindings::perf_event_attr;
use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd, OwnedFd},
    process::Command,
};

/// Set in the process that is probed: it has no other threads that allocate.
const CHILD: &str = "MEMTRACK_TEST_PROBED";
const CALLS: u64 = 50;

// memtrack_test_call(function, arguments, results): calls a function of up to
// three arguments with known values in the registers that it must preserve,
// and stores its result and those registers.
std::arch::global_asm!(
    ".globl memtrack_test_call",
    "memtrack_test_call:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push rdx",
    "mov r10, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov ebx, 0xb0",
    "mov ebp, 0xb1",
    "mov r12d, 0xb2",
    "mov r13d, 0xb3",
    "mov r14d, 0xb4",
    "mov r15d, 0xb5",
    "call r10",
    "pop r11",
    "mov [r11], rax",
    "mov [r11 + 8], rbx",
    "mov [r11 + 16], rbp",
    "mov [r11 + 24], r12",
    "mov [r11 + 32], r13",
    "mov [r11 + 40], r14",
    "mov [r11 + 48], r15",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    fn memtrack_test_call(function: u64, arguments: *const u64, results: *mut u64);
}

/// Calls a function of the C library; its result.
fn call(function: u64, arguments: [u64; 3]) -> u64 {
    let mut results = [0u64; 7];
    // SAFETY: `function` is an allocator function of the C library that this
    // process uses, and the arguments are as its prototype wants them.
    unsafe { memtrack_test_call(function, arguments.as_ptr(), results.as_mut_ptr()) };
    assert_eq!(
        results[1..],
        [0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5],
        "a preserved register is changed"
    );
    results[0]
}

/// Offset in `struct pt_regs` (arch/x86/include/uapi/asm/ptrace.h) by DWARF
/// number.
fn saved_at(register: Register) -> i16 {
    const ORDER: [u8; 15] = [15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5];
    let position = ORDER.iter().position(|one| *one == register.0).unwrap();
    position as i16 * 8
}

/// A program that counts its hits and stores three registers behind the count.
fn load(map: &OwnedFd, registers: [Register; 3]) -> io::Result<OwnedFd> {
    let mut program = vec![
        instruction(0xbf, 6, 1, 0, 0), // r6 = context
        instruction(0x62, 10, 0, -4, 0),
        instruction(0xbf, 2, 10, 0, 0),
        instruction(0x07, 2, 0, 0, -4),
        instruction(0x18, 1, PSEUDO_MAP_FD, 0, map.as_raw_fd()),
        0,
        instruction(0x85, 0, 0, 0, MAP_LOOKUP_ELEM),
        instruction(0x15, 0, 0, 8, 0), // no element: to the end
        instruction(0xb7, 1, 0, 0, 1),
        instruction(0xdb, 0, 1, 0, 0),
    ];
    for (index, register) in (1i16..).zip(registers) {
        program.push(instruction(0x79, 1, 6, saved_at(register), 0));
        program.push(instruction(0x7b, 0, 1, index * 8, 0));
    }
    program.push(instruction(0xb7, 0, 0, 0, 0));
    program.push(instruction(0x95, 0, 0, 0, 0));
    let kind = Kind {
        program: sys::BPF_PROG_TYPE_KPROBE,
        ..Kind::default()
    };
    trial::load_instructions(kind, &program)
}

/// A probe on this process that is there until it is dropped.
struct Probe {
    map: OwnedFd,
    _link: OwnedFd,
}

impl Probe {
    fn new(
        path: &CString,
        offset: FileOffset,
        registers: [Register; 3],
        at_return: bool,
    ) -> io::Result<Self> {
        let map = trial::map(sys::BPF_MAP_TYPE_ARRAY, 4, 32, 1)?;
        let program = load(&map, registers)?;
        let mut attr = perf_event_attr {
            type_: perf_kind("uprobe")?,
            config: u64::from(at_return),
            ..perf_event_attr::default()
        };
        attr.uprobe_path = path.as_ptr() as u64;
        attr.probe_offset = offset.0;
        let event = trial::perf_event(attr, Scope::OwnProcess)?;
        let link = trial::attach_perf(&program, &event)?;
        Ok(Self { map, _link: link })
    }

    /// Hits, and the registers of the last.
    fn read(&self) -> [u64; 4] {
        trial::read_element(&self.map)
    }
}

/// The C library's path, and where its first byte is mapped.
fn c_library() -> Option<(CString, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("/libc.so"))?;
    let path = CString::new(line.split_whitespace().last()?).unwrap();
    let fields: Vec<&str> = line.split_whitespace().collect();
    let start = u64::from_str_radix(fields[0].split_once('-')?.0, 16).unwrap();
    let offset = u64::from_str_radix(fields[2], 16).unwrap();
    Some((path, start - offset))
}

#[test]
fn every_site_of_the_c_library_fires_once_per_call_and_harms_nothing() {
    if std::env::var_os(CHILD).is_some() {
        probe_own_c_library();
        return;
    }
    if let Err(missing) = crate::doctor::bpf_permitted() {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "BPF is needed here: {missing}"
        );
        println!("skipped: {missing}");
        return;
    }
    let name = "site::tests::every_site_of_the_c_library_fires_once_per_call_and_harms_nothing";
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    print!("{text}");
    assert!(text.contains("functions were probed") || text.contains("skipped"));
}

fn probe_own_c_library() {
    let Some((path, base)) = c_library() else {
        println!("skipped: this test binary does not use a shared C library");
        return;
    };
    let bytes = std::fs::read(path.to_str().unwrap()).unwrap();
    let file = ElfFile::parse(&bytes).unwrap();
    let all = file.allocator_functions().unwrap();
    let address = |wanted| {
        let found = all.iter().find(|one| one.function == wanted).unwrap();
        base + found.offset.0
    };
    let (malloc, free) = (
        address(AllocatorFunction::Malloc),
        address(AllocatorFunction::Free),
    );
    let mut probed_count = 0;
    for one in &all {
        let Placement::Probe(site) = place(&file, one, &all) else {
            continue;
        };
        let entry = Probe::new(&path, site.entry, site.argument_registers, false).unwrap();
        let ret = site
            .ret
            .map(|ret| Probe::new(&path, ret, [Register(0); 3], true).unwrap());
        let mut blocks = vec![0u64; CALLS as usize];
        let mut expected = [0; 3];
        let mut result = 0;
        // Blocks to start with, before the hits are counted.
        use AllocatorFunction as F;
        if matches!(one.function, F::Realloc | F::Reallocarray | F::Free) {
            for block in &mut blocks {
                *block = call(malloc, [700, 0, 0]);
            }
        }
        let mut out = 0u64;
        let before = (entry.read()[0], ret.as_ref().map(|probe| probe.read()[0]));
        for (index, block) in blocks.iter_mut().enumerate() {
            let n = 700 + index as u64;
            expected = match one.function {
                F::Malloc | F::Valloc | F::Pvalloc => [n, 0, 0],
                F::Calloc => [3, n, 0],
                F::Realloc => [*block, n, 0],
                F::Reallocarray => [*block, 3, n],
                F::AlignedAlloc | F::Memalign => [64, n * 64, 0],
                F::PosixMemalign => [&raw mut out as u64, 64, n],
                F::Free => [*block, 0, 0],
            };
            result = call(base + one.offset.0, expected);
            if one.function == F::PosixMemalign {
                *block = out;
            } else if one.function != F::Free {
                *block = result;
            }
        }
        let hits = entry.read();
        let returned = ret.as_ref().map(Probe::read);
        drop((entry, ret));
        if one.function != F::Free {
            for block in &blocks {
                assert_ne!(*block, 0);
                call(free, [*block, 0, 0]);
            }
        }
        let name = one.names.join(",");
        println!("{name:<24} {} {hits:?}", site.instruction);
        assert_eq!(hits[0] - before.0, CALLS, "{name}: hits of the entry probe");
        if let (Some(returned), Some(before)) = (returned, before.1) {
            assert_eq!(
                returned[0] - before,
                CALLS,
                "{name}: hits of the return probe"
            );
            assert_eq!(returned[1], result, "{name}: the result");
        }
        if site.product {
            let [_, first, second] = match one.function {
                F::Calloc => [0, expected[0], expected[1]],
                _ => expected,
            };
            let at = if one.function == F::Calloc { 1 } else { 2 };
            assert_eq!(hits[at..at + 2], [first * second, 0], "{name}: the product");
        } else {
            let count = one.function.argument_count();
            assert_eq!(hits[1..=count], expected[..count], "{name}: the arguments");
        }
        probed_count += 1;
    }
    println!("{probed_count} functions were probed");
}
