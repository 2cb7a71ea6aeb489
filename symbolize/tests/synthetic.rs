//! Unwind tables made byte by byte, for both architectures: rules that no
//! compiler at hand emits, and tables that are wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use memtrack_artifact::{
    Architecture, Artifact, ArtifactWriter, Avma, ByteString, Ending, FileIdentity, FileOffset,
    Header, Losses, MappedFile, Mapping, Module, ModuleEvent, ModuleId, ModuleKey, ModuleRecord,
    Pid, SectionInfo, Segment, Silent, StackForm, StackId, StackRecord, Svma, Symbols, Termination,
    Tid,
};
use memtrack_symbolize::{Options, symbolize};

const FILE: &[u8] = b"/lib/made.so";
/// Where the module's code is mapped; its addresses begin at 0.
const BASE: u64 = 0x7000_0000_0000;
const STACK: u64 = 0x7ffc_0000_0000;

/// DWARF call frame instructions (DWARF 5, section 6.4.2).
mod cfa {
    pub(crate) fn def_cfa(register: u8, offset: u8) -> Vec<u8> {
        vec![0x0c, register, offset]
    }
    pub(crate) fn def_cfa_offset(offset: u8) -> Vec<u8> {
        vec![0x0e, offset]
    }
    pub(crate) fn offset(register: u8, words: u8) -> Vec<u8> {
        vec![0x80 | register, words]
    }
    pub(crate) fn undefined(register: u8) -> Vec<u8> {
        vec![0x07, register]
    }
    pub(crate) fn advance(bytes: u8) -> Vec<u8> {
        vec![0x40 | bytes]
    }
    pub(crate) fn def_cfa_expression(operations: &[u8]) -> Vec<u8> {
        [&[0x0f, operations.len() as u8], operations].concat()
    }
    pub(crate) fn val_expression(register: u8, operations: &[u8]) -> Vec<u8> {
        [&[0x16, register, operations.len() as u8], operations].concat()
    }
    pub(crate) fn expression(register: u8, operations: &[u8]) -> Vec<u8> {
        [&[0x10, register, operations.len() as u8], operations].concat()
    }
}

