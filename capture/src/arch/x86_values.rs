//! Which register holds which argument, instruction by instruction.

use crate::{arch::x86_64::is_write, elf::AllocatorFunction, site::Register};
use iced_x86::{Code, Instruction, InstructionInfoFactory, OpKind, Register as Iced};

/// What a register is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// The argument with this position, unchanged, all 64 bits.
    Argument(usize),
    /// The low word of the product of the two factors.
    ProductLow,
    /// Its high word.
    ProductHigh,
}

/// General registers in the order of their encoding, by DWARF number (System V
/// psABI x86-64, figure 3.36): rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 ...
const DWARF_NUMBERS: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
const RAX: usize = 0;
const RDX: usize = 2;
/// Encodings of rdi, rsi, rdx.
const ARGUMENTS: [usize; 3] = [7, 6, 2];

/// The values that matter, by register encoding.
pub(super) struct Values {
    registers: [Option<Value>; 16],
    needed: usize,
    /// Positions of the factors whose product is the size.
    factors: Option<[usize; 2]>,
}

impl Values {
    /// At the function's first instruction.
    pub(super) fn at_entry(function: AllocatorFunction) -> Self {
        let mut registers = [None; 16];
        let needed = function.argument_count();
        for (position, encoding) in ARGUMENTS.into_iter().enumerate().take(needed) {
            registers[encoding] = Some(Value::Argument(position));
        }
        Self {
            registers,
            needed,
            factors: match function {
                AllocatorFunction::Calloc => Some([0, 1]),
                AllocatorFunction::Reallocarray => Some([1, 2]),
                _ => None,
            },
        }
    }

    /// Where the arguments are: the registers, and whether the factors are
    /// there as their product. `None` when one is lost.
    pub(super) fn arguments(&self) -> Option<([Register; 3], bool)> {
        let mut found = ARGUMENTS.map(|encoding| Register(DWARF_NUMBERS[encoding]));
        let mut product = false;
        for (position, place) in found.iter_mut().enumerate().take(self.needed) {
            if let Some(register) = self.holder(Value::Argument(position)) {
                *place = register;
            } else if self.factors.is_some_and(|of| of.contains(&position)) {
                product = true;
            } else {
                return None;
            }
        }
        if product && let Some([first, second]) = self.factors {
            found[first] = self.holder(Value::ProductLow)?;
            found[second] = self.holder(Value::ProductHigh)?;
        }
        Some((found, product))
    }

    /// The register that holds a value; the one it arrived in if that does.
    fn holder(&self, value: Value) -> Option<Register> {
        let home = match value {
            Value::Argument(position) => ARGUMENTS.get(position).copied(),
            Value::ProductLow => Some(RAX),
            Value::ProductHigh => Some(RDX),
        };
        let holds = |encoding: &usize| self.registers.get(*encoding) == Some(&Some(value));
        home.filter(holds)
            .or_else(|| (0..self.registers.len()).find(holds))
            .map(|encoding| Register(DWARF_NUMBERS[encoding]))
    }

    /// Applies one instruction that does not branch.
    pub(super) fn step(&mut self, info: &mut InstructionInfoFactory, instruction: &Instruction) {
        let copied = self.copied_value(instruction);
        let multiplied = self.multiplies_factors(instruction);
        for used in info.info(instruction).used_registers() {
            // Any write to a part of a register ends what the whole held.
            if is_write(used.access())
                && let Some(encoding) = encoding(used.register().full_register())
            {
                self.registers[encoding] = None;
            }
        }
        if let Some((to, value)) = copied {
            self.registers[to] = Some(value);
        }
        if multiplied {
            self.registers[RAX] = Some(Value::ProductLow);
            self.registers[RDX] = Some(Value::ProductHigh);
        }
    }

    /// `mov %from,%to` of a known value, all 64 bits.
    fn copied_value(&self, instruction: &Instruction) -> Option<(usize, Value)> {
        if !matches!(instruction.code(), Code::Mov_rm64_r64 | Code::Mov_r64_rm64)
            || instruction.op0_kind() != OpKind::Register
            || instruction.op1_kind() != OpKind::Register
        {
            return None;
        }
        let from = encoding(instruction.op1_register())?;
        Some((encoding(instruction.op0_register())?, self.registers[from]?))
    }

    /// `mul`: rdx:rax = rax times its operand, unsigned.
    fn multiplies_factors(&self, instruction: &Instruction) -> bool {
        let Some([first, second]) = self.factors else {
            return false;
        };
        if instruction.code() != Code::Mul_rm64 || instruction.op0_kind() != OpKind::Register {
            return false;
        }
        let Some(other) = encoding(instruction.op0_register()) else {
            return false;
        };
        let pair = (self.registers[RAX], self.registers[other]);
        let (first, second) = (Some(Value::Argument(first)), Some(Value::Argument(second)));
        pair == (first, second) || pair == (second, first)
    }
}

/// The encoding of a 64-bit general register.
fn encoding(register: Iced) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}
