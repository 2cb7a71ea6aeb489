//! aarch64: the symbol is probed.
//!
//! The first instruction of a function is usually a store of the frame record
//! or a hint of branch protection. The kernel executes those out of line
//! (`arch/arm64/kernel/probes/decode-insn.c`), which costs far less there than
//! a single step does on x86_64, so that nothing is gained by moving on.

use crate::{
    elf::{DefinedFunction, ElfFile},
    site::{Register, Site},
};

/// The site at the function's first instruction, with the arguments where the
/// procedure call standard (AAPCS64, section 6.8.2) puts them: x0, x1, x2.
pub(crate) fn at_symbol(file: &ElfFile<'_>, function: &DefinedFunction) -> Site {
    let word = file
        .code_at(function.offset, 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_le_bytes);
    Site {
        entry: function.offset,
        ret: function.function.has_result().then_some(function.offset),
        argument_registers: [Register(0), Register(1), Register(2)],
        product: false,
        stack_pushed_bytes: 0,
        instruction: word.map_or_else(String::new, |word| format!(".inst {word:#010x}")),
        emulated: word == Some(NOP),
    }
}

/// The one instruction at a symbol that kernels since 6.13 simulate.
const NOP: u32 = 0xd503_201f;
