//! Walking one stack: from its registers and copied bytes to a list of
//! physical frames, innermost first.
//!
//! Two walks give the same answer. The fast one follows the compact rows with
//! three registers (stack pointer, frame pointer, link register). When it meets
//! a rule outside that form it gives up, and the exact one starts again from
//! the record with all registers: simple, and seldom needed.

use super::{
    arch::{Arch, CallForm, Registers},
    evaluate::{self, Caller},
    memory::{Fault, Window},
    rule::{Base, Pointer, Return},
    site::{FrameIndex, PhysicalFrame, Place, Sites},
    tables::Tables,
};
use crate::{
    shield::shield,
    spaces::{Epoch, Spaces},
};
use gimli::UnwindContext;
use memtrack_artifact::{Artifact, Avma, StackForm, StackRecord, Termination};

/// Frames of one stack at most. Real recursion overflows an 8 MiB stack before
/// it.
pub(crate) const MAX_FRAMES: usize = 65_536;

/// What all walkers share.
pub(crate) struct Shared<'a> {
    pub(crate) artifact: &'a Artifact,
    pub(crate) spaces: &'a Spaces,
    pub(crate) tables: &'a Tables<'a>,
    pub(crate) arch: Arch,
    /// Only the exact walk, to compare the fast one with.
    pub(crate) exact_only: bool,
}

/// Walks stacks, one after another. Each worker has its own.
pub(crate) struct Walker<'a> {
    shared: &'a Shared<'a>,
    context: UnwindContext<usize>,
    pub(crate) sites: Sites<'a>,
}

impl<'a> Walker<'a> {
    /// A walker that has met no code yet.
    pub(crate) fn new(shared: &'a Shared<'a>) -> Self {
        Self {
            shared,
            context: UnwindContext::new(),
            sites: Sites::new(shared),
        }
    }

    /// Walks a stack; its frames replace the content of `out`.
    pub(crate) fn walk(
        &mut self,
        record: &StackRecord<'_>,
        out: &mut Vec<FrameIndex>,
    ) -> Termination {
        out.clear();
        let epoch = self.shared.spaces.at(record.pid, record.time_ns);
        if record.form == StackForm::FramePointer {
            self.follow_chain(record, epoch, out);
            return Termination::FramePointerOnly;
        }
        let window = Window::new(record);
        let mut registers = Registers::from_record(record.registers);
        registers.set(self.shared.arch.sp, Some(record.stack_pointer.0));
        let termination = match epoch {
            Some(epoch) => {
                let fast = (!self.shared.exact_only)
                    .then(|| self.fast(epoch, &registers, window, out))
                    .flatten();
                fast.unwrap_or_else(|| {
                    out.clear();
                    self.exact(epoch, registers, window, out)
                })
            }
            None => {
                // A process of which nothing is known: the address is all
                // there is.
                if let Some(pc) = registers.get(self.shared.arch.pc) {
                    out.push(self.sites.unmapped(pc));
                }
                Termination::NoModule
            }
        };
        // Nothing but the first frame, though there is a chain: better than
        // nothing, and marked.
        if out.len() <= 1
            && !termination.is_complete()
            && record.frame_pointer_chain.len() > out.len()
        {
            out.clear();
            self.follow_chain(record, epoch, out);
        }
        termination
    }

