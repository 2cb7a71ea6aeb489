//! The findings as the page's script reads them: columns of integers.
//!
//! Strings are stored once and named by position plus one (0: none). Stacks
//! are one prefix tree from the outermost frame inwards, in depth-first
//! order, so that a parent comes before its children and the distance to it
//! is mostly 1:
//!
//! ```text
//! stacks                         node   0    1    2     3    4      5      6   7
//! main → parse → grow → malloc   frame  all  main parse grow malloc malloc run malloc
//! main → parse → malloc          up     0    1    1     1    1      3      5   1
//! main → run → malloc            ends   4, 5, 7
//! ```
//!
//! (`up` of node 5 is 3: its parent is node 2, `parse`.)
//! A hundred thousand stacks of thirty frames take a few megabytes this way,
//! and the script sums a measure over the tree in one backward pass.

use crate::{escape::printable, name};
use memtrack_analyze::findings::{Costs, Findings, FrameInfo, StackCost, TimelinePoint, Totals};
use serde::Serialize;
use std::{borrow::Cow, collections::HashMap};

const INLINE: u8 = 1;
const SIGNAL: u8 = 2;
/// Not a function: the root, a cut, a stack that was not recorded.
const SYNTHETIC: u8 = 4;

#[derive(Debug, Serialize)]
pub(super) struct Payload<'a> {
    strings: Vec<Cow<'a, str>>,
    /// String references, the costliest module not necessarily first.
    modules: Vec<u32>,
    frames: Frames,
    nodes: Nodes,
    stacks: Stacks,
    sites: Sites,
    timeline: Timeline,
    totals: &'a Totals,
}

#[derive(Debug, Default, Serialize)]
struct Frames {
    name: Vec<u32>,
    /// The name in few letters.
    short: Vec<u32>,
    file: Vec<u32>,
    line: Vec<u32>,
    /// Position in `modules` plus one.
    module: Vec<u32>,
    flags: Vec<u8>,
}

#[derive(Debug, Serialize)]
struct Nodes {
    up: Vec<u32>,
    frame: Vec<u32>,
}

#[derive(Debug, Default, Serialize)]
struct Stacks {
    /// The node of the innermost frame.
    node: Vec<u32>,
    /// How many nodes from there outwards are allocation functions.
    allocator: Vec<u32>,
    costs: CostColumns,
}

#[derive(Debug, Default, Serialize)]
struct Sites {
    frame: Vec<u32>,
    example: Vec<u32>,
    costs: CostColumns,
}

#[derive(Debug, Default, Serialize)]
struct CostColumns {
    allocations: Vec<u64>,
    allocated_bytes: Vec<u64>,
    peak_bytes: Vec<u64>,
    peak_blocks: Vec<u64>,
    leaked_bytes: Vec<u64>,
    leaked_blocks: Vec<u64>,
    failed: Vec<u64>,
}

impl CostColumns {
    fn push(&mut self, costs: &Costs) {
        self.allocations.push(costs.allocations);
        self.allocated_bytes.push(costs.allocated_bytes);
        self.peak_bytes.push(costs.peak_bytes);
        self.peak_blocks.push(costs.peak_blocks);
        self.leaked_bytes.push(costs.leaked_bytes);
        self.leaked_blocks.push(costs.leaked_blocks);
        self.failed.push(costs.failed);
    }
}

#[derive(Debug, Serialize)]
struct Timeline {
    time_ns: Vec<u64>,
    live_bytes: Vec<u64>,
    live_blocks: Vec<u64>,
}

impl Timeline {
    fn new(points: &[TimelinePoint]) -> Self {
        Self {
            time_ns: points.iter().map(|point| point.time_ns).collect(),
            live_bytes: points.iter().map(|point| point.live_bytes).collect(),
            live_blocks: points.iter().map(|point| point.live_blocks).collect(),
        }
    }
}

/// Distinct values with their positions.
struct Interner<'a> {
    items: Vec<Cow<'a, str>>,
    positions: HashMap<Cow<'a, str>, u32>,
}

