//! What differs between architectures: DWARF register numbers, where a return
//! address is, and the layout of a signal frame.

use memtrack_artifact::{Architecture, stack::MAX_REGISTERS};

/// The registers that unwinding names, by DWARF number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arch {
    /// The stack pointer.
    pub(crate) sp: u16,
    /// The frame pointer.
    pub(crate) fp: u16,
    /// The program counter in a stack record.
    pub(crate) pc: u16,
    /// The column that unwind tables use for the return address.
    pub(crate) return_address: u16,
    /// Where an ordinary call leaves its return address.
    pub(crate) call: CallForm,
    /// `e_machine` of the files it runs.
    pub(crate) machine: u16,
    /// Bits of a return address that are an address; the others can hold a
    /// pointer authentication code.
    pub(crate) address_mask: u64,
    /// The saved registers of a signal frame.
    signal: SignalFrame,
}

/// Where a call leaves its return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallForm {
    /// On the stack, just below the CFA.
    Stack,
    /// In the link register, which unwind tables number like the return
    /// address column.
    LinkRegister,
}

/// Where a kernel's signal frame keeps the interrupted registers, relative to
/// the stack pointer at the sigreturn trampoline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SignalFrame {
    /// Distance in bytes of the first saved register.
    offset: u64,
    /// DWARF numbers in the order saved, 8 bytes each.
    order: &'static [u16],
}

/// AMD64: System V psABI, figure 3.36. The signal frame is `struct rt_sigframe`
/// of the kernel's `arch/x86/include/asm/sigframe.h` without its first member,
/// which `ret` has popped: `uc_mcontext` lies 40 bytes into the `ucontext`
/// (`arch/x86/include/uapi/asm/sigcontext.h`: r8 to r15, di, si, bp, bx, dx, ax,
/// cx, sp, ip).
const X86_64: Arch = Arch {
    sp: 7,
    fp: 6,
    pc: 16,
    return_address: 16,
    call: CallForm::Stack,
    machine: 62,
    address_mask: u64::MAX,
    signal: SignalFrame {
        offset: 40,
        order: &[8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16],
    },
};

/// 64-bit ARM: AADWARF64 section 4.1. The signal frame is a `siginfo` of 128
/// bytes, then the `ucontext`, whose `uc_mcontext` lies at 176 and holds the
/// fault address, x0 to x30, sp and pc
/// (`arch/arm64/include/uapi/asm/sigcontext.h`). User addresses have 48 bits;
/// the bits above hold the pointer authentication code.
const AARCH64: Arch = Arch {
    sp: 31,
    fp: 29,
    pc: 32,
    return_address: 30,
    call: CallForm::LinkRegister,
    machine: 183,
    address_mask: (1 << 48) - 1,
    signal: SignalFrame {
        offset: 128 + 176 + 8,
        order: &[
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
            24, 25, 26, 27, 28, 29, 30, 31, 32,
        ],
    },
};

impl Arch {
    /// The facts of an architecture.
    pub(crate) fn of(architecture: Architecture) -> Self {
        match architecture {
            Architecture::X86_64 => X86_64,
            Architecture::Aarch64 => AARCH64,
        }
    }

    /// Where each register of the interrupted code is saved, when the stack
    /// pointer is `sp` at the sigreturn trampoline: (DWARF number, address).
    pub(crate) fn signal_slots(self, sp: u64) -> impl Iterator<Item = (u16, u64)> {
        let base = sp.wrapping_add(self.signal.offset);
        self.signal
            .order
            .iter()
            .zip(0_u64..)
            .map(move |(register, position)| (*register, base.wrapping_add(position * 8)))
    }
}

/// Register values by DWARF number; some unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    values: [u64; MAX_REGISTERS],
    known: u64,
}

impl Registers {
    /// The registers of a stack record. Numbers past its length are unknown.
    pub(crate) fn from_record(registers: &[u64]) -> Self {
        let mut out = Self::unknown();
        for (number, value) in (0..).zip(registers.iter().take(MAX_REGISTERS)) {
            out.set(number, Some(*value));
        }
        out
    }

    /// No register known.
    pub(crate) fn unknown() -> Self {
        Self {
            values: [0; MAX_REGISTERS],
            known: 0,
        }
    }

    /// A register's value, where it is known.
    pub(crate) fn get(&self, number: u16) -> Option<u64> {
        let value = self.values.get(usize::from(number))?;
        (self.known >> number & 1 == 1).then_some(*value)
    }

    /// Sets or forgets a register; numbers that are not general registers are
    /// ignored.
    pub(crate) fn set(&mut self, number: u16, value: Option<u64>) {
        let Some(slot) = self.values.get_mut(usize::from(number)) else {
            return;
        };
        match value {
            Some(value) => {
                *slot = value;
                self.known |= 1 << number;
            }
            None => self.known &= !(1 << number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_remember_what_is_known() {
        let mut registers = Registers::from_record(&[7, 8]);
        assert_eq!(registers.get(1), Some(8));
        assert_eq!(registers.get(2), None);
        registers.set(32, Some(1));
        registers.set(1, None);
        registers.set(40, Some(1));
        assert_eq!(registers.get(32), Some(1));
        assert_eq!(registers.get(1), None);
        assert_eq!(registers.get(40), None);
    }

    #[test]
    fn every_saved_register_of_a_signal_frame_has_a_slot() {
        for (arch, count) in [(X86_64, 17), (AARCH64, 33)] {
            let mut numbers: Vec<u16> = arch.signal_slots(0).map(|(number, _)| number).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<u16>>());
        }
        // rip is the seventeenth word of gregs.
        assert_eq!(
            X86_64.signal_slots(1000).last(),
            Some((16, 1000 + 40 + 16 * 8))
        );
    }
}
