//! The unwind table of one section: every frame description by address, and
//! its rules in compact rows.

use super::{arch::Arch, rule::Rule};
use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, EndianSlice,
    FrameDescriptionEntry, LittleEndian, UnwindContext, UnwindOffset, UnwindSection, Vendor,
};
use memtrack_artifact::Svma;
use rustc_hash::FxHashMap;

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
    descriptions: Vec<Description>,
    base: u64,
    rows: Vec<Row>,
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

/// From `pc` (counted from the table's base) to the next row, `rule` holds.
#[derive(Clone, Copy, Debug)]
struct Row {
    pc: u32,
    rule: Rule,
}

const _: () = assert!(size_of::<Row>() == 8);

/// A frame description found for an address.
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
            base: 0,
            rows: Vec::new(),
            note: None,
        };
        let content = match kind {
            Kind::EhFrame => read(&table.eh_frame(), &table.bases, arch, is_code),
            Kind::DebugFrame => read(&table.debug_frame(), &table.bases, arch, is_code),
        };
        table.descriptions = content.descriptions;
        table.base = content.base;
        table.rows = content.rows;
        table.note = content.note;
        table
    }

    /// The compact rule at an address; [`Rule::NONE`] where nothing rules it.
    #[inline]
    pub(crate) fn rule(&self, address: Svma) -> Rule {
        let Some(pc) = address.0.checked_sub(self.base) else {
            return Rule::NONE;
        };
        let Ok(pc) = u32::try_from(pc) else {
            // Rows reach 4 GiB from the base; what lies beyond is evaluated.
            return self
                .description(address)
                .map_or(Rule::NONE, |_| Rule::GENERAL);
        };
        let after = self.rows.partition_point(|row| row.pc <= pc);
        after
            .checked_sub(1)
            .and_then(|at| self.rows.get(at))
            .map_or(Rule::NONE, |row| row.rule)
    }

    /// The frame description of an address.
    pub(crate) fn description(&self, address: Svma) -> Option<DescriptionOffset> {
        let after = self
            .descriptions
            .partition_point(|description| description.start <= address.0);
        let description = self.descriptions.get(after.checked_sub(1)?)?;
        (address.0 < description.end).then_some(DescriptionOffset(description.offset))
    }

    /// Number of rows.
    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
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

#[derive(Default)]
struct Content {
    descriptions: Vec<Description>,
    base: u64,
    rows: Vec<Row>,
    note: Option<String>,
}

fn read<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    arch: Arch,
    is_code: impl Fn(Svma) -> bool,
) -> Content
where
    S: UnwindSection<Slice<'a>>,
{
    let mut content = Content::default();
    let mut cies = FxHashMap::default();
    let mut cie = |section: &S, bases: &BaseAddresses, offset: S::Offset| {
        cie_of(&mut cies, section, bases, offset)
    };

    let mut entries = section.entries(bases);
    let mut bad = 0_u64;
    loop {
        let partial = match entries.next() {
            Ok(Some(CieOrFde::Fde(partial))) => partial,
            Ok(Some(CieOrFde::Cie(_))) => continue,
            Ok(None) => break,
            Err(error) => {
                content.note = Some(format!(
                    "unwind information is malformed and was read in part: {error}"
                ));
                break;
            }
        };
        let Ok(entry) = partial.parse(&mut cie) else {
            bad += 1;
            continue;
        };
        let start = entry.initial_address();
        let Some(end) = start.checked_add(entry.len()) else {
            bad += 1;
            continue;
        };
        if start < end && is_code(Svma(start)) {
            content.descriptions.push(Description {
                start,
                end,
                offset: entry.offset(),
            });
        }
    }
    if bad > 0 && content.note.is_none() {
        content.note = Some(format!("{bad} frame descriptions are malformed"));
    }

    // Where descriptions overlap the one that begins first wins; the others
    // rule what is left.
    content.descriptions.sort_unstable();
    let mut ruled_to = 0;
    content.descriptions.retain_mut(|description| {
        description.start = description.start.max(ruled_to);
        let keep = description.start < description.end;
        if keep {
            ruled_to = description.end;
        }
        keep
    });

    content.base = content.descriptions.first().map_or(0, |first| first.start);
    let mut rows = Rows {
        base: content.base,
        rows: Vec::new(),
    };
    let mut context = UnwindContext::new();
    for description in &content.descriptions {
        let entry = section.fde_from_offset(bases, S::Offset::from(description.offset), &mut cie);
        match entry {
            Ok(entry) => compile(
                section,
                bases,
                arch,
                &entry,
                *description,
                &mut context,
                &mut rows,
            ),
            Err(_) => rows.push(description.start, Rule::GENERAL),
        }
        rows.push(description.end, Rule::NONE);
    }
    rows.rows.shrink_to_fit();
    content.rows = rows.rows;
    content
}

/// Appends the rows of one entry, clipped to `description`.
fn compile<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    arch: Arch,
    entry: &FrameDescriptionEntry<Slice<'a>>,
    description: Description,
    context: &mut UnwindContext<usize>,
    rows: &mut Rows,
) where
    S: UnwindSection<Slice<'a>>,
{
    // A signal frame restores every register, which no compact row can.
    if entry.is_signal_trampoline()
        || entry.cie().return_address_register().0 != arch.return_address
    {
        rows.push(description.start, Rule::GENERAL);
        return;
    }
    let encoding = entry.cie().encoding();
    let mut next = description.start;
    if let Ok(mut unwound) = entry.rows(section, bases, context) {
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