impl<'a> Interner<'a> {
    fn new() -> Self {
        Self {
            items: Vec::new(),
            positions: HashMap::new(),
        }
    }

    /// Position plus one.
    fn add(&mut self, text: impl Into<Cow<'a, str>>) -> u32 {
        let text = text.into();
        if let Some(position) = self.positions.get(&text) {
            return *position;
        }
        self.items.push(text.clone());
        let position = id(self.items.len());
        self.positions.insert(text, position);
        position
    }
}

/// Counts here are bounded by those of the findings, which are `u32`.
fn id(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

struct Builder<'a> {
    strings: Interner<'a>,
    module_strings: Vec<u32>,
    module_positions: HashMap<u32, u32>,
    frames: Frames,
    synthetic: HashMap<Cow<'static, str>, u32>,
}

impl<'a> Builder<'a> {
    fn frame(&mut self, frame: &'a FrameInfo) {
        let (name, short) = match &frame.function {
            Some(function) => {
                let function = printable(function);
                let short = name::shorten(&function).into_owned();
                (self.strings.add(function), self.strings.add(short))
            }
            None => {
                let name = printable(&frame.display_name()).into_owned();
                let name = self.strings.add(name);
                (name, name)
            }
        };
        let file = frame
            .file
            .as_deref()
            .map_or(0, |file| self.strings.add(printable(file)));
        let module = frame.module.as_deref().map_or(0, |module| {
            let string = self.strings.add(printable(module));
            *self.module_positions.entry(string).or_insert_with(|| {
                self.module_strings.push(string);
                id(self.module_strings.len())
            })
        });
        let flags = if frame.inline { INLINE } else { 0 } | if frame.signal { SIGNAL } else { 0 };
        self.frames.name.push(name);
        self.frames.short.push(short);
        self.frames.file.push(file);
        self.frames.line.push(frame.line);
        self.frames.module.push(module);
        self.frames.flags.push(flags);
    }

    /// The position of a frame that is no function.
    fn synthetic(&mut self, name: impl Into<Cow<'static, str>>) -> u32 {
        let name = name.into();
        if let Some(position) = self.synthetic.get(&name) {
            return *position;
        }
        let position = id(self.frames.name.len());
        let string = self.strings.add(name.clone());
        self.frames.name.push(string);
        self.frames.short.push(string);
        self.frames.file.push(0);
        self.frames.line.push(0);
        self.frames.module.push(0);
        self.frames.flags.push(SYNTHETIC);
        self.synthetic.insert(name, position);
        position
    }

    /// The frames of a stack, outermost first. What stands at the root of a
    /// cut stack is not its root, and says so.
    fn path(&mut self, stack: &StackCost, frame_count: usize) -> Vec<u32> {
        let mut path = Vec::with_capacity(stack.frames.len() + 1);
        if let Some(reason) = &stack.truncated {
            path.push(self.synthetic(format!("[stack cut: {}]", printable(reason))));
        } else if stack.frames.is_empty() {
            path.push(self.synthetic(NO_STACK));
        }
        for frame in stack.frames.iter().rev() {
            if (*frame as usize) < frame_count {
                path.push(*frame);
            } else {
                path.push(self.synthetic("[unknown frame]"));
            }
        }
        path
    }
}

const NO_STACK: &str = "[stack not recorded]";