/// A module: functions with their own instructions, after common ones.
struct Made {
    architecture: Architecture,
    section: &'static str,
    functions: Vec<(u64, u64, bool, Vec<u8>)>,
    symbols: Vec<(&'static str, u64, u64)>,
}

const X86_64: Architecture = Architecture::X86_64;
const AARCH64: Architecture = Architecture::Aarch64;

impl Made {
    fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            section: ".eh_frame",
            functions: Vec::new(),
            symbols: Vec::new(),
        }
    }

    fn function(mut self, start: u64, len: u64, instructions: &[Vec<u8>]) -> Self {
        self.functions
            .push((start, len, false, instructions.concat()));
        self
    }

    fn signal_function(mut self, start: u64, len: u64, instructions: &[Vec<u8>]) -> Self {
        self.functions
            .push((start, len, true, instructions.concat()));
        self
    }

    fn symbol(mut self, name: &'static str, start: u64, len: u64) -> Self {
        self.symbols.push((name, start, len));
        self
    }

    /// CIEs and FDEs with absolute pointers.
    fn unwind_section(&self) -> Vec<u8> {
        let eh = self.section == ".eh_frame";
        let (return_address, common) = match self.architecture {
            // CFA = rsp + 8, return address at CFA - 8.
            Architecture::X86_64 => (16, [cfa::def_cfa(7, 8), cfa::offset(16, 1)].concat()),
            // CFA = sp.
            Architecture::Aarch64 => (30, cfa::def_cfa(31, 0)),
        };
        let mut out = Vec::new();
        let mut cies = Vec::new();
        for signal in [false, true] {
            cies.push(out.len());
            let augmentation: &[u8] = if signal { b"S\0" } else { b"\0" };
            // Version 1; code alignment 1, data alignment -8.
            let body = [&[1], augmentation, &[1, 0x78, return_address], &common].concat();
            let id = if eh { 0_u32 } else { u32::MAX };
            entry(&mut out, id, &body);
        }
        for (start, len, signal, instructions) in &self.functions {
            let cie = cies[usize::from(*signal)];
            // .eh_frame counts back from this field; .debug_frame is absolute.
            let pointer = if eh { out.len() + 4 - cie } else { cie };
            let body = [&start.to_le_bytes(), &len.to_le_bytes(), &instructions[..]].concat();
            entry(&mut out, pointer as u32, &body);
        }
        out
    }

    fn artifact(&self, stacks: &[Taken]) -> Artifact {
        let header = Header {
            memtrack_version: "test".into(),
            architecture: self.architecture,
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
        let mut symtab = vec![0; 24];
        let mut strtab = vec![0];
        for (name, start, len) in &self.symbols {
            symtab.extend((strtab.len() as u32).to_le_bytes());
            symtab.extend([0x12, 0, 1, 0]);
            symtab.extend(start.to_le_bytes());
            symtab.extend(len.to_le_bytes());
            strtab.extend(name.as_bytes());
            strtab.push(0);
        }
        let section = |name: &str, link: Option<&str>| SectionInfo {
            name: name.into(),
            kind: 1,
            flags: 0,
            address: Svma(0),
            file_offset: FileOffset(0),
            len: 0,
            entry_bytes: 0,
            link: link.map(Into::into),
        };
        let file = MappedFile {
            path: FILE.to_vec(),
            file: FileIdentity::default(),
        };
        let module = Module {
            id: ModuleId(0),
            key: ModuleKey::Content([0; 16]),
            mapped_as: vec![file],
            machine: match self.architecture {
                Architecture::X86_64 => 62,
                Architecture::Aarch64 => 183,
            },
            elf_type: 3,
            file_bytes: 0x10000,
            segments: vec![Segment {
                kind: 1,
                flags: 5,
                file_offset: FileOffset(0),
                address: Svma(0),
                file_bytes: 0x10000,
                memory_bytes: 0x10000,
            }],
            sections: vec![
                section(self.section, None),
                section(".symtab", Some(".strtab")),
                section(".strtab", None),
            ],
            debug_files: Vec::new(),
            notes: Vec::new(),
        };
        writer
            .module(module, &[&self.unwind_section(), &symtab, &strtab])
            .unwrap();
        let map = Mapping {
            start: Avma(BASE),
            len: 0x10000,
            file_offset: FileOffset(0),
            protection: 5,
            file: FileIdentity::default(),
            path: FILE.to_vec(),
        };
        writer
            .module_record(&ModuleRecord {
                time_ns: 1,
                pid: Pid(1),
                tid: Tid(1),
                event: ModuleEvent::Map(map),
            })
            .unwrap();
        for (id, stack) in (0..).zip(stacks) {
            let window: Vec<u8> = stack
                .words
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            writer
                .stack(&StackRecord {
                    id: StackId(id),
                    pid: Pid(1),
                    tid: Tid(1),
                    time_ns: 2,
                    form: stack.form,
                    registers: &stack.registers,
                    stack_pointer: Avma(STACK),
                    window: &window,
                    available_bytes: window.len() as u64,
                    frame_pointer_chain: &stack.chain,
                })
                .unwrap();
        }
        let ending = Ending {
            end_monotonic_ns: 3,
            status: None,
            root_pid: None,
            null_frees: 0,
        };
        let (bytes, _) = writer.finish(&Losses::default(), &ending).unwrap();
        Artifact::from_bytes("made", bytes).unwrap()
    }

    /// Addresses of the frames of one stack, with their signal marks, and its
    /// end.
    fn walk(&self, stack: Taken) -> (Vec<(u64, bool)>, Termination) {
        let symbols = self.symbols(&[stack]);
        let frames = symbols.stack(StackId(0)).iter();
        let frames = frames
            .map(|id| symbols.frame(*id).unwrap())
            .map(|frame| (frame.address.0, frame.signal));
        (frames.collect(), symbols.stacks[0].termination)
    }

    fn symbols(&self, stacks: &[Taken]) -> Symbols {
        symbolize(&self.artifact(stacks), &Options::default(), &Silent).unwrap()
    }
}

/// A length, an id or CIE pointer, a body, padded with DW_CFA_nop.
fn entry(out: &mut Vec<u8>, id: u32, body: &[u8]) {
    let len = (4 + body.len()).next_multiple_of(8);
    out.extend((len as u32).to_le_bytes());
    out.extend(id.to_le_bytes());
    out.extend(body);
    out.resize(out.len() + len - 4 - body.len(), 0);
}

