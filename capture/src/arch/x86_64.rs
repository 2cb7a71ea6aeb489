//! x86_64: the scan for the first emulated instruction.
//!
//! Facts about the kernel are from `arch/x86/kernel/uprobes.c`
//! (`branch_setup_xol_ops`, `push_setup_xol_ops`).

use crate::{
    arch::x86_values::Values,
    elf::{DefinedFunction, ElfFile},
    site::{Placement, Register, Site, counts_as},
};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction,
    InstructionInfoFactory, Mnemonic, OpKind, Register as Iced,
};
use memtrack_artifact::FileOffset;
use std::ops::RangeInclusive;

/// Instructions that the scan steps over at most. Prologues are shorter; what
/// comes later is no longer a prologue.
const MAX_STEPS: usize = 64;
/// Code searched for branches when the symbol states no size, bytes.
const UNSIZED_BYTES: u64 = 4096;
/// Code searched for branches at most, bytes.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;

/// System V psABI x86-64, 3.2.3: rdi, rsi, rdx by DWARF number.
const ARGUMENTS: [Register; 3] = [Register(5), Register(4), Register(1)];

/// See [`crate::site::place`].
pub(crate) fn place(
    file: &ElfFile<'_>,
    function: &DefinedFunction,
    probed: &[DefinedFunction],
) -> Placement {
    let len = match function.len {
        0 => UNSIZED_BYTES,
        len => len.min(MAX_FUNCTION_BYTES),
    };
    let code = file.code_at(function.offset, len).unwrap_or_default();
    let found = scan(code, function);
    if let Some(target) = found.jumps_to
        && target != function.offset
        && probed
            .iter()
            .any(|other| other.offset == target && counts_as(function.function, other.function))
    {
        return Placement::TailJump { target };
    }
    let site = found.site.filter(|site| {
        // (symbol, place]: what must run once, and in a straight line.
        let straight = function.offset.0.saturating_add(1)..=site.entry.0;
        !branches_within(code, function.offset, &straight)
            && !branches_from_outside(file, function.offset, code.len(), &straight)
    });
    Placement::Probe(site.unwrap_or_else(|| at_symbol(code, function)))
}

#[derive(Default)]
struct Found {
    /// The first emulated instruction, when everything is still there.
    site: Option<Site>,
    /// Where that instruction leads, when it is a jump out of the function
    /// without condition.
    jumps_to: Option<FileOffset>,
}

