//! The unwind table of one section: every frame description by address, each
//! with its rules in compact rows.
//!
//! The descriptions are found in one pass over the section (`.eh_frame_hdr` is
//! neither needed nor trusted). The rows of one are made when an address in it
//! is first asked for: a program allocates in a few hundred functions of the
//! tens of thousands that its libraries have.

use super::{arch::Arch, rule::Rule};
use crate::shield::shield;
use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, EndianSlice,
    FrameDescriptionEntry, LittleEndian, UnwindContext, UnwindOffset, UnwindSection, Vendor,
};
use memtrack_artifact::Svma;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Which of the two unwind sections a table was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    EhFrame,
    DebugFrame,
}

/// A section's bytes, its rows, and what the general evaluator needs.
#[derive(Debug)]
pub(crate) struct Table {
    kind: Kind,
    bytes: Vec<u8>,
    pub(super) bases: BaseAddresses,
    pub(super) arch: Arch,
    /// By start, without overlap.
    descriptions: Vec<Description>,
    /// The rows of each description.
    rows: Vec<OnceLock<Box<[Row]>>>,
    /// Why the table is not whole, for people.
    pub(crate) note: Option<String>,
}

/// A frame description entry: the range of addresses it rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Description {
    start: u64,
    end: u64,
    /// Position in the section.
    offset: usize,
}

/// From `pc` (counted from the description's start) to the next row, `rule`
/// holds.
#[derive(Clone, Copy, Debug)]
struct Row {
    pc: u32,
    rule: Rule,
}

const _: () = assert!(size_of::<Row>() == 8);

/// A frame description found for an address: its position in the section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptionOffset(usize);

/// Where a section lies in link-time addresses, and its neighbours that
/// pointers can be relative to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) section: Svma,
    pub(crate) text: Option<Svma>,
    pub(crate) got: Option<Svma>,
}

impl Table {
    /// Reads a section. Descriptions of addresses that `is_code` denies are
    /// leftovers of discarded functions and are dropped.
    pub(crate) fn build(
        kind: Kind,
        bytes: Vec<u8>,
        addresses: Addresses,
        arch: Arch,
        is_code: impl Fn(Svma) -> bool,
    ) -> Self {
        let mut bases = BaseAddresses::default().set_eh_frame(addresses.section.0);
        if let Some(text) = addresses.text {
            bases = bases.set_text(text.0);
        }
        if let Some(got) = addresses.got {
            bases = bases.set_got(got.0);
        }
        let mut table = Self {
            kind,
            bytes,
            bases,
            arch,
            descriptions: Vec::new(),
            rows: Vec::new(),
            note: None,
        };
        let content = shield(|| match kind {
            Kind::EhFrame => read(&table.eh_frame(), &table.bases, is_code),
            Kind::DebugFrame => read(&table.debug_frame(), &table.bases, is_code),
        });
        (table.descriptions, table.note) =
            content.unwrap_or_else(|| (Vec::new(), Some("malformed, not read".to_owned())));
        table
            .rows
            .resize_with(table.descriptions.len(), OnceLock::new);
        table
    }

    /// The table of a section that could not be read.
    pub(crate) fn unreadable(kind: Kind, arch: Arch, note: String) -> Self {
        let mut table = Self::build(kind, Vec::new(), Addresses::default(), arch, |_| false);
        table.note = Some(note);
        table
    }

    /// The compact rule at an address; [`Rule::NONE`] where nothing rules it.
    pub(crate) fn rule(&self, address: Svma) -> Rule {
        let Some((at, description)) = self.find(address) else {
            return Rule::NONE;
        };
        let Some(rows) = self.rows.get(at) else {
            return Rule::NONE;
        };
        let rows = rows.get_or_init(|| self.compile(description));
        let Ok(pc) = u32::try_from(address.0 - description.start) else {
            // No function is this long; the evaluator would still be right.
            return Rule::GENERAL;
        };
        let after = rows.partition_point(|row| row.pc <= pc);
        after
            .checked_sub(1)
            .and_then(|at| rows.get(at))
            .map_or(Rule::GENERAL, |row| row.rule)
    }

    /// The frame description of an address.
    pub(crate) fn description(&self, address: Svma) -> Option<DescriptionOffset> {
        self.find(address)
            .map(|(_, description)| DescriptionOffset(description.offset))
    }

    fn find(&self, address: Svma) -> Option<(usize, Description)> {
        let after = self
            .descriptions
            .partition_point(|description| description.start <= address.0);
        let at = after.checked_sub(1)?;
        let description = *self.descriptions.get(at)?;
        (address.0 < description.end).then_some((at, description))
    }

    fn compile(&self, description: Description) -> Box<[Row]> {
        shield(|| match self.kind {
            Kind::EhFrame => compile(&self.eh_frame(), &self.bases, self.arch, description),
            Kind::DebugFrame => compile(&self.debug_frame(), &self.bases, self.arch, description),
        })
        .unwrap_or_default()
    }

    /// Makes the rows of every description: their number.
    pub(crate) fn row_count(&self) -> usize {
        let all = self.rows.iter().zip(&self.descriptions);
        all.map(|(rows, description)| rows.get_or_init(|| self.compile(*description)).len())
            .sum()
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(Vendor::AArch64);
        section
    }