impl<'a> Payload<'a> {
    /// Builds the payload. What the totals hold beyond the sum of the stacks
    /// becomes a stack of its own, "stack not recorded": the picture and the
    /// totals agree.
    pub(super) fn new(findings: &'a Findings) -> Self {
        let mut builder = Builder {
            strings: Interner::new(),
            module_strings: Vec::new(),
            module_positions: HashMap::new(),
            frames: Frames::default(),
            synthetic: HashMap::new(),
        };
        for frame in &findings.frames {
            builder.frame(frame);
        }
        let root = builder.synthetic("all");
        let mut paths: Vec<Vec<u32>> = findings
            .stacks
            .iter()
            .map(|stack| builder.path(stack, findings.frames.len()))
            .collect();
        let mut stacks = Stacks::default();
        for (stack, path) in findings.stacks.iter().zip(&paths) {
            // At least one frame stays visible below the root.
            let hidden = stack.allocator_frames.min(id(path.len().saturating_sub(1)));
            stacks.allocator.push(hidden);
            stacks.costs.push(&stack.costs);
        }
        let rest = unaccounted(findings);
        if rest != Costs::default() {
            paths.push(vec![builder.synthetic(NO_STACK)]);
            stacks.allocator.push(0);
            stacks.costs.push(&rest);
        }
        let (nodes, leaves) = prefix_tree(root, &paths);
        stacks.node = leaves;

        let mut sites = Sites::default();
        for site in &findings.sites {
            let known = (site.frame as usize) < findings.frames.len();
            sites.frame.push(if known {
                site.frame
            } else {
                builder.synthetic(NO_STACK)
            });
            sites.example.push(site.example);
            sites.costs.push(&site.costs);
        }
        Self {
            strings: builder.strings.items,
            modules: builder.module_strings,
            frames: builder.frames,
            nodes,
            stacks,
            sites,
            timeline: Timeline::new(&findings.timeline),
            totals: &findings.totals,
        }
    }
}

/// Sum over all stacks.
pub(super) fn stack_sum(findings: &Findings) -> Costs {
    let mut sum = Costs::default();
    for StackCost { costs, .. } in &findings.stacks {
        sum.allocations = sum.allocations.saturating_add(costs.allocations);
        sum.allocated_bytes = sum.allocated_bytes.saturating_add(costs.allocated_bytes);
        sum.peak_bytes = sum.peak_bytes.saturating_add(costs.peak_bytes);
        sum.peak_blocks = sum.peak_blocks.saturating_add(costs.peak_blocks);
        sum.leaked_bytes = sum.leaked_bytes.saturating_add(costs.leaked_bytes);
        sum.leaked_blocks = sum.leaked_blocks.saturating_add(costs.leaked_blocks);
        sum.failed = sum.failed.saturating_add(costs.failed);
    }
    sum
}

fn unaccounted(findings: &Findings) -> Costs {
    let (sum, totals) = (stack_sum(findings), &findings.totals);
    Costs {
        allocations: totals.allocations.saturating_sub(sum.allocations),
        allocated_bytes: totals.allocated_bytes.saturating_sub(sum.allocated_bytes),
        peak_bytes: totals.peak_bytes.saturating_sub(sum.peak_bytes),
        peak_blocks: totals.peak_blocks.saturating_sub(sum.peak_blocks),
        leaked_bytes: totals.leaked_bytes.saturating_sub(sum.leaked_bytes),
        leaked_blocks: totals.leaked_blocks.saturating_sub(sum.leaked_blocks),
        failed: totals.failed.saturating_sub(sum.failed),
    }
}

/// The prefix tree of `paths` (outermost first) below `root`, and the node
/// of each path's end. In sorted order a path shares with the tree exactly
/// what it shares with the path before it.
fn prefix_tree(root: u32, paths: &[Vec<u32>]) -> (Nodes, Vec<u32>) {
    let mut order: Vec<usize> = (0..paths.len()).collect();
    order.sort_by(|a, b| paths[*a].cmp(&paths[*b]));
    let mut nodes = Nodes {
        up: vec![0],
        frame: vec![root],
    };
    let mut leaves = vec![0; paths.len()];
    // Frame and node from below the root to the end of the path before.
    let mut branch: Vec<(u32, u32)> = Vec::new();
    for position in order {
        let path = &paths[position];
        let shared = branch
            .iter()
            .zip(path)
            .take_while(|((frame, _), other)| frame == *other)
            .count();
        branch.truncate(shared);
        for frame in path.iter().skip(shared) {
            let node = id(nodes.frame.len());
            let parent = branch.last().map_or(0, |(_, node)| *node);
            nodes.up.push(node - parent);
            nodes.frame.push(*frame);
            branch.push((*frame, node));
        }
        leaves[position] = branch.last().map_or(0, |(_, node)| *node);
    }
    (nodes, leaves)
}

#[cfg(test)]
mod tests;
