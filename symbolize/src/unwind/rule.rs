//! The compact form of an unwind rule: four bytes for what compilers emit.
//! Anything else is left to the general evaluator ([`super::evaluate`]).

use super::arch::{Arch, CallForm};
use gimli::{
    CfaRule, EndianSlice, LittleEndian, Operation, Register, RegisterRule, UnwindExpression,
    UnwindSection, UnwindTableRow,
};

/// How the frame at an address is left: where its CFA, its caller's frame
/// pointer and its return address are.
///
/// ```text
/// bits of `form`   7 | 6 5            | 4 3          | 2 1 0
///                  - | return address | frame pointer| base of the CFA
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// Distance of the CFA from its base, in words. For [`Base::FrameDeref`] it
    /// is signed, for [`Base::Plt`] it is the limit of `pc & 15`.
    words: u16,
    form: u8,
    /// Where the frame pointer is saved, in words from the CFA (or from the
    /// frame pointer for [`Pointer::AtItself`]); the return address for
    /// [`Return::AtCfa`].
    slot: i8,
}

/// What the CFA is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Base {
    /// No rule covers the address.
    None = 0,
    /// The return address is undefined: the outermost frame.
    Root = 1,
    /// Outside this form.
    General = 2,
    /// Stack pointer.
    Stack = 3,
    /// Frame pointer.
    Frame = 4,
    /// The word in memory at frame pointer + offset (functions that realign
    /// their stack).
    FrameDeref = 5,
    /// A procedure linkage table: stack pointer + 8, and 8 more from the
    /// instruction on that lies at or past the limit in its 16 bytes.
    Plt = 6,
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Pointer {
    /// In the register.
    Kept = 0,
    /// Saved at CFA + slot.
    AtCfa = 1,
    /// Saved at frame pointer + slot.
    AtItself = 2,
}

/// Where the return address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Return {
    /// x86_64: in the word below the CFA. aarch64: in the word above the saved
    /// frame pointer.
    Usual = 0,
    /// In the link register.
    Link = 1,
    /// At CFA + slot, the frame pointer being in its register.
    AtCfa = 2,
}

impl Rule {
    /// No rule.
    pub(crate) const NONE: Self = Self::bare(Base::None);
    /// The outermost frame.
    pub(crate) const ROOT: Self = Self::bare(Base::Root);
    /// Not expressible here.
    pub(crate) const GENERAL: Self = Self::bare(Base::General);

    const fn bare(base: Base) -> Self {
        Self {
            words: 0,
            form: base as u8,
            slot: 0,
        }
    }

    fn new(base: Base, words: u16, pointer: Pointer, ret: Return, slot: i8) -> Self {
        Self {
            words,
            form: base as u8 | (pointer as u8) << 3 | (ret as u8) << 5,
            slot,
        }
    }

    #[inline]
    pub(crate) fn base(self) -> Base {
        match self.form & 7 {
            1 => Base::Root,
            2 => Base::General,
            3 => Base::Stack,
            4 => Base::Frame,
            5 => Base::FrameDeref,
            6 => Base::Plt,
            _ => Base::None,
        }
    }

    #[inline]
    pub(crate) fn pointer(self) -> Pointer {
        match self.form >> 3 & 3 {
            1 => Pointer::AtCfa,
            2 => Pointer::AtItself,
            _ => Pointer::Kept,
        }
    }

    #[inline]
    pub(crate) fn ret(self) -> Return {
        match self.form >> 5 & 3 {
            1 => Return::Link,
            2 => Return::AtCfa,
            _ => Return::Usual,
        }
    }

    /// Offset in bytes for [`Base::Stack`] and [`Base::Frame`].
    #[inline]
    pub(crate) fn unsigned_offset(self) -> u64 {
        u64::from(self.words) * 8
    }

    /// Offset in bytes for [`Base::FrameDeref`], modulo 2^64.
    #[inline]
    pub(crate) fn signed_offset(self) -> u64 {
        (i64::from(self.words.cast_signed()) * 8).cast_unsigned()
    }

    /// Limit of `pc & 15` for [`Base::Plt`].
    #[inline]
    pub(crate) fn plt_limit(self) -> u64 {
        u64::from(self.words)
    }

    /// Offset in bytes of the slot, modulo 2^64.
    #[inline]
    pub(crate) fn slot_offset(self) -> u64 {
        (i64::from(self.slot) * 8).cast_unsigned()
    }

