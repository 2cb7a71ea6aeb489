//! The page's frame: head, order of the sections, tools.

use super::{UPLOT_LICENCE, payload, sections, sites};
use crate::{escape::printable, units};
use maud::{Markup, html};
use memtrack_analyze::findings::{Costs, Findings, Totals};

/// A small icicle; without one a browser may ask a server for an icon.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E\
%3Crect width='16' height='4' fill='%234f6bd8'/%3E%3Crect y='5' width='10' height='4' fill='%23d98324'/%3E\
%3Crect y='10' width='5' height='4' fill='%23339a6b'/%3E%3C/svg%3E";

pub(super) fn head(findings: &Findings, policy: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta http-equiv="Content-Security-Policy" content=(policy);
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        meta name="generator" content={ "memtrack " (findings.run.memtrack_version) };
        meta name="referrer" content="no-referrer";
        title { (title(findings)) }
        link rel="icon" href=(ICON);
    }
}

/// "python3 · memory": the program without its folder.
fn title(findings: &Findings) -> String {
    let program = findings
        .run
        .command
        .first()
        .map_or("a process", String::as_str);
    let name = program.rsplit('/').find(|part| !part.is_empty());
    format!("{} · memtrack", printable(name.unwrap_or(program)))
}

pub(super) fn body(findings: &Findings) -> Markup {
    html! {
        a.skip href="#main" { "Skip to the report" }
        header.page {
            p.brand { "memtrack" }
            h1 { code.name { (sections::command_line(&findings.run)) } }
            (sections::run_facts(&findings.run))
        }
        main #main {
            (sections::verdict(&findings.verdict, &disagreements(findings)))
            (sections::summary(&findings.totals, &findings.run))
            (sites::first_look(findings))
            section #time aria-labelledby="time-title" {
                h2 #time-title { "Live memory over time" }
                p.visually-hidden { (timeline_in_words(findings)) }
                div #timeline-chart role="group" aria-label="Chart of live memory" {
                    p.muted { (timeline_in_words(findings)) }
                }
                p.hint data-needs-script hidden {
                    "Drag to zoom, double-click to reset; click a name below the chart to show or hide it."
                }
            }
            (tools())
            (flame_graph())
            (sites::table(findings))
            (sections::processes(&findings.processes))
            (sections::modules(&findings.modules))
            (sections::terminations(&findings.terminations))
        }
        (footer(findings))
    }
}

/// Where the parts do not add up to the whole: never shown without a word.
fn disagreements(findings: &Findings) -> Vec<String> {
    let sum = payload::stack_sum(findings);
    let Totals {
        allocations,
        allocated_bytes,
        peak_bytes,
        leaked_bytes,
        ..
    } = findings.totals;
    let Costs {
        allocations: stack_allocations,
        allocated_bytes: stack_allocated,
        peak_bytes: stack_peak,
        leaked_bytes: stack_leaked,
        ..
    } = sum;
    [
        ("allocations", stack_allocations, allocations),
        ("bytes allocated", stack_allocated, allocated_bytes),
        ("bytes live at peak", stack_peak, peak_bytes),
        ("bytes leaked", stack_leaked, leaked_bytes),
    ]
    .into_iter()
    .filter(|(_, stacks, total)| stacks > total)
    .map(|(what, stacks, total)| {
        format!(
            "the stacks hold {} {what}, the total says {}: this is a fault of memtrack",
            units::count(stacks),
            units::count(total)
        )
    })
    .collect()
}

fn timeline_in_words(findings: &Findings) -> String {
    let Totals {
        peak_bytes,
        peak_blocks,
        peak_at_ns,
        leaked_bytes,
        ..
    } = findings.totals;
    format!(
        "Live memory rose to {} in {} blocks at {} of {}; {} were live at the end.",
        units::bytes(peak_bytes),
        units::count(peak_blocks),
        units::duration(peak_at_ns),
        units::duration(findings.run.duration_ns),
        units::bytes(leaked_bytes),
    )
}

/// The measure and the search: one of each for flame graph and table.
fn tools() -> Markup {
    let measures = [
        ("peak_bytes", "Live at peak"),
        ("allocated_bytes", "Allocated"),
        ("allocations", "Count"),
        ("leaked_bytes", "Leaked"),
    ];
    html! {
        div.tools role="toolbar" aria-label="Measure and search" data-needs-script hidden {
            fieldset.measures {
                legend.visually-hidden { "Measure" }
                @for (position, (id, label)) in measures.into_iter().enumerate() {
                    label {
                        input type="radio" name="measure" value=(id) checked[position == 0];
                        span { (label) }
                    }
                }
            }
            div.search-box {
                label.visually-hidden for="search" { "Search function, file or module (regular expression)" }
                input #search type="search" placeholder="Search function, file, module (regex)"
                    autocomplete="off" spellcheck="false" aria-describedby="search-result";
                kbd aria-hidden="true" { "/" }
                output #search-result for="search" {}
            }
        }
    }
}

fn flame_graph() -> Markup {
    html! {
        section #flame aria-labelledby="flame-title" data-needs-script hidden {
            div.section-head {
                h2 #flame-title { "Flame graph" }
                div.buttons {
                    button #invert type="button" aria-pressed="false"
                        title="Call sites on top, their callers below" { "Invert" }
                    button #zoom-reset type="button" disabled title="Esc" { "Reset zoom" }
                }
            }
            nav aria-label="Zoomed frame" { ol #crumbs {} }
            div.frame-details {
                p #frame-name {}
                p #frame-costs {}
            }
            p #flame-empty .muted hidden {}
            div #icicle role="tree" tabindex="0" aria-label="Flame graph; arrow keys move, Enter zooms" {}
            ul #legend aria-label="Colours by module" {}
            p.hint {
                span #icicle-order { "Callers above, callees below" }
                "; the width is the chosen measure. Click or "
                kbd { "Enter" } " zooms, arrow keys move, " kbd { "Backspace" } " zooms out, "
                kbd { "Esc" } " resets, " kbd { "/" } " searches."
            }
        }
    }
}

fn footer(findings: &Findings) -> Markup {
    html! {
        footer.page {
            p {
                "Written by memtrack " (env!("CARGO_PKG_VERSION")) ". Recorded by memtrack "
                (findings.run.memtrack_version) ". Sizes are bytes as requested by the program, in binary units: 1 KiB is 1024 B."
            }
            details {
                summary { "Licence of the chart library" }
                p { "The timeline is drawn by uPlot 1.6.32." }
                pre { (UPLOT_LICENCE) }
            }
        }
    }
}