    pub(super) fn debug_frame(&self) -> DebugFrame<Slice<'_>> {
        let mut section = DebugFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(Vendor::AArch64);
        section
    }
}

impl DescriptionOffset {
    /// Reads the entry again.
    pub(super) fn entry<'a, S>(
        self,
        section: &S,
        bases: &BaseAddresses,
    ) -> gimli::Result<FrameDescriptionEntry<Slice<'a>>>
    where
        S: UnwindSection<Slice<'a>>,
    {
        section.fde_from_offset(bases, S::Offset::from(self.0), S::cie_from_offset)
    }
}

/// The descriptions of a section, by start and without overlap, and what was
/// wrong with it.
fn read<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    is_code: impl Fn(Svma) -> bool,
) -> (Vec<Description>, Option<String>)
where
    S: UnwindSection<Slice<'a>>,
{
    let mut descriptions = Vec::new();
    let mut note = None;
    let mut bad = 0_u64;
    let mut cies = FxHashMap::default();
    let mut entries = section.entries(bases);
    loop {
        let partial = match entries.next() {
            Ok(Some(CieOrFde::Fde(partial))) => partial,
            Ok(Some(CieOrFde::Cie(_))) => continue,
            Ok(None) => break,
            Err(error) => {
                note = Some(format!("malformed, read in part: {error}"));
                break;
            }
        };
        let entry =
            partial.parse(|section, bases, offset| cie_of(&mut cies, section, bases, offset));
        let Ok(entry) = entry else {
            bad += 1;
            continue;
        };
        let start = entry.initial_address();
        let Some(end) = start.checked_add(entry.len()) else {
            bad += 1;
            continue;
        };
        if start < end && is_code(Svma(start)) {
            descriptions.push(Description {
                start,
                end,
                offset: entry.offset(),
            });
        }
    }
    if bad > 0 && note.is_none() {
        note = Some(format!("{bad} malformed frame descriptions"));
    }

    // Where descriptions overlap the one that begins first wins; the others
    // rule what is left.
    descriptions.sort_unstable();
    let mut ruled_to = 0;
    descriptions.retain_mut(|description| {
        description.start = description.start.max(ruled_to);
        let keep = description.start < description.end;
        if keep {
            ruled_to = description.end;
        }
        keep
    });
    descriptions.shrink_to_fit();
    (descriptions, note)
}

/// The rows of one description.
fn compile<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    arch: Arch,
    description: Description,
) -> Box<[Row]>
where
    S: UnwindSection<Slice<'a>>,
{
    let mut rows = Rows {
        base: description.start,
        rows: Vec::new(),
    };
    match DescriptionOffset(description.offset).entry(section, bases) {
        // A signal frame restores every register, which no compact row can.
        Ok(entry)
            if !entry.is_signal_trampoline()
                && entry.cie().return_address_register().0 == arch.return_address =>
        {
            fill(section, bases, arch, &entry, description, &mut rows);
        }
        _ => rows.push(description.start, Rule::GENERAL),
    }
    rows.rows.into_boxed_slice()
}

/// Appends the rows of an entry, clipped to `description`.
fn fill<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    arch: Arch,
    entry: &FrameDescriptionEntry<Slice<'a>>,
    description: Description,
    rows: &mut Rows,
) where
    S: UnwindSection<Slice<'a>>,
{
    let encoding = entry.cie().encoding();
    let mut context = UnwindContext::new();
    let mut next = description.start;
    if let Ok(mut unwound) = entry.rows(section, bases, &mut context) {
        while let Ok(Some(row)) = unwound.next_row() {
            if row.end_address() <= next {
                continue;
            }
            if row.start_address() >= description.end {
                return;
            }
            rows.push(next, Rule::compact(arch, section, encoding, row));
            next = row.end_address();
        }
    }
    // Instructions that end early or are malformed: the evaluator will meet the
    // same error and say so.
    if next < description.end {
        rows.push(next, Rule::GENERAL);
    }
}

fn cie_of<'a, S>(
    cies: &mut FxHashMap<usize, CommonInformationEntry<Slice<'a>>>,
    section: &S,
    bases: &BaseAddresses,
    offset: S::Offset,
) -> gimli::Result<CommonInformationEntry<Slice<'a>>>
where
    S: UnwindSection<Slice<'a>>,
{
    let key: usize = UnwindOffset::into(offset);
    if let Some(cie) = cies.get(&key) {
        return Ok(cie.clone());
    }
    let cie = section.cie_from_offset(bases, offset)?;
    cies.insert(key, cie.clone());
    Ok(cie)
}

struct Rows {
    base: u64,
    rows: Vec<Row>,
}

impl Rows {
    /// From `address` on `rule` holds. Addresses never fall.
    fn push(&mut self, address: u64, rule: Rule) {
        let Some(pc) = address
            .checked_sub(self.base)
            .and_then(|pc| u32::try_from(pc).ok())
        else {
            return;
        };
        if self.rows.last().is_some_and(|last| last.pc == pc) {
            self.rows.pop();
        }
        if self.rows.last().is_none_or(|last| last.rule != rule) {
            self.rows.push(Row { pc, rule });
        }
    }
}
