//! Call sites: the short answer at the top, and the table that the script
//! later takes over.

use crate::{
    escape::printable,
    name,
    units::{self, counted},
};
use maud::{Markup, html};
use memtrack_analyze::findings::{Costs, Findings, FrameInfo, Site, StackCost};

/// Rows that are readable without the script.
const STATIC_ROWS: usize = 200;
/// Innermost frames of their stacks; the script shows all.
const STATIC_FRAMES: usize = 24;
/// Sites per question at the top.
const FIRST_LOOK_ROWS: usize = 4;

/// One question of the first look.
struct Question {
    title: &'static str,
    value: fn(&Costs) -> u64,
    total: u64,
    format: fn(u64) -> String,
    remark: fn(&Costs) -> String,
    nothing: &'static str,
}

/// The costliest sites for each of the questions people come with.
pub(super) fn first_look(findings: &Findings) -> Markup {
    let totals = &findings.totals;
    let questions = [
        Question {
            title: "Holds the peak",
            value: |costs| costs.peak_bytes,
            total: totals.peak_bytes,
            format: units::bytes,
            remark: |costs| blocks(costs.peak_bytes, costs.peak_blocks),
            nothing: "Nothing was live.",
        },
        Question {
            title: "Allocates most often",
            value: |costs| costs.allocations,
            total: totals.allocations,
            format: calls,
            remark: |costs| {
                format!(
                    "{} in all, {} each",
                    units::bytes(costs.allocated_bytes),
                    units::bytes(costs.allocated_bytes / costs.allocations.max(1))
                )
            },
            nothing: "Nothing was allocated.",
        },
        Question {
            title: "Is never freed",
            value: |costs| costs.leaked_bytes,
            total: totals.leaked_bytes,
            format: units::bytes,
            remark: |costs| blocks(costs.leaked_bytes, costs.leaked_blocks),
            nothing: "Everything was freed.",
        },
    ];
    html! {
        section #look aria-labelledby="look-title" {
            h2 #look-title { "Where to look first" }
            div.columns {
                @for question in &questions { (answers(findings, question)) }
            }
        }
    }
}

fn calls(count: u64) -> String {
    counted(count, "call", "calls")
}

fn blocks(bytes: u64, blocks: u64) -> String {
    match blocks {
        0 | 1 => "1 block".to_owned(),
        _ => format!(
            "{} blocks, {} each",
            units::count(blocks),
            units::bytes(bytes / blocks)
        ),
    }
}

fn answers(findings: &Findings, question: &Question) -> Markup {
    let mut order: Vec<(usize, &Site)> = findings
        .sites
        .iter()
        .enumerate()
        .filter(|(_, site)| (question.value)(&site.costs) > 0)
        .collect();
    order.sort_by_key(|(position, site)| {
        (std::cmp::Reverse((question.value)(&site.costs)), *position)
    });
    html! {
        article.answers {
            h3 { (question.title) }
            @if order.is_empty() { p.muted { (question.nothing) } }
            ol {
                @for (position, site) in order.into_iter().take(FIRST_LOOK_ROWS) {
                    (answer(findings, question, position, site))
                }
            }
        }
    }
}

fn answer(findings: &Findings, question: &Question, position: usize, site: &Site) -> Markup {
    let value = (question.value)(&site.costs);
    let callers = costliest(findings, site, question.value)
        .map_or_else(Vec::new, |stack| callers(findings, stack));
    let full_name = site_name(findings, site);
    html! {
        li {
            p.answer-share {
                strong { (units::share(value, question.total)) }
                svg.share-line viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true" {
                    rect.track width="100" height="1" {}
                    rect.fill width=(percent(value, question.total)) height="1" {}
                }
                span { ((question.format)(value)) }
            }
            p.answer-name {
                a.name href={ "#site-" (position) } data-site=(position) { (name::shorten(&full_name)) }
            }
            @if let Some(place) = frame(findings, site.frame).and_then(short_place) {
                p.place { span.source { (place) } }
            }
            @if !callers.is_empty() {
                p.callers {
                    @for caller in callers { span { "← " (caller) } " " }
                }
            }
            p.muted { ((question.remark)(&site.costs)) }
        }
    }
}

fn percent(value: u64, whole: u64) -> String {
    if whole == 0 {
        return "0".to_owned();
    }
    format!("{:.2}", (100.0 * value as f64 / whole as f64).min(100.0))
}

/// Who called a site in `stack`: the next two functions outwards, and the
/// first one of another module, since a site inside a library or an
/// interpreter is often recognised only by who asked for it.
fn callers(findings: &Findings, stack: &StackCost) -> Vec<String> {
    let mut outwards = stack
        .frames
        .iter()
        .skip(stack.allocator_frames as usize)
        .filter_map(|position| frame(findings, *position));
    let Some(site) = outwards.next() else {
        return Vec::new();
    };
    let mut callers: Vec<String> = Vec::new();
    let mut last = site.display_name();
    for caller in outwards {
        let elsewhere = caller.module != site.module && !is_start(caller);
        let name = caller.display_name();
        // A function and its own inlined part, or a recursion.
        if name == last || (callers.len() >= 2 && !elsewhere) {
            continue;
        }
        callers.push(name::shorten(&printable(&name)).into_owned());
        if elsewhere {
            break;
        }
        last = name;
    }
    callers
}