    /// The compact form of a row of a frame description that is no signal
    /// frame.
    pub(crate) fn compact<'s, S>(
        arch: Arch,
        section: &S,
        encoding: gimli::Encoding,
        row: &UnwindTableRow<usize>,
    ) -> Self
    where
        S: UnwindSection<EndianSlice<'s, LittleEndian>>,
    {
        Self::try_compact(arch, section, encoding, row).unwrap_or(Self::GENERAL)
    }

    fn try_compact<'s, S>(
        arch: Arch,
        section: &S,
        encoding: gimli::Encoding,
        row: &UnwindTableRow<usize>,
    ) -> Option<Self>
    where
        S: UnwindSection<EndianSlice<'s, LittleEndian>>,
    {
        let return_rule = row.register(Register(arch.return_address));
        if matches!(return_rule, Some(RegisterRule::Undefined)) {
            return Some(Self::ROOT);
        }
        // By convention the caller's stack pointer is the CFA; a rule that says
        // so in other words is rare.
        if row.register(Register(arch.sp)).is_some() {
            return None;
        }
        let (base, words) = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = match register.0 {
                    number if number == arch.sp => Base::Stack,
                    number if number == arch.fp => Base::Frame,
                    _ => return None,
                };
                (base, u16::try_from(words(*offset)?).ok()?)
            }
            CfaRule::Expression(expression) => {
                cfa_expression(arch, &operations(section, encoding, expression)?)?
            }
        };
        let (pointer, pointer_slot) = match row.register(Register(arch.fp)) {
            None | Some(RegisterRule::SameValue) => (Pointer::Kept, 0),
            Some(RegisterRule::Offset(offset)) => (Pointer::AtCfa, slot(offset)?),
            Some(RegisterRule::Expression(expression)) => {
                match *operations(section, encoding, &expression)?.as_slice() {
                    [
                        Operation::RegisterOffset {
                            register, offset, ..
                        },
                    ] if register.0 == arch.fp => (Pointer::AtItself, slot(offset)?),
                    _ => return None,
                }
            }
            Some(_) => return None,
        };
        let (ret, slot) = match (arch.call, return_rule) {
            (CallForm::Stack, Some(RegisterRule::Offset(-8))) => (Return::Usual, pointer_slot),
            (CallForm::LinkRegister, None | Some(RegisterRule::SameValue)) => {
                (Return::Link, pointer_slot)
            }
            (CallForm::LinkRegister, Some(RegisterRule::Offset(offset))) => {
                let return_slot = slot(offset)?;
                match pointer {
                    Pointer::AtCfa if return_slot == pointer_slot.checked_add(1)? => {
                        (Return::Usual, pointer_slot)
                    }
                    Pointer::Kept => (Return::AtCfa, return_slot),
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Self::new(base, words, pointer, ret, slot))
    }
}

fn words(offset: i64) -> Option<i64> {
    (offset % 8 == 0).then_some(offset / 8)
}

fn slot(offset: i64) -> Option<i8> {
    i8::try_from(words(offset)?).ok()
}

/// The operations of a short expression; `None` for a long or malformed one.
fn operations<'s, S>(
    section: &S,
    encoding: gimli::Encoding,
    expression: &UnwindExpression<usize>,
) -> Option<Vec<Operation<EndianSlice<'s, LittleEndian>>>>
where
    S: UnwindSection<EndianSlice<'s, LittleEndian>>,
{
    const LONGEST: usize = 12;
    let mut iterator = expression.get(section).ok()?.operations(encoding);
    let mut out = Vec::with_capacity(LONGEST);
    while let Some(operation) = iterator.next().ok()? {
        if out.len() == LONGEST {
            return None;
        }
        out.push(operation);
    }
    Some(out)
}

/// The two expressions that compilers and linkers use for a CFA.
fn cfa_expression(
    arch: Arch,
    operations: &[Operation<EndianSlice<'_, LittleEndian>>],
) -> Option<(Base, u16)> {
    use Operation::{And, Deref, Ge, Plus, RegisterOffset, Shl, UnsignedConstant};
    match *operations {
        // DW_OP_breg6 (rbp) -8; DW_OP_deref
        [
            RegisterOffset {
                register, offset, ..
            },
            Deref {
                size: 8,
                space: false,
                ..
            },
        ] if register.0 == arch.fp => {
            let words = i16::try_from(words(offset)?).ok()?;
            Some((Base::FrameDeref, words.cast_unsigned()))
        }
        // DW_OP_breg7 (rsp) 8; DW_OP_breg16 (rip) 0; DW_OP_lit15; DW_OP_and;
        // DW_OP_lit11; DW_OP_ge; DW_OP_lit3; DW_OP_shl; DW_OP_plus
        [
            RegisterOffset {
                register: sp,
                offset: 8,
                ..
            },
            RegisterOffset {
                register: pc,
                offset: 0,
                ..
            },
            UnsignedConstant { value: 15 },
            And,
            UnsignedConstant { value: limit },
            Ge,
            UnsignedConstant { value: 3 },
            Shl,
            Plus,
        ] if sp.0 == arch.sp && pc.0 == arch.pc => Some((Base::Plt, u16::try_from(limit).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_went_in() {
        let rule = Rule::new(
            Base::FrameDeref,
            (-1_i16).cast_unsigned(),
            Pointer::AtItself,
            Return::Usual,
            -2,
        );
        assert_eq!(rule.base(), Base::FrameDeref);
        assert_eq!(rule.pointer(), Pointer::AtItself);
        assert_eq!(rule.ret(), Return::Usual);
        assert_eq!(rule.signed_offset(), (-8_i64).cast_unsigned());
        assert_eq!(rule.slot_offset(), (-16_i64).cast_unsigned());
        assert_eq!(Rule::NONE.base(), Base::None);
        assert_eq!(size_of::<Rule>(), 4);
    }

    #[test]
    fn slots_that_do_not_fit_are_refused() {
        assert_eq!(slot(-16), Some(-2));
        assert_eq!(slot(-12), None);
        assert_eq!(slot(-2048), None);
    }
}
