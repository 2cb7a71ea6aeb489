//! Folded stacks: one line a stack, root first, frames joined by `;`, the
//! value last. What most flame graph tools read.
//!
//! Stacks that read the same are one line, lines are sorted, and stacks
//! without a share of the measure are left out, so that the values add up to
//! the report's total. A stack whose root was not reached says so in a frame
//! of its own, where its root would be.

use crate::{
    escape,
    format::{Options, Report},
};
use memtrack_analyze::findings::{Findings, Measure, StackCost};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// The folded format.
#[derive(Clone, Copy, Debug)]
pub struct Folded;

impl Report for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn summary(&self) -> &'static str {
        "folded stacks, one a line, for flame graph tools"
    }

    fn write(&self, findings: &Findings, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        for (stack, value) in fold(findings, options.measure) {
            writeln!(out, "{stack} {value}")?;
        }
        Ok(())
    }
}

/// Values by folded stack.
pub(crate) fn fold(findings: &Findings, measure: Measure) -> BTreeMap<String, u64> {
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &findings.stacks {
        let value = stack.costs.get(measure);
        if value == 0 {
            continue;
        }
        let sum = folded.entry(line(findings, stack)).or_default();
        *sum = sum.saturating_add(value);
    }
    folded
}

fn line(findings: &Findings, stack: &StackCost) -> String {
    let mut line = String::new();
    if let Some(reason) = &stack.truncated
        && stack.allocator_frames > 0
    {
        line.push_str(&escape::folded(&format!("[{reason}]")));
    }
    for &position in stack.frames.iter().rev() {
        let name = findings
            .frames
            .get(position as usize)
            .map(|frame| frame.display_name())
            .unwrap_or_default();
        if !line.is_empty() {
            line.push(';');
        }
        line.push_str(match &*escape::folded(&name) {
            "" => "[no name]",
            name => name,
        });
    }
    line
}
