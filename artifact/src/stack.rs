//! Raw stacks as capture copied them.

use crate::{
    addr::Avma,
    id::{Pid, StackId, Tid},
};

/// How a stack was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StackForm {
    /// Registers and a copy of the user stack, to be unwound offline; the
    /// frame-pointer chain beside it.
    Raw = 1,
    /// Only the frame-pointer chain (`--stacks fp`).
    FramePointer = 2,
}

/// Number of general registers of a record: DWARF numbers 0 to 16 on x86_64
/// (16 is the return address column, i.e. `rip`), 0 to 32 on aarch64
/// (31 is `sp`, 32 is `pc`).
pub const MAX_REGISTERS: usize = 33;

/// One distinct stack, borrowed from a decoded chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackRecord<'a> {
    /// Its id; events name it.
    pub id: StackId,
    /// The process in which it was seen first. Mappings of this process at
    /// `time_ns` tell what its addresses mean.
    pub pid: Pid,
    /// The thread in which it was seen first.
    pub tid: Tid,
    /// When it was taken, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// How it was recorded.
    pub form: StackForm,
    /// General registers by DWARF number (System V psABI x86-64, figure 3.36;
    /// AADWARF64 section 4.1).
    pub registers: &'a [u64],
    /// The stack pointer: the address of `window`'s first byte.
    pub stack_pointer: Avma,
    /// Bytes of the user stack from the stack pointer upward.
    pub window: &'a [u8],
    /// How many bytes the stack held from the stack pointer to its top, as far
    /// as capture knew; `window` is shorter when the copy budget cut it or a
    /// page could not be read. 0: unknown.
    pub available_bytes: u64,
    /// Return addresses by the frame-pointer chain, innermost first (its first
    /// entry is the sampled pc). May be empty.
    pub frame_pointer_chain: &'a [u64],
}

impl StackRecord<'_> {
    /// Whether the copy is known to be shorter than the stack.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.available_bytes > self.window.len() as u64
    }
}