    fn fast(
        &mut self,
        epoch: &Epoch,
        registers: &Registers,
        window: Window<'_>,
        out: &mut Vec<FrameIndex>,
    ) -> Option<Termination> {
        let arch = self.shared.arch;
        let mut pc = registers.get(arch.pc)?;
        let mut sp = registers.get(arch.sp)?;
        let mut fp = registers.get(arch.fp)?;
        let mut link = registers.get(arch.return_address);
        loop {
            let first = out.is_empty();
            let address = if first { pc } else { pc.wrapping_sub(1) };
            let slot = self.sites.slot(epoch, address);
            if out.len() >= MAX_FRAMES {
                return Some(Termination::TooManyFrames);
            }
            out.push(slot.frame);

            let rule = slot.rule;
            let cfa = match rule.base() {
                Base::Stack => sp.wrapping_add(rule.unsigned_offset()),
                Base::Frame => fp.wrapping_add(rule.unsigned_offset()),
                Base::FrameDeref => match window.word(fp.wrapping_add(rule.signed_offset())) {
                    Ok(cfa) => cfa,
                    Err(fault) => return Some(fault.into()),
                },
                Base::Plt => {
                    let pushed = u64::from(pc & 15 >= rule.plt_limit()) * 8;
                    sp.wrapping_add(8).wrapping_add(pushed)
                }
                Base::Root => return Some(Termination::Root),
                Base::General => return None,
                Base::None => return self.unruled(epoch, address, pc, out),
            };
            let saved = match rule.pointer() {
                Pointer::Kept => None,
                Pointer::AtCfa => Some(cfa.wrapping_add(rule.slot_offset())),
                Pointer::AtItself => Some(fp.wrapping_add(rule.slot_offset())),
            };
            let next = match (rule.ret(), arch.call) {
                (Return::Usual, CallForm::Stack) => window.word(cfa.wrapping_sub(8)),
                (Return::Usual, CallForm::LinkRegister) => {
                    window.word(saved.unwrap_or(cfa).wrapping_add(8))
                }
                (Return::AtCfa, _) => window.word(cfa.wrapping_add(rule.slot_offset())),
                (Return::Link, _) => match link {
                    Some(link) => Ok(link),
                    None => return Some(Termination::ReadFailed),
                },
            };
            let next = match next {
                Ok(next) => next,
                Err(fault) => return Some(fault.into()),
            };
            if next == 0 {
                return Some(Termination::Root);
            }
            if cfa <= sp && !first {
                return Some(Termination::NoProgress);
            }
            if let Some(saved) = saved {
                match window.word(saved) {
                    Ok(pointer) => fp = pointer,
                    // In an epilogue the slot may have been popped already:
                    // the register has its old value back.
                    Err(Fault::Below) => {}
                    // The frame pointer is lost; perhaps nobody needs it.
                    Err(_) => return None,
                }
            }
            link = Some(next);
            sp = cfa;
            pc = next & arch.address_mask;
        }
    }

    /// No compact rule covers `address`: why the stack ends here, or `None`
    /// when the exact walk gets on.
    #[cold]
    fn unruled(
        &mut self,
        epoch: &Epoch,
        address: u64,
        pc: u64,
        out: &mut Vec<FrameIndex>,
    ) -> Option<Termination> {
        if out.len() > 1 && epoch.locate(Avma(address)).is_none() {
            // Not code at all: the word was no return address.
            out.pop();
            return Some(Termination::NoModule);
        }
        let Some(place) = self.sites.place(epoch, address) else {
            return Some(Termination::NoModule);
        };
        let trampoline = self.signal_place(epoch, place, pc).is_some()
            || self
                .shared
                .tables
                .is_trampoline(place.module, self.at_pc(epoch, place, pc).address);
        (!trampoline).then_some(Termination::NoRule)
    }

