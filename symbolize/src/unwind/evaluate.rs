//! The general evaluator: one frame by the full DWARF rules (DWARF 5, section
//! 6.4), with every general register. It answers what the compact rows do not:
//! signal frames, expressions, CFAs on other registers.

use super::{
    arch::{Arch, CallForm, Registers},
    memory::{Fault, Window},
    table::{DescriptionOffset, Kind, Slice, Table},
};
use gimli::{
    BaseAddresses, CfaRule, Encoding, EvaluationResult, Expression, RegisterRule, UnwindContext,
    UnwindSection, Value,
};
use memtrack_artifact::{Svma, Termination};

/// Operations of one expression; compilers use fewer than ten.
const MAX_OPERATIONS: u32 = 1000;

/// A frame left.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The registers in the caller, the program counter among them.
    pub(crate) registers: Registers,
    /// The frame that was left was a signal trampoline.
    pub(crate) signal: bool,
}

impl Table {
    /// Leaves the frame whose code is at `address`, ruled by `description`.
    /// `None`: it is the outermost one.
    pub(crate) fn evaluate(
        &self,
        description: DescriptionOffset,
        address: Svma,
        registers: &Registers,
        window: Window<'_>,
        context: &mut UnwindContext<usize>,
    ) -> Result<Option<Caller>, Termination> {
        let frame = Frame {
            arch: self.arch,
            registers,
            window,
        };
        match self.kind() {
            Kind::EhFrame => {
                frame.leave(&self.eh_frame(), &self.bases, description, address, context)
            }
            Kind::DebugFrame => frame.leave(
                &self.debug_frame(),
                &self.bases,
                description,
                address,
                context,
            ),
        }
    }

    /// Whether the description is that of a signal trampoline.
    pub(crate) fn is_signal_trampoline(&self, description: DescriptionOffset) -> bool {
        match self.kind() {
            Kind::EhFrame => description
                .entry(&self.eh_frame(), &self.bases)
                .is_ok_and(|entry| entry.is_signal_trampoline()),
            Kind::DebugFrame => description
                .entry(&self.debug_frame(), &self.bases)
                .is_ok_and(|entry| entry.is_signal_trampoline()),
        }
    }
}

/// Leaves a signal frame by the kernel's layout, for a trampoline without a
/// usable description.
pub(crate) fn leave_signal_frame(
    arch: Arch,
    registers: &Registers,
    window: Window<'_>,
) -> Result<Caller, Termination> {
    let sp = registers.get(arch.sp).ok_or(Termination::ReadFailed)?;
    let mut caller = Registers::unknown();
    for (number, address) in arch.signal_slots(sp) {
        caller.set(number, Some(window.word(address)?));
    }
    Ok(Caller {
        registers: caller,
        signal: true,
    })
}

struct Frame<'f> {
    arch: Arch,
    registers: &'f Registers,
    window: Window<'f>,
}

/// Why a rule gave no value.
enum Unknown {
    /// It uses a register that is not known, or memory that was not copied.
    Fault(Fault),
    /// It is malformed or uses what unwinding has no access to.
    Bad,
    /// It uses a register whose value is lost.
    Lost,
}

impl From<Fault> for Unknown {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Unknown> for Termination {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::Fault(fault) => fault.into(),
            Unknown::Bad => Self::BadRule,
            Unknown::Lost => Self::ReadFailed,
        }
    }
}

