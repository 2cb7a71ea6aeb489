//! Joins costs with names: the tables of the findings.

use crate::{
    allocators::is_allocation_function,
    detail::Details,
    findings::{Costs, Detail, FrameInfo, Site, StackCost},
    ledger::add,
    processes::Process,
    replay::{function, maker},
    stacks::{MergedStacks, UNRECORDED},
};
use memtrack_artifact::{Frame, FrameId, Symbols, Termination};
use std::collections::HashMap;

/// The only frame of what has no stack.
const UNRECORDED_NAME: &str = "[stack not recorded]";

/// Stacks, sites and the frames they refer to.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) frames: Vec<FrameInfo>,
    pub(crate) stacks: Vec<StackCost>,
    pub(crate) sites: Vec<Site>,
    pub(crate) detail: Vec<Detail>,
    /// Stacks with frames that allocated.
    pub(crate) distinct_stacks: u64,
}

/// Builds the tables. `costs` are by merged stack.
pub(crate) fn join(
    symbols: &Symbols,
    merged: &MergedStacks,
    costs: &[Costs],
    details: Option<Details>,
    processes: &[Process],
) -> Tables {
    let mut used: Vec<u32> = (0u32..)
        .zip(costs)
        .filter(|(_, costs)| **costs != Costs::default())
        .map(|(stack, _)| stack)
        .collect();
    let costs_of = |stack: u32| costs.get(stack as usize).copied().unwrap_or_default();
    used.sort_by_key(|&stack| std::cmp::Reverse(rank(&costs_of(stack))));

    let mut frames = Frames::new(symbols);
    let mut stacks = Vec::with_capacity(used.len());
    let mut positions = vec![None; costs.len()];
    for &stack in &used {
        if let Some(position) = positions.get_mut(stack as usize) {
            *position = u32::try_from(stacks.len()).ok();
        }
        stacks.push(frames.stack(merged, stack, costs_of(stack)));
    }
    let distinct_stacks = used.iter().filter(|&&stack| stack != UNRECORDED).count() as u64;
    let sites = sites(&frames.infos, &stacks);
    let detail = details.map_or_else(Vec::new, |details| {
        details
            .into_sorted()
            .into_iter()
            .map(|(key, calls)| Detail {
                stack: positions.get(key.stack as usize).copied().flatten(),
                function: function(key.origin).name().to_owned(),
                size: key.size,
                pid: processes
                    .get(maker(key.origin))
                    .map_or(0, |process| process.pid),
                calls: calls.calls,
                live_calls: calls.leaked,
                failed: calls.failed,
            })
            .collect()
    });
    Tables {
        frames: frames.infos,
        stacks,
        sites,
        detail,
        distinct_stacks,
    }
}

/// By descending peak bytes; the rest makes the order useful where nothing was
/// live at the peak.
fn rank(costs: &Costs) -> [u64; 4] {
    [
        costs.peak_bytes,
        costs.allocated_bytes,
        costs.allocations,
        costs.failed,
    ]
}

/// Frames as they are shown, each once.
struct Frames<'a> {
    symbols: &'a Symbols,
    infos: Vec<FrameInfo>,
    /// By [`FrameId`].
    by_id: Vec<Option<u32>>,
    by_info: HashMap<FrameInfo, u32, foldhash::fast::RandomState>,
    /// By position: whether it is an allocation function.
    allocates: Vec<bool>,
}

impl<'a> Frames<'a> {
    fn new(symbols: &'a Symbols) -> Self {
        Self {
            symbols,
            infos: Vec::new(),
            by_id: vec![None; symbols.frames.len()],
            by_info: HashMap::default(),
            allocates: Vec::new(),
        }
    }

    fn stack(&mut self, merged: &MergedStacks, stack: u32, costs: Costs) -> StackCost {
        let Some(id) = merged.first(stack as usize) else {
            let frame = self.place(FrameInfo {
                function: Some(UNRECORDED_NAME.to_owned()),
                ..FrameInfo::default()
            });
            return StackCost {
                frames: vec![frame],
                allocator_frames: 0,
                truncated: Some(Termination::NotRecorded.describe().to_owned()),
                costs,
            };
        };
        let frames: Vec<u32> = self
            .symbols
            .stack(id)
            .iter()
            .map(|&id| self.position(id))
            .collect();
        let termination = self
            .symbols
            .stacks
            .get(id.index())
            .map_or(Termination::NotRecorded, |stack| stack.termination);
        StackCost {
            allocator_frames: self.allocator_frames(&frames),
            frames,
            truncated: (!termination.is_complete()).then(|| termination.describe().to_owned()),
            costs,
        }
    }

