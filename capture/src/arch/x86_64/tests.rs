use super::*;
use crate::{
    elf::AllocatorFunction,
    test_elf::{CODE_OFFSET, function, image},
};

const RAX: Register = Register(0);
const RDX: Register = Register(1);
const RBX: Register = Register(3);
const RSI: Register = Register(4);
const RDI: Register = Register(5);
const R12: Register = Register(12);

/// Places `name`, whose code comes first, in a file that also has a `malloc`
/// at 64, a `free` at 80 and a `realloc` at 96.
fn placed(name: &'static str, code: &[u8]) -> Placement {
    placed_with(name, code, &[])
}

fn placed_with(name: &'static str, code: &[u8], rest: &[u8]) -> Placement {
    let mut text = code.to_vec();
    text.resize(128, 0xcc);
    text.extend(rest);
    text.resize(4096, 0xcc);
    let symbols = [
        function(name, 0, code.len() as u64),
        function("malloc", 64, 16),
        function("free", 80, 16),
        function("realloc", 96, 16),
    ];
    let file = image(&text, &symbols, None);
    let file = ElfFile::parse(&file).unwrap();
    let all = file.allocator_functions().unwrap();
    let ours = all.iter().find(|one| one.offset.0 == CODE_OFFSET).unwrap();
    place(&file, ours, &all)
}

fn site(placement: Placement) -> (u64, Site) {
    match placement {
        Placement::Probe(site) => (site.entry.0 - CODE_OFFSET, site),
        Placement::TailJump { target } => panic!("a tail jump to {target:?}"),
    }
}

#[test]
fn an_emulated_first_instruction_is_taken_as_it_is() {
    // 0: 41 54     push %r12
    // 2: 53        push %rbx
    let (at, site) = site(placed("calloc", &[0x41, 0x54, 0x53, 0xc3]));
    assert_eq!(at, 0);
    assert_eq!(site.ret, Some(site.entry));
    assert_eq!(site.argument_registers[..2], [RDI, RSI]);
    assert_eq!(site.instruction, "push %r12");
    assert!(site.emulated && !site.product);
}

#[test]
fn glibc_free_is_probed_at_its_branch() {
    // 0: 48 85 ff            test %rdi,%rdi
    // 3: 0f 84 02 00 00 00   je   11
    // 9: 55                  push %rbp
    // a: c3                  ret
    // b: c3                  ret
    let code = [0x48, 0x85, 0xff, 0x0f, 0x84, 2, 0, 0, 0, 0x55, 0xc3, 0xc3];
    let (at, site) = site(placed("free", &code));
    assert_eq!(at, 3);
    assert_eq!(site.ret, None);
    assert_eq!(site.argument_registers[0], RDI);
    assert!(site.emulated);
}

#[test]
fn endbr64_and_flag_tests_are_stepped_over() {
    // 0: f3 0f 1e fa         endbr64
    // 4: 80 3d 00 00 00 00 0 cmpb $0,0(%rip)
    // b: 53                  push %rbx
    let code = [
        0xf3, 0x0f, 0x1e, 0xfa, 0x80, 0x3d, 0, 0, 0, 0, 0, 0x53, 0xc3,
    ];
    let (at, site) = site(placed("valloc", &code));
    assert_eq!(at, 11);
    assert_eq!(site.ret, Some(site.entry));
}

#[test]
fn copies_of_arguments_are_followed() {
    // 0: 48 89 fb   mov %rdi,%rbx
    // 3: 49 89 f4   mov %rsi,%r12
    // 6: 31 ff      xor %edi,%edi
    // 8: 89 f6      mov %esi,%esi     (cuts the upper half)
    // a: 74 00      je  c
    let code = [
        0x48, 0x89, 0xfb, 0x49, 0x89, 0xf4, 0x31, 0xff, 0x89, 0xf6, 0x74, 0, 0xc3,
    ];
    let (at, site) = site(placed("memalign", &code));
    assert_eq!(at, 10);
    assert_eq!(site.argument_registers[..2], [RBX, R12]);
}

#[test]
fn a_lost_argument_ends_in_the_symbol() {
    // 0: 89 ff   mov %edi,%edi
    // 2: 74 00   je  4
    let (at, site) = site(placed("valloc", &[0x89, 0xff, 0x74, 0, 0xc3]));
    assert_eq!(at, 0);
    assert!(!site.emulated);
    assert_eq!(site.instruction, "mov %edi, %edi");
    assert_eq!(site.ret, Some(site.entry));
}

#[test]
fn a_return_probe_never_follows_a_moved_stack_pointer() {
    // 0: 48 83 ec 18   sub $0x18,%rsp
    // 4: 48 85 ff      test %rdi,%rdi
    // 7: 74 00         je  9
    let code = [0x48, 0x83, 0xec, 0x18, 0x48, 0x85, 0xff, 0x74, 0, 0xc3];
    let (at, with_return) = site(placed("valloc", &code));
    assert_eq!((at, with_return.emulated), (0, false));
    // free has no return probe, and only notes how far the stack moved.
    let (at, entry_only) = site(placed("cfree", &code));
    assert_eq!((at, entry_only.emulated), (7, true));
    assert_eq!(entry_only.stack_pushed_bytes, 24);
    assert_eq!(entry_only.ret, None);
}