    fn exact(
        &mut self,
        epoch: &Epoch,
        mut registers: Registers,
        window: Window<'_>,
        out: &mut Vec<FrameIndex>,
    ) -> Termination {
        let Shared { arch, tables, .. } = *self.shared;
        // The first frame, and one that a signal interrupted, is at its pc; a
        // caller is at the call before it.
        let mut interrupted = true;
        loop {
            let (Some(pc), Some(sp)) = (registers.get(arch.pc), registers.get(arch.sp)) else {
                return Termination::ReadFailed;
            };
            let first = out.is_empty();
            if out.len() >= MAX_FRAMES {
                return Termination::TooManyFrames;
            }
            let address = if interrupted { pc } else { pc.wrapping_sub(1) };
            if !first && epoch.locate(Avma(address)).is_none() {
                return Termination::NoModule;
            }
            let Some(mut place) = self.sites.place(epoch, address) else {
                out.push(self.sites.slot(epoch, address).frame);
                return Termination::NoModule;
            };
            // The return address into a trampoline is its first instruction,
            // which no call precedes.
            let signal = self.signal_place(epoch, place, pc);
            let by_symbol = || {
                let at_pc = self.at_pc(epoch, place, pc);
                (tables.description(place.module, place.address).is_none()
                    && tables.is_trampoline(at_pc.module, at_pc.address))
                .then_some(at_pc)
            };
            let trampoline = signal.or_else(by_symbol);
            if let Some(at_pc) = trampoline {
                place = at_pc;
            }
            out.push(self.sites.intern(PhysicalFrame {
                module: Some(place.module),
                address: place.address,
                mapping: None,
                signal: trampoline.is_some(),
                frame_pointer: false,
            }));

            let outcome = match tables.description(place.module, place.address) {
                Some((table, description)) => {
                    let context = &mut self.context;
                    shield(|| {
                        table.evaluate(description, place.address, &registers, window, context)
                    })
                    .unwrap_or(Err(Termination::BadRule))
                }
                None if trampoline.is_some() => {
                    evaluate::leave_signal_frame(arch, &registers, window).map(Some)
                }
                None => return Termination::NoRule,
            };
            let caller = match outcome {
                Ok(Some(caller)) => caller,
                Ok(None) => return Termination::Root,
                Err(termination) => return termination,
            };
            let Caller {
                registers: next,
                signal,
            } = caller;
            let (Some(next_pc), Some(next_sp)) = (next.get(arch.pc), next.get(arch.sp)) else {
                return Termination::ReadFailed;
            };
            if next_pc == 0 {
                return Termination::Root;
            }
            // A leaf function on aarch64 has no frame; only one that was not
            // called from here, but sampled or interrupted, can be such. A
            // signal may have come on another stack.
            let grows = next_sp > sp || interrupted || signal;
            let repeats = next_pc == pc && next_sp == sp;
            if repeats || !grows {
                return Termination::NoProgress;
            }
            interrupted = signal;
            registers = next;
        }
    }

    /// Frames by the recorded frame-pointer chain, whose first entry is the
    /// sampled address.
    fn follow_chain(
        &mut self,
        record: &StackRecord<'_>,
        epoch: Option<&Epoch>,
        out: &mut Vec<FrameIndex>,
    ) {
        let mask = self.shared.arch.address_mask;
        for return_address in record.frame_pointer_chain.iter().take(MAX_FRAMES) {
            let pc = return_address & mask;
            if pc == 0 {
                break;
            }
            let address = if out.is_empty() { pc } else { pc - 1 };
            let frame = match epoch {
                Some(epoch) => self.sites.slot(epoch, address).frame,
                None => self.sites.unmapped(address),
            };
            let Some(frame) = self.sites.frames.get(frame as usize).copied() else {
                break;
            };
            out.push(self.sites.intern(PhysicalFrame {
                frame_pointer: true,
                ..frame
            }));
        }
    }

    /// `place`, moved on to the pc itself.
    fn at_pc(&self, epoch: &Epoch, place: Place, pc: u64) -> Place {
        self.sites.place(epoch, pc).unwrap_or(place)
    }

    /// The place of the pc, when it lies in a frame description marked as a
    /// signal trampoline.
    fn signal_place(&self, epoch: &Epoch, place: Place, pc: u64) -> Option<Place> {
        let tables = self.shared.tables;
        let at_pc = self.at_pc(epoch, place, pc);
        // A call that never returns can stand right before a trampoline: then
        // the address before the pc has a description of its own, and it counts.
        let (table, description) = tables
            .description(place.module, place.address)
            .or_else(|| tables.description(at_pc.module, at_pc.address))?;
        table.is_signal_trampoline(description).then_some(at_pc)
    }
}