    /// The first physical frame is the probed function, whatever its name;
    /// what follows must look like one.
    fn allocator_frames(&self, frames: &[u32]) -> u32 {
        let is_inline = |position: u32| {
            self.infos
                .get(position as usize)
                .is_some_and(|info| info.inline)
        };
        let inlines = frames
            .iter()
            .take_while(|&&position| is_inline(position))
            .count();
        let wrappers = frames
            .iter()
            .skip(inlines + 1)
            .take_while(|&&position| {
                self.allocates
                    .get(position as usize)
                    .copied()
                    .unwrap_or(false)
            })
            .count();
        u32::try_from((inlines + 1 + wrappers).min(frames.len())).unwrap_or(u32::MAX)
    }

    fn position(&mut self, id: FrameId) -> u32 {
        if let Some(Some(position)) = self.by_id.get(id.index()) {
            return *position;
        }
        let info = self
            .symbols
            .frame(id)
            .map_or_else(FrameInfo::default, |frame| self.info(frame));
        let position = self.place(info);
        if let Some(slot) = self.by_id.get_mut(id.index()) {
            *slot = Some(position);
        }
        position
    }

    fn info(&self, frame: &Frame) -> FrameInfo {
        let string = |id| self.symbols.string(id).to_owned();
        FrameInfo {
            function: frame.function.map(string),
            file: frame.file.map(string),
            line: frame.line,
            module: frame.module_name.map(string),
            address: frame.address.0,
            inline: frame.inline,
            signal: frame.signal,
        }
    }

    fn place(&mut self, info: FrameInfo) -> u32 {
        if let Some(&position) = self.by_info.get(&info) {
            return position;
        }
        let position = u32::try_from(self.infos.len()).unwrap_or(u32::MAX);
        self.allocates
            .push(info.function.as_deref().is_some_and(is_allocation_function));
        self.by_info.insert(info.clone(), position);
        self.infos.push(info);
        position
    }
}

/// What makes two frames the same call site: the same line of the same
/// function, whichever instruction of it called; without a name, the address.
#[derive(PartialEq, Eq, Hash)]
struct SiteKey<'a> {
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: u32,
    module: Option<&'a str>,
    address: u64,
}

/// Sums stacks by call site.
fn sites(frames: &[FrameInfo], stacks: &[StackCost]) -> Vec<Site> {
    let mut by_key: HashMap<SiteKey<'_>, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut sites: Vec<Site> = Vec::new();
    for (example, stack) in (0u32..).zip(stacks) {
        // A stack of nothing but allocation functions is its outermost frame's.
        let innermost = (stack.allocator_frames as usize).min(stack.frames.len().saturating_sub(1));
        let Some(&frame) = stack.frames.get(innermost) else {
            continue;
        };
        let Some(info) = frames.get(frame as usize) else {
            continue;
        };
        let key = SiteKey {
            function: info.function.as_deref(),
            file: info.file.as_deref(),
            line: info.line,
            module: info.module.as_deref(),
            address: info.function.as_ref().map_or(info.address, |_| 0),
        };
        // Stacks come costliest first, so the first one is the example.
        let position = *by_key.entry(key).or_insert_with(|| {
            sites.push(Site {
                frame,
                example,
                ..Site::default()
            });
            sites.len() - 1
        });
        if let Some(site) = sites.get_mut(position) {
            site.stacks = site.stacks.saturating_add(1);
            accumulate(&mut site.costs, &stack.costs);
        }
    }
    sites.sort_by_key(|site| std::cmp::Reverse(rank(&site.costs)));
    sites
}

fn accumulate(sum: &mut Costs, costs: &Costs) {
    add(&mut sum.allocations, costs.allocations);
    add(&mut sum.allocated_bytes, costs.allocated_bytes);
    add(&mut sum.peak_bytes, costs.peak_bytes);
    add(&mut sum.peak_blocks, costs.peak_blocks);
    add(&mut sum.leaked_bytes, costs.leaked_bytes);
    add(&mut sum.leaked_blocks, costs.leaked_blocks);
    add(&mut sum.failed, costs.failed);
}