/// Follows the straight line from the symbol.
fn scan(code: &[u8], function: &DefinedFunction) -> Found {
    let start = function.offset.0;
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut info = InstructionInfoFactory::new();
    let mut values = Values::at_entry(function.function);
    let mut pushed_bytes = 0u32;

    for _ in 0..MAX_STEPS {
        if !decoder.can_decode() {
            break;
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        let position = (instruction.ip() - start) as usize;
        let encoded = code
            .get(position..position + instruction.len())
            .unwrap_or_default();
        let arguments = values.arguments();
        if is_emulated(encoded) {
            let site = arguments.map(|(argument_registers, product)| Site {
                entry: FileOffset(instruction.ip()),
                ret: (function.function.has_result() && pushed_bytes == 0)
                    .then_some(FileOffset(instruction.ip())),
                argument_registers,
                product,
                stack_pushed_bytes: pushed_bytes,
                instruction: text(&instruction),
                emulated: true,
            });
            let target = instruction.near_branch_target();
            let own = start..start.saturating_add(code.len() as u64);
            let leaves = instruction.flow_control() == FlowControl::UnconditionalBranch
                && pushed_bytes == 0
                && !own.contains(&target);
            return Found {
                site,
                jumps_to: leaves.then_some(FileOffset(target)),
            };
        }
        // An argument that is gone does not end the scan: a wrapper may have
        // replaced it before it jumps away.
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
        match stack_change(&mut info, &instruction) {
            StackChange::None => {}
            // Only an entry probe survives a moved stack pointer.
            StackChange::Pushed(bytes) if !function.function.has_result() => {
                pushed_bytes = pushed_bytes.saturating_add(bytes);
            }
            StackChange::Pushed(_) | StackChange::Unknown => break,
        }
        values.step(&mut info, &instruction);
    }
    Found::default()
}

/// The fallback: the symbol itself, where nothing has happened yet.
fn at_symbol(code: &[u8], function: &DefinedFunction) -> Site {
    let mut decoder = Decoder::with_ip(64, code, function.offset.0, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let encoded = code.get(..instruction.len()).unwrap_or_default();
    Site {
        entry: function.offset,
        ret: function.function.has_result().then_some(function.offset),
        argument_registers: ARGUMENTS,
        product: false,
        stack_pushed_bytes: 0,
        instruction: text(&instruction),
        emulated: is_emulated(encoded),
    }
}

/// Whether the kernel emulates the instruction that these bytes encode.
///
/// Accepted is what every kernel since 4.4 emulates: `push` of a 64-bit
/// register without or with exactly the prefix 0x41, the one-byte `nop`,
/// relative `jmp` and `call`, and conditional jumps other than `loop` and
/// `jrcxz`. Longer `nop`s are emulated only by newer kernels, branches with an
/// operand-size prefix are refused (-ENOTSUPP), and other prefixes buy
/// nothing here.
fn is_emulated(encoded: &[u8]) -> bool {
    matches!(
        encoded,
        [0x50..=0x57]
            | [0x41, 0x50..=0x57]
            | [0x90]
            | [0x66, 0x90]
            | [0xeb | 0x70..=0x7f, _]
            | [0xe8 | 0xe9, _, _, _, _]
            | [0x0f, 0x80..=0x8f, _, _, _, _]
    )
}

enum StackChange {
    None,
    Pushed(u32),
    Unknown,
}

/// What an instruction does to the stack pointer.
fn stack_change(info: &mut InstructionInfoFactory, instruction: &Instruction) -> StackChange {
    let writes = info
        .info(instruction)
        .used_registers()
        .iter()
        .any(|used| used.register().full_register() == Iced::RSP && is_write(used.access()));
    if !writes {
        return StackChange::None;
    }
    if instruction.mnemonic() == Mnemonic::Sub
        && instruction.op0_register() == Iced::RSP
        && matches!(
            instruction.code(),
            Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32
        )
        && instruction.op0_kind() == OpKind::Register
        && let Ok(bytes) = u32::try_from(instruction.immediate(1))
        && bytes <= 1 << 16
    {
        return StackChange::Pushed(bytes);
    }
    StackChange::Unknown
}

/// Whether an access may change the register.
pub(super) fn is_write(access: iced_x86::OpAccess) -> bool {
    use iced_x86::OpAccess as A;
    matches!(
        access,
        A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite
    )
}

/// Whether a branch inside the function leads to `straight`. A branch to the
/// symbol itself would fire a probe there just as well, and is no reason
/// against the place.
fn branches_within(code: &[u8], start: FileOffset, straight: &RangeInclusive<u64>) -> bool {
    if straight.is_empty() {
        return false;
    }
    let mut decoder = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE);
    decoder.iter().any(|instruction| {
        instruction.op_count() > 0
            && matches!(
                instruction.op0_kind(),
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
            )
            && straight.contains(&instruction.near_branch_target())
    })
}

/// Whether a branch elsewhere in the file leads to `straight`: a compiler puts
/// the cold part of a function far from it, and may jump back. Branches over
/// such a distance have a 32-bit displacement, and are looked for at every
/// byte: what looks like one by chance only costs the better place.
fn branches_from_outside(
    file: &ElfFile<'_>,
    start: FileOffset,
    len: usize,
    straight: &RangeInclusive<u64>,
) -> bool {
    if straight.is_empty() {
        return false;
    }
    let own = start.0..start.0.saturating_add(len as u64);
    file.code_segments().any(|(segment, bytes)| {
        let base = segment.file_offset.0;
        bytes.windows(6).enumerate().any(|(position, window)| {
            let (opcode_bytes, displacement) = match *window {
                [0xe8 | 0xe9, a, b, c, d, _] => (1, [a, b, c, d]),
                [0x0f, 0x80..=0x8f, a, b, c, d] => (2, [a, b, c, d]),
                _ => return false,
            };
            let at = base + position as u64;
            let target = (at + opcode_bytes + 4)
                .wrapping_add_signed(i64::from(i32::from_le_bytes(displacement)));
            straight.contains(&target) && !own.contains(&at)
        })
    })
}

/// Disassembly as `objdump` prints it, without symbols.
fn text(instruction: &Instruction) -> String {
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_gas_show_mnemonic_size_suffix(false);
    options.set_space_after_operand_separator(true);
    let mut text = String::new();
    formatter.format(instruction, &mut text);
    text
}

#[cfg(test)]
mod tests;