/// A stack as taken.
struct Taken {
    registers: Vec<u64>,
    words: Vec<u64>,
    chain: Vec<u64>,
    form: StackForm,
}

fn taken(architecture: Architecture, pc: u64, words: &[u64]) -> Taken {
    let (count, sp, at) = match architecture {
        Architecture::X86_64 => (17, 7, 16),
        Architecture::Aarch64 => (33, 31, 32),
    };
    let mut registers = vec![0; count];
    registers[sp] = STACK;
    registers[at] = BASE + pc;
    Taken {
        registers,
        words: words.to_vec(),
        chain: Vec::new(),
        form: StackForm::Raw,
    }
}

impl Taken {
    fn with(mut self, register: usize, value: u64) -> Self {
        self.registers[register] = value;
        self
    }
}

fn plain(addresses: &[u64]) -> Vec<(u64, bool)> {
    addresses.iter().map(|address| (*address, false)).collect()
}

#[test]
fn aarch64_keeps_return_addresses_in_the_link_register_or_beside_the_frame_pointer() {
    // leaf:                   x30 is the return address
    // 0x200 stp x29,x30,[sp,-32]!; mov x29,sp
    // 0x300 sub sp,sp,16; str x30,[sp]    (no frame pointer)
    // 0x400 the root
    let made = Made::new(AARCH64)
        .function(0x100, 0x10, &[])
        .function(
            0x200,
            0x40,
            &[
                cfa::advance(4),
                cfa::def_cfa_offset(32),
                cfa::offset(29, 4),
                cfa::offset(30, 3),
                cfa::advance(4),
                cfa::def_cfa(29, 32),
            ],
        )
        .function(
            0x300,
            0x40,
            &[cfa::advance(4), cfa::def_cfa_offset(16), cfa::offset(30, 2)],
        )
        .function(0x400, 0x40, &[cfa::undefined(30)]);
    // A pointer authentication code stands in the high bits.
    let signed = 0x00a5_0000_0000_0000;
    let stack = taken(
        AARCH64,
        0x104,
        &[0x1111, (BASE + 0x320) | signed, 0, 0, BASE + 0x410, 0],
    )
    .with(29, STACK)
    .with(30, BASE + 0x210);
    let (frames, end) = made.walk(stack);
    assert_eq!(frames, plain(&[0x104, 0x20f, 0x31f, 0x40f]));
    assert_eq!(end, Termination::Root);
}

#[test]
fn aarch64_signal_frames_are_known_by_the_name_of_their_trampoline() {
    let made = Made::new(AARCH64)
        .function(0x100, 0x10, &[])
        .function(0x400, 0x40, &[cfa::undefined(30)])
        .symbol("__kernel_rt_sigreturn", 0x800, 8);
    // siginfo (128 bytes), ucontext up to uc_mcontext (176), fault address.
    let mut words = vec![0; (128 + 176 + 8) / 8];
    let mut saved = [0; 33];
    saved[30] = BASE + 0x410;
    saved[31] = STACK + 0x1000;
    saved[32] = BASE + 0x100;
    words.extend(saved);
    // The handler returns to the trampoline. The interrupted leaf is at its
    // first instruction, its caller in the link register.
    let stack = taken(AARCH64, 0x108, &words).with(30, BASE + 0x800);
    let (frames, end) = made.walk(stack);
    assert_eq!(
        frames,
        [
            (0x108, false),
            (0x800, true),
            (0x100, false),
            (0x40f, false)
        ]
    );
    assert_eq!(end, Termination::Root);
}

#[test]
fn x86_64_signal_frames_without_a_description_are_known_by_name() {
    let made = Made::new(X86_64)
        .function(0x100, 0x10, &[])
        .function(0x400, 0x40, &[cfa::undefined(16)])
        .symbol("__restore_rt", 0x800, 9);
    // Return address into the trampoline, then the ucontext: 40 bytes up to
    // r8 ... r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    let mut words = vec![BASE + 0x800, 0, 0, 0, 0, 0];
    let mut saved = [0; 17];
    saved[15] = STACK + 8 * (1 + 5 + 17);
    saved[16] = BASE + 0x100;
    words.extend(saved);
    words.push(BASE + 0x410);
    let (frames, end) = made.walk(taken(X86_64, 0x104, &words));
    assert_eq!(
        frames,
        [
            (0x104, false),
            (0x800, true),
            (0x100, false),
            (0x40f, false)
        ]
    );
    assert_eq!(end, Termination::Root);
}

