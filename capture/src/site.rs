//! Where to put the probes of an allocator function.
//!
//! The instruction under a probe decides what a hit costs: one that the kernel
//! emulates costs a trap, any other is single-stepped out of line, which took
//! 36 times longer where it was measured. So the entry probe goes to the first
//! emulated instruction of the straight line at the function's start:
//!
//! ```text
//! free:      test %rdi,%rdi      single-stepped
//!         ▶  je   free+0xc8      emulated; %rdi and %rsp untouched: probe here
//!            push %rbp
//! ```
//!
//! A place is good only when it is passed exactly once per call with
//! everything that a probe reads still there:
//! - nothing before it branches, and nothing branches to it or to what lies
//!   between the symbol and it;
//! - every argument is still in some register (copies are followed, and so is
//!   the multiplication at the start of `calloc` and `reallocarray`);
//! - the stack pointer has its entry value, when a return probe sits there
//!   too: the kernel overwrites the word at the stack pointer with the address
//!   of its trampoline, and anywhere else that word is a saved register.
//!
//! Where there is no such place the symbol itself is probed, at its cost.

use crate::{
    arch,
    elf::{AllocatorFunction, DefinedFunction, ElfFile},
};
use memtrack_artifact::{Architecture, FileOffset};

/// A general register by its DWARF number (System V psABI x86-64, figure 3.36;
/// AADWARF64 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u8);

/// Where one function is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The entry probe.
    pub entry: FileOffset,
    /// The return probe, for functions with a result. Always at `entry`: two
    /// places would cost two traps.
    pub ret: Option<FileOffset>,
    /// Where the first three arguments are when the entry probe fires.
    /// Meaningful for the first [`AllocatorFunction::argument_count`] of them;
    /// see also `product`.
    pub argument_registers: [Register; 3],
    /// The two factors of `calloc` or `reallocarray` are already multiplied
    /// and gone: the first factor's register holds the low word of the
    /// product, the second's the high word. The size is the low word, or
    /// saturated when the high word is not zero (the call will fail).
    pub product: bool,
    /// Bytes that the function has pushed when the entry probe fires: the
    /// entry value of the stack pointer is that much higher. Always 0 where
    /// there is a return probe.
    pub stack_pushed_bytes: u32,
    /// The instruction under the probe, disassembled, for people.
    pub instruction: String,
    /// Whether the kernel emulates it. If not, each call costs a single step.
    pub emulated: bool,
}

/// What to do about one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Probe it.
    Probe(Site),
    /// Leave it: all it does is to jump to this other function of the file,
    /// which is probed.
    TailJump {
        /// Offset of the other function's first instruction.
        target: FileOffset,
    },
}

/// Chooses the place for `function` of `file`; `probed` are all the functions
/// of the file that will be placed, itself among them.
#[must_use]
pub fn place(
    file: &ElfFile<'_>,
    function: &DefinedFunction,
    probed: &[DefinedFunction],
) -> Placement {
    match file.architecture() {
        Architecture::X86_64 => arch::x86_64::place(file, function, probed),
        Architecture::Aarch64 => Placement::Probe(arch::aarch64::at_symbol(file, function)),
    }
}

/// Whether a function that only jumps to `target` may be left unprobed: the
/// call must mean the same when it is counted there.
pub(crate) fn counts_as(function: AllocatorFunction, target: AllocatorFunction) -> bool {
    use AllocatorFunction as F;
    // What the call does to blocks that exist: `realloc` ends one.
    let family = |function| match function {
        F::Free => 0,
        F::Realloc | F::Reallocarray => 1,
        // Its result is an error number, the block goes through a pointer.
        F::PosixMemalign => 2,
        F::Malloc | F::Calloc | F::AlignedAlloc | F::Memalign | F::Valloc | F::Pvalloc => 3,
    };
    family(function) == family(target)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