impl Frame<'_> {
    fn leave<'s, S>(
        &self,
        section: &S,
        bases: &BaseAddresses,
        description: DescriptionOffset,
        address: Svma,
        context: &mut UnwindContext<usize>,
    ) -> Result<Option<Caller>, Termination>
    where
        S: UnwindSection<Slice<'s>>,
    {
        let bad = |_| Termination::BadRule;
        let entry = description.entry(section, bases).map_err(bad)?;
        let encoding = entry.cie().encoding();
        let return_address = entry.cie().return_address_register().0;
        let row = entry
            .unwind_info_for_address(section, bases, context, address.0)
            .map_err(bad)?;

        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => self
                .registers
                .get(register.0)
                .ok_or(Termination::ReadFailed)
                .map(|base| base.wrapping_add(offset.cast_unsigned())),
            CfaRule::Expression(expression) => expression
                .get(section)
                .map_err(|_| Termination::BadRule)
                .and_then(|expression| {
                    self.expression(expression, encoding, None)
                        .map_err(Into::into)
                }),
        };

        // The return address comes first: where it is undefined the CFA need
        // not be known.
        let return_rule = row.register(gimli::Register(return_address));
        if matches!(return_rule, Some(RegisterRule::Undefined)) {
            return Ok(None);
        }
        let cfa = cfa?;
        let value = match return_rule {
            Some(rule) => self
                .value(section, encoding, return_address, cfa, rule)?
                .ok_or(Termination::ReadFailed)?,
            None if self.arch.call == CallForm::LinkRegister => self
                .registers
                .get(return_address)
                .ok_or(Termination::ReadFailed)?,
            None => return Err(Termination::BadRule),
        };

        let mut caller = *self.registers;
        caller.set(self.arch.sp, Some(cfa));
        for (register, rule) in row.registers() {
            if register.0 == return_address {
                continue;
            }
            match self.value(section, encoding, register.0, cfa, rule.clone()) {
                Ok(value) => caller.set(register.0, value),
                // An epilogue's table can still name a slot that has been
                // popped: the register has its old value back already.
                Err(Unknown::Fault(Fault::Below)) => {}
                Err(_) => caller.set(register.0, None),
            }
        }
        let signal = entry.is_signal_trampoline();
        let pc = if return_address == self.arch.pc {
            value
        } else {
            // The link register holds the return address in the caller, too;
            // a signal frame has a program counter of its own.
            caller.set(return_address, Some(value));
            match (signal, row.register(gimli::Register(self.arch.pc))) {
                (true, Some(_)) => caller.get(self.arch.pc).ok_or(Termination::ReadFailed)?,
                _ => value,
            }
        };
        caller.set(self.arch.pc, Some(pc & self.arch.address_mask));
        Ok(Some(Caller {
            registers: caller,
            signal,
        }))
    }

    /// A register's value in the caller; `None` when the rule says that it has
    /// none.
    fn value<'s, S>(
        &self,
        section: &S,
        encoding: Encoding,
        register: u16,
        cfa: u64,
        rule: RegisterRule<usize>,
    ) -> Result<Option<u64>, Unknown>
    where
        S: UnwindSection<Slice<'s>>,
    {
        let expression = |expression: gimli::UnwindExpression<usize>| {
            let expression = expression.get(section).map_err(|_| Unknown::Bad)?;
            self.expression(expression, encoding, Some(cfa))
        };
        Ok(match rule {
            RegisterRule::Undefined => None,
            RegisterRule::SameValue => self.registers.get(register),
            RegisterRule::Offset(offset) => {
                Some(self.window.word(cfa.wrapping_add(offset.cast_unsigned()))?)
            }
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add(offset.cast_unsigned())),
            RegisterRule::Register(other) => self.registers.get(other.0),
            RegisterRule::Expression(place) => Some(self.window.word(expression(place)?)?),
            RegisterRule::ValExpression(value) => Some(expression(value)?),
            RegisterRule::Constant(value) => Some(value),
            _ => return Err(Unknown::Bad),
        })
    }

    fn expression(
        &self,
        expression: Expression<Slice<'_>>,
        encoding: Encoding,
        cfa: Option<u64>,
    ) -> Result<u64, Unknown> {
        let bad = |_| Unknown::Bad;
        let mut evaluation = expression.evaluation(encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut result = evaluation.evaluate().map_err(bad)?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory {
                    address,
                    size,
                    space: None,
                    ..
                } => {
                    let value = self.window.unsigned(address, size)?;
                    evaluation.resume_with_memory(Value::Generic(value))
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.registers.get(register.0).ok_or(Unknown::Lost)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresCallFrameCfa => {
                    evaluation.resume_with_call_frame_cfa(cfa.ok_or(Unknown::Bad)?)
                }
                _ => return Err(Unknown::Bad),
            }
            .map_err(bad)?;
        }
        match *evaluation.as_result() {
            [
                gimli::Piece {
                    location: gimli::Location::Address { address },
                    ..
                },
            ] => Ok(address),
            _ => Err(Unknown::Bad),
        }
    }
}