#[test]
fn the_product_of_reallocarray_is_understood() {
    // glibc 2.36:
    // 0: 48 89 f0         mov %rsi,%rax
    // 3: 48 f7 e2         mul %rdx
    // 6: 48 89 c6         mov %rax,%rsi
    // 9: 70 05            jo  10
    // b: e9 50 00 00 00   jmp realloc
    // 10: 31 c0           xor %eax,%eax
    // 12: c3              ret
    let code = [
        0x48, 0x89, 0xf0, 0x48, 0xf7, 0xe2, 0x48, 0x89, 0xc6, 0x70, 5, 0xe9, 0x50, 0, 0, 0, 0x31,
        0xc0, 0xc3,
    ];
    let (at, site) = site(placed("reallocarray", &code));
    assert_eq!(at, 9);
    assert!(site.product);
    assert_eq!(site.argument_registers, [RDI, RAX, RDX]);
}

#[test]
fn a_product_of_anything_else_loses_the_factors() {
    // 0: 48 89 f8   mov %rdi,%rax
    // 3: 48 f7 e2   mul %rdx        (not the second factor)
    // 6: 48 89 c7   mov %rax,%rdi
    // 9: 70 00      jo  b
    let code = [
        0x48, 0x89, 0xf8, 0x48, 0xf7, 0xe2, 0x48, 0x89, 0xc7, 0x70, 0, 0xc3,
    ];
    let (at, site) = site(placed("calloc", &code));
    assert_eq!((at, site.product), (0, false));
}

#[test]
fn a_loop_over_the_place_rules_it_out() {
    // 0: 48 85 ff   test %rdi,%rdi
    // 3: 74 02      je  7           ◀┐ the loop would count each round
    // 5: eb fc      jmp 3           ─┘
    // 7: c3         ret
    let (at, site) = site(placed(
        "free",
        &[0x48, 0x85, 0xff, 0x74, 2, 0xeb, 0xfc, 0xc3],
    ));
    assert_eq!((at, site.emulated), (0, false));
}

#[test]
fn a_far_cold_part_that_jumps_back_rules_it_out() {
    let code = [0x48, 0x85, 0xff, 0x74, 0, 0xc3];
    // At 128: e9 7e ff ff ff   jmp 3   (128 + 5 - 130)
    let back = [0xe9, 0x7e, 0xff, 0xff, 0xff, 0xcc];
    let (at, _) = site(placed_with("free", &code, &back));
    assert_eq!(at, 0);
    // At 128: jmp 0 is a call of the function like any other.
    let again = [0xe9, 0x7b, 0xff, 0xff, 0xff, 0xcc];
    let (at, _) = site(placed_with("free", &code, &again));
    assert_eq!(at, 3);
}

#[test]
fn a_pure_tail_jump_needs_no_probe() {
    // 0: f3 0f 1e fa      endbr64
    // 4: 48 89 fe         mov %rdi,%rsi
    // 7: bf 00 10 00 00   mov $4096,%edi
    // c: e9 2f 00 00 00   jmp 64 (malloc)
    let code = [
        0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xfe, 0xbf, 0, 0x10, 0, 0, 0xe9, 0x2f, 0, 0, 0,
    ];
    assert_eq!(
        placed("valloc", &code),
        Placement::TailJump {
            target: FileOffset(CODE_OFFSET + 64)
        }
    );
    // e9 5b 00 00 00   jmp 96 (realloc): that would end a block.
    let (at, site) = site(placed("valloc", &[0xe9, 0x5b, 0, 0, 0]));
    assert_eq!((at, site.emulated), (0, true));
}

#[test]
fn only_what_every_kernel_emulates_counts_as_cheap() {
    for cheap in [
        &[0x55][..],
        &[0x41, 0x57],
        &[0x90],
        &[0x66, 0x90],
        &[0xeb, 0],
        &[0x7f, 0],
        &[0xe8, 0, 0, 0, 0],
        &[0x0f, 0x8f, 0, 0, 0, 0],
    ] {
        assert!(is_emulated(cheap), "{cheap:02x?}");
    }
    for dear in [
        &[0x48, 0x55][..],         // push with REX.W
        &[0xff, 0x35, 0, 0, 0, 0], // push 0(%rip)
        &[0x6a, 0],                // push $0
        &[0x0f, 0x1f, 0x40, 0x00], // nopl 0(%rax)
        &[0xf3, 0x90],             // pause
        &[0xe3, 0],                // jrcxz
        &[0xe2, 0],                // loop
        &[0x66, 0xe9, 0, 0],       // jmpw: refused
        &[0xc3],                   // ret
        &[0xf3, 0x0f, 0x1e, 0xfa], // endbr64
        &[0xff, 0x25, 0, 0, 0, 0], // jmp *0(%rip)
    ] {
        assert!(!is_emulated(dear), "{dear:02x?}");
    }
}

#[test]
fn junk_never_panics() {
    let mut state = 1u64;
    for _ in 0..2000 {
        let code: Vec<u8> = (0..48)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let _ = placed("reallocarray", &code);
    }
}

/// Every function of this machine's C library, whatever it is: prints where
/// it is probed, and checks what must hold anywhere.
#[test]
fn the_c_library_of_this_machine_is_placed() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.contains("/libc.so")) else {
        println!("skipped: this test binary does not use a shared C library");
        return;
    };
    let bytes = std::fs::read(line.split_whitespace().last().unwrap()).unwrap();
    let file = ElfFile::parse(&bytes).unwrap();
    if file.architecture() != memtrack_artifact::Architecture::X86_64 {
        println!("skipped: not an x86_64 machine");
        return;
    }
    let all = file.allocator_functions().unwrap();
    for one in &all {
        let placement = place(&file, one, &all);
        println!("{:<28} {placement:?}", one.names.join(","));
        let Placement::Probe(site) = placement else {
            continue;
        };
        assert!(site.entry >= one.offset);
        assert_eq!(site.ret.is_some(), one.function != AllocatorFunction::Free);
        assert!(site.ret.is_none_or(|ret| ret == site.entry));
        assert!(!site.instruction.is_empty());
    }
}