/// Frames with which every program begins: the entry, the C library, the
/// loader.
fn is_start(frame: &FrameInfo) -> bool {
    if frame.function.as_deref() == Some("_start") {
        return true;
    }
    let module = frame.module.as_deref().unwrap_or_default();
    ["libc.so", "libc-", "libpthread", "ld-"]
        .iter()
        .any(|start| module.starts_with(start))
}

/// The stack through a site that costs most by `value`.
fn costliest<'a>(
    findings: &'a Findings,
    site: &Site,
    value: fn(&Costs) -> u64,
) -> Option<&'a StackCost> {
    let through =
        |stack: &&StackCost| stack.frames.get(stack.allocator_frames as usize) == Some(&site.frame);
    let stacks = findings.stacks.iter();
    // Of equals the first, which holds more of the peak.
    stacks
        .rev()
        .filter(through)
        .max_by_key(|stack| value(&stack.costs))
}

fn frame(findings: &Findings, position: u32) -> Option<&FrameInfo> {
    findings.frames.get(position as usize)
}

fn site_name(findings: &Findings, site: &Site) -> String {
    frame(findings, site.frame).map_or_else(
        || "[stack not recorded]".to_owned(),
        |frame| printable(&frame.display_name()).into_owned(),
    )
}

/// `file:line` with the whole path.
fn place(frame: &FrameInfo) -> Option<String> {
    let file = printable(frame.file.as_ref()?);
    Some(match frame.line {
        0 => file.into_owned(),
        line => format!("{file}:{line}"),
    })
}

/// `file:line` with the last part of the path.
fn short_place(frame: &FrameInfo) -> Option<String> {
    let whole = place(frame)?;
    Some(match whole.rsplit_once('/') {
        Some((_, last)) if !last.is_empty() => last.to_owned(),
        _ => whole,
    })
}

/// The table: its rows are replaced by the script, which can sort, filter
/// and open all of them.
pub(super) fn table(findings: &Findings) -> Markup {
    let rows = findings.sites.len();
    html! {
        section #sites aria-labelledby="sites-title" {
            div.section-head {
                h2 #sites-title { "Call sites" }
                p #sites-count .muted aria-live="polite" {
                    @if rows > STATIC_ROWS {
                        "the first " (STATIC_ROWS) " of " (units::count(rows as u64)) " by bytes live at peak"
                    }
                }
            }
            div.scroll {
                table #sites-table {
                    thead {
                        tr {
                            th scope="col" data-column="name" { "Function that allocates" }
                            th.number scope="col" data-column="peak_bytes" { "Live at peak" }
                            th.number scope="col" data-column="allocated_bytes" { "Allocated" }
                            th.number scope="col" data-column="allocations" { "Allocations" }
                            th.number scope="col" data-column="leaked_bytes" { "Leaked" }
                        }
                    }
                    tbody {
                        @for (position, site) in findings.sites.iter().take(STATIC_ROWS).enumerate() {
                            (row(findings, position, site))
                        }
                    }
                }
            }
            button #sites-more .quiet type="button" hidden { "Show more" }
        }
    }
}

fn row(findings: &Findings, position: usize, site: &Site) -> Markup {
    let costs = &site.costs;
    html! {
        tr id={ "site-" (position) } {
            th scope="row" {
                span.name { (site_name(findings, site)) }
                @if let Some(frame) = frame(findings, site.frame) { (place_line(frame)) }
                @if let Some(stack) = findings.stacks.get(site.example as usize) {
                    details {
                        summary { "Costliest of " (units::count(site.stacks.into())) " stacks" }
                        (frames(findings, stack))
                    }
                }
            }
            td.number { (units::bytes(costs.peak_bytes)) }
            td.number { (units::bytes(costs.allocated_bytes)) }
            td.number { (units::count(costs.allocations)) }
            td.number { (units::bytes(costs.leaked_bytes)) }
        }
    }
}

fn place_line(frame: &FrameInfo) -> Markup {
    html! {
        span.place {
            @if let Some(place) = place(frame) { span.source { (place) } }
            @if let Some(module) = &frame.module { span.module { (printable(module)) } }
        }
    }
}

fn frames(findings: &Findings, stack: &StackCost) -> Markup {
    let allocator_frames = stack.allocator_frames as usize;
    html! {
        ol.frames {
            @for (depth, position) in stack.frames.iter().take(STATIC_FRAMES).enumerate() {
                @if let Some(frame) = frame(findings, *position) {
                    li.frame.allocator[depth < allocator_frames] {
                        span.name { (printable(&frame.display_name())) }
                        @if frame.inline { span.tag { "inline" } }
                        @if frame.signal { span.tag { "signal" } }
                        (place_line(frame))
                    }
                }
            }
            @if stack.frames.len() > STATIC_FRAMES {
                li.frame.muted { "and " (stack.frames.len() - STATIC_FRAMES) " more frames outwards" }
            }
            @if let Some(reason) = &stack.truncated {
                li.frame.cut { "the stack was cut here: " (printable(reason)) }
            }
        }
    }
}
