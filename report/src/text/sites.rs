//! Tables of call sites.

use crate::{
    escape::printable,
    format::Options,
    name::shorten,
    units::{bytes, count, counted, share},
};
use comfy_table::{CellAlignment, Table, presets};
use memtrack_analyze::findings::{Costs, Findings, FrameInfo, Measure, Site};
use std::{
    cmp::Reverse,
    io::{self, Write},
};

/// The costliest call sites by one measure.
pub(super) fn table(
    findings: &Findings,
    measure: Measure,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = total(findings, measure);
    let mut sites: Vec<&Site> = findings
        .sites
        .iter()
        .filter(|site| site.costs.get(measure) > 0)
        .collect();
    writeln!(out, "\n{}", heading(measure, total))?;
    if sites.is_empty() {
        return Ok(());
    }
    sites.sort_by_key(|site| Reverse(site.costs.get(measure)));
    let [value, other] = match measure {
        Measure::PeakBytes | Measure::LeakedBytes => ["bytes", "blocks"],
        Measure::AllocatedBytes => ["bytes", "calls"],
        Measure::Allocations => ["calls", "bytes"],
    };
    let mut table = plain_table(
        &[value, "share", other, "call site"],
        &[CellAlignment::Right; 3],
    );
    for site in sites.iter().take(options.top) {
        let [value, other] = values(&site.costs, measure);
        table.add_row([
            value,
            share(site.costs.get(measure), total),
            other,
            describe(findings, site, options.callers),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    let rest = sites.get(options.top..).unwrap_or_default();
    if !rest.is_empty() {
        let rest_value = rest.iter().fold(0u64, |sum, site| {
            sum.saturating_add(site.costs.get(measure))
        });
        writeln!(
            out,
            "  and {} with {}",
            counted(rest.len() as u64, "more call site", "more call sites"),
            share(rest_value, total)
        )?;
    }
    Ok(())
}

/// Columns without lines between them; `alignments` are those of the first
/// columns, the rest is left-aligned.
pub(super) fn plain_table(header: &[&str], alignments: &[CellAlignment]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    for (position, alignment) in alignments.iter().enumerate() {
        if let Some(column) = table.column_mut(position) {
            column.set_cell_alignment(*alignment);
        }
    }
    table
}

fn total(findings: &Findings, measure: Measure) -> u64 {
    let totals = &findings.totals;
    match measure {
        Measure::PeakBytes => totals.peak_bytes,
        Measure::AllocatedBytes => totals.allocated_bytes,
        Measure::Allocations => totals.allocations,
        Measure::LeakedBytes => totals.leaked_bytes,
    }
}

fn heading(measure: Measure, total: u64) -> String {
    match measure {
        Measure::PeakBytes => format!("Live at the peak: {}, by call site", bytes(total)),
        Measure::AllocatedBytes => format!("Allocated: {}, by call site", bytes(total)),
        Measure::Allocations => format!("Allocations: {}, by call site", count(total)),
        Measure::LeakedBytes => format!("Leaked: {}, by call site", bytes(total)),
    }
}

/// The measure's value, and what it is good to know beside it.
fn values(costs: &Costs, measure: Measure) -> [String; 2] {
    match measure {
        Measure::PeakBytes => [bytes(costs.peak_bytes), count(costs.peak_blocks)],
        Measure::AllocatedBytes => [bytes(costs.allocated_bytes), count(costs.allocations)],
        Measure::Allocations => [count(costs.allocations), bytes(costs.allocated_bytes)],
        Measure::LeakedBytes => [bytes(costs.leaked_bytes), count(costs.leaked_blocks)],
    }
}

/// The site's frame, the functions it is inlined into, and the callers in its
/// costliest stack.
///
/// ```text
/// new_node (list.c:12)
///   inlined into push (list.c:40)
///   called by parse (parse.c:7)
/// ```
fn describe(findings: &Findings, site: &Site, callers: usize) -> String {
    let frame_at = |position: u32| findings.frames.get(position as usize);
    let mut lines = vec![frame_at(site.frame).map_or_else(String::new, place)];
    let stack = findings.stacks.get(site.example as usize);
    let outward = stack.map_or(&[][..], |stack| {
        stack
            .frames
            .get(stack.allocator_frames as usize..)
            .unwrap_or_default()
    });
    // The site's own inline chain is shown whole: it is one place in the
    // program. Of what is further out, so many frames as were asked for.
    let mut own = true;
    let mut inlined = frame_at(site.frame).is_some_and(|frame| frame.inline);
    let mut signalled = false;
    let mut left = callers;
    for frame in outward.iter().skip(1).filter_map(|&frame| frame_at(frame)) {
        own = own && inlined;
        if !own {
            let Some(fewer) = left.checked_sub(1) else {
                break;
            };
            left = fewer;
        }
        let how = match (inlined, signalled, frame.signal) {
            (true, ..) => "inlined into",
            (_, true, _) => "interrupted",
            (.., true) => "called by a signal, from",
            _ => "called by",
        };
        lines.push(format!("  {how} {}", place(frame)));
        signalled = frame.signal;
        inlined = frame.inline;
    }
    if site.stacks > 1 {
        lines.push(format!(
            "  on {} stacks; the costliest is shown",
            count(u64::from(site.stacks))
        ));
    }
    lines.join("\n")
}

/// `push (list.c:40)`, or the module where no line is known. Whole paths and
/// whole template arguments are in the other formats.
fn place(frame: &FrameInfo) -> String {
    let name = frame.display_name();
    let name = printable(&name);
    let name = shorten(&name);
    let place = match (&frame.file, &frame.module) {
        (Some(file), _) => {
            let file = file.rsplit('/').next().unwrap_or(file);
            match frame.line {
                0 => format!(" ({file})"),
                line => format!(" ({file}:{line})"),
            }
        }
        (None, Some(module)) if frame.function.is_some() => format!(" [{module}]"),
        _ => String::new(),
    };
    format!("{name}{}", printable(&place))
}