#[test]
fn a_call_that_never_returns_before_a_trampoline_is_no_signal_frame() {
    let made = Made::new(X86_64)
        .function(0x100, 0x10, &[])
        .function(0x200, 0x10, &[cfa::def_cfa_offset(16)])
        .signal_function(0x210, 0x10, &[])
        .function(0x400, 0x40, &[cfa::undefined(16)]);
    // The return address 0x210 is past the end of the function at 0x200.
    let words = [BASE + 0x210, 0, BASE + 0x410];
    let (frames, end) = made.walk(taken(X86_64, 0x104, &words));
    assert_eq!(frames, plain(&[0x104, 0x20f, 0x40f]));
    assert_eq!(end, Termination::Root);
}

#[test]
fn a_procedure_linkage_table_has_another_frame_in_its_second_half() {
    // DW_OP_breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus
    let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    let made = Made::new(X86_64)
        .function(0x100, 0x100, &[cfa::def_cfa_expression(&plt)])
        .function(0x400, 0x40, &[cfa::undefined(16)]);
    for (pc, words) in [(0x106, vec![BASE + 0x410]), (0x10b, vec![7, BASE + 0x410])] {
        let (frames, end) = made.walk(taken(X86_64, pc, &words));
        assert_eq!(frames, plain(&[pc, 0x40f]));
        assert_eq!(end, Termination::Root);
    }
}

#[test]
fn values_come_from_expressions_and_other_registers() {
    // The CFA is the word at r12 (DW_OP_breg12 0, deref); r12 itself comes from
    // the word at CFA - 24 (the CFA lies on the expression's stack: const1u 24,
    // minus), rbx is CFA - 32, a value (const1u 32, minus).
    let odd = [
        cfa::def_cfa_expression(&[0x7c, 0, 0x06]),
        cfa::expression(12, &[0x08, 24, 0x1c]),
        cfa::val_expression(3, &[0x08, 32, 0x1c]),
    ];
    // The next frame counts its CFA from rbx.
    let made = Made::new(X86_64)
        .function(0x100, 0x40, &odd)
        .function(0x200, 0x40, &[cfa::def_cfa(3, 56)])
        .function(0x400, 0x40, &[cfa::undefined(16)]);
    let words = [
        STACK + 0x30, // the CFA, where r12 points
        0,
        0,
        0,
        0,
        BASE + 0x210, // CFA - 8
        0,
        0,
        BASE + 0x410, // rbx + 56 - 8: rbx is STACK + 0x10
    ];
    let (frames, end) = made.walk(taken(X86_64, 0x110, &words).with(12, STACK));
    assert_eq!(frames, plain(&[0x110, 0x20f, 0x40f]));
    assert_eq!(end, Termination::Root);
}

#[test]
fn a_register_saved_below_the_stack_pointer_keeps_its_value() {
    // An epilogue: rbp is popped already, the table still names its slot.
    let made = Made::new(X86_64)
        .function(0x100, 0x40, &[cfa::offset(6, 2)])
        .function(0x200, 0x40, &[cfa::def_cfa(6, 16)])
        .function(0x400, 0x40, &[cfa::undefined(16)]);
    let words = [BASE + 0x210, 0, 0, 0, BASE + 0x410];
    let (frames, end) = made.walk(taken(X86_64, 0x110, &words).with(6, STACK + 0x18));
    assert_eq!(frames, plain(&[0x110, 0x20f, 0x40f]));
    assert_eq!(end, Termination::Root);
}

#[test]
fn debug_frame_answers_where_eh_frame_is_missing() {
    let mut made = Made::new(X86_64)
        .function(0x100, 0x40, &[cfa::def_cfa_offset(16)])
        .function(0x400, 0x40, &[cfa::undefined(16)]);
    made.section = ".debug_frame";
    let (frames, end) = made.walk(taken(X86_64, 0x110, &[0, BASE + 0x410]));
    assert_eq!(frames, plain(&[0x110, 0x40f]));
    assert_eq!(end, Termination::Root);
}

#[test]
fn stacks_end_with_the_reason_that_is_true() {
    let made = Made::new(X86_64)
        .function(0x100, 0x40, &[])
        .function(0x200, 0x40, &[cfa::def_cfa(6, 16)])
        .function(0x300, 0x40, &[cfa::def_cfa(40, 8)])
        .symbol("_start", 0x600, 0x20);
    let ends = |pc, words: &[u64]| made.walk(taken(X86_64, pc, words).with(6, STACK - 64));
    // Return address 0: a thread made by hand.
    assert_eq!(ends(0x110, &[0]), (plain(&[0x110]), Termination::Root));
    // Code without a rule.
    assert_eq!(
        ends(0x110, &[BASE + 0x500]),
        (plain(&[0x110, 0x4ff]), Termination::NoRule)
    );
    // The same, named _start.
    assert_eq!(
        ends(0x110, &[BASE + 0x610]),
        (plain(&[0x110, 0x60f]), Termination::Root)
    );
    // A word that is no code address is no frame.
    assert_eq!(
        ends(0x110, &[0x1234]),
        (plain(&[0x110]), Termination::NoModule)
    );
    // The CFA falls.
    assert_eq!(
        ends(0x110, &[BASE + 0x210, 0]),
        (plain(&[0x110, 0x20f]), Termination::ReadFailed)
    );
    // A register that is not known.
    assert_eq!(
        ends(0x310, &[0]),
        (plain(&[0x310]), Termination::ReadFailed)
    );
    // Nothing was copied.
    assert_eq!(
        ends(0x110, &[]),
        (
            plain(&[0x110]),
            Termination::CopyTooShort { needed_bytes: 8 }
        )
    );
}

#[test]
fn a_frame_that_does_not_grow_ends_the_stack() {
    let made =
        Made::new(X86_64)
            .function(0x100, 0x40, &[])
            .function(0x200, 0x40, &[cfa::def_cfa(6, 16)]);
    // rbp points at the first frame again and again.
    let stack = taken(X86_64, 0x110, &[BASE + 0x210, BASE + 0x220]).with(6, STACK - 8);
    assert_eq!(
        made.walk(stack),
        (plain(&[0x110, 0x20f]), Termination::NoProgress)
    );
}

#[test]
fn signal_frames_that_restore_themselves_end() {
    let made = Made::new(X86_64).symbol("__restore_rt", 0x800, 9);
    let mut words = vec![0; 5 + 17];
    words[5 + 15] = STACK;
    words[5 + 16] = BASE + 0x800;
    let (frames, end) = made.walk(taken(X86_64, 0x800, &words));
    assert_eq!(frames, [(0x800, true)]);
    assert_eq!(end, Termination::NoProgress);
}

#[test]
fn the_chain_of_frame_pointers_is_used_where_unwinding_gives_nothing_and_is_marked() {
    let made = Made::new(X86_64).function(0x100, 0x40, &[]);
    let chain = vec![BASE + 0x500, BASE + 0x110, BASE + 0x120];
    let mut raw = taken(X86_64, 0x500, &[1, 2, 3]);
    raw.chain = chain.clone();
    let mut only = taken(X86_64, 0x500, &[]);
    only.form = StackForm::FramePointer;
    only.chain = chain;
    let symbols = made.symbols(&[raw, only]);
    for (id, end) in [(0, Termination::NoRule), (1, Termination::FramePointerOnly)] {
        let frames: Vec<_> = symbols
            .stack(StackId(id))
            .iter()
            .map(|id| symbols.frame(*id).unwrap())
            .collect();
        assert!(frames.iter().all(|frame| frame.frame_pointer));
        let addresses: Vec<u64> = frames.iter().map(|frame| frame.address.0).collect();
        assert_eq!(addresses, [0x500, 0x10f, 0x11f]);
        assert_eq!(symbols.stacks[id as usize].termination, end);
    }
}

#[test]
fn overlapping_descriptions_are_ruled_by_the_one_that_begins_first() {
    let made = Made::new(X86_64)
        .function(0x100, 0x40, &[cfa::def_cfa_offset(16)])
        .function(0x120, 0x40, &[cfa::def_cfa_offset(24)])
        .function(0x400, 0x40, &[cfa::undefined(16)]);
    let root = BASE + 0x410;
    let (frames, _) = made.walk(taken(X86_64, 0x130, &[0, root, 0]));
    assert_eq!(frames, plain(&[0x130, 0x40f]));
    let (frames, _) = made.walk(taken(X86_64, 0x150, &[0, 0, root]));
    assert_eq!(frames, plain(&[0x150, 0x40f]));
}
