//! The sections that are complete without the script.

use crate::{escape::printable, units};
use maud::{Markup, html};
use memtrack_analyze::findings::{ModuleInfo, ProcessInfo, Run, Totals, Verdict};

/// Whether the numbers are the whole truth; stands before any of them.
pub(super) fn verdict(verdict: &Verdict, disagreements: &[String]) -> Markup {
    let complete = verdict.complete && disagreements.is_empty();
    html! {
        section.verdict.complete[complete].incomplete[!complete] #verdict aria-label="Completeness" {
            span.sign aria-hidden="true" { @if complete { "✓" } @else { "!" } }
            div {
                p.headline { (printable(&verdict.headline)) }
                @if !verdict.problems.is_empty() || !disagreements.is_empty() {
                    ul.problems {
                        @for problem in verdict.problems.iter().chain(disagreements) { li { (printable(problem)) } }
                    }
                }
                @if !verdict.notes.is_empty() {
                    details.notes open[verdict.notes.len() <= 3] {
                        summary {
                            @if verdict.notes.len() == 1 { "1 note" }
                            @else { (verdict.notes.len()) " notes" }
                        }
                        ul { @for note in &verdict.notes { li { (printable(note)) } } }
                    }
                }
            }
        }
    }
}

/// The command as one types it: arguments with anything but plain characters
/// are quoted.
pub(super) fn command_line(run: &Run) -> String {
    if run.command.is_empty() {
        return "a process that was already running".to_owned();
    }
    let words = run.command.iter().map(String::as_str);
    // The one thing that no quoting can express is a NUL, which no argument
    // of a program holds.
    let line = shlex::try_join(words).unwrap_or_else(|_| run.command.join(" "));
    printable(&line).into_owned()
}

/// When, where and how it was recorded.
pub(super) fn run_facts(run: &Run) -> Markup {
    html! {
        dl.facts {
            div { dt { "Recorded" } dd { (units::wall_time(run.start_wall_ns)) } }
            div { dt { "Duration" } dd { (units::duration(run.duration_ns)) } }
            div {
                dt { "Ended" }
                dd { (printable(run.ended.as_deref().unwrap_or("not seen: the recording ended first"))) }
            }
            div { dt { "Machine" } dd { (run.architecture) ", Linux " (printable(kernel_release(&run.kernel))) } }
            div {
                dt { "Backend" }
                dd {
                    (run.backend)
                    @if !run.options.is_empty() {
                        details { summary { "options" } ul { @for option in &run.options { li { code { (printable(option)) } } } } }
                    }
                }
            }
        }
    }
}

/// The release alone: the version behind it is a build date.
fn kernel_release(kernel: &str) -> &str {
    kernel.split_whitespace().next().unwrap_or("unknown")
}

/// The sums over everything.
pub(super) fn summary(totals: &Totals, run: &Run) -> Markup {
    let rate = |count: u64| {
        (run.duration_ns > 0)
            .then(|| units::count((count as f64 * 1e9 / run.duration_ns as f64).round() as u64))
    };
    html! {
        section #summary aria-label="Summary" {
            dl.cards {
                (card("Live at peak", &units::bytes(totals.peak_bytes), Some(totals.peak_bytes), html! {
                    (units::count(totals.peak_blocks)) " blocks, at " (units::duration(totals.peak_at_ns))
                }))
                (card("Allocated", &units::bytes(totals.allocated_bytes), Some(totals.allocated_bytes), html! {
                    @if totals.peak_bytes > 0 {
                        (format!("{:.1}", totals.allocated_bytes as f64 / totals.peak_bytes as f64)) " times the peak"
                    }
                }))
                (card("Allocations", &units::count(totals.allocations), None, html! {
                    @if let Some(rate) = rate(totals.allocations) { (rate) " a second" }
                }))
                (card("Leaked", &units::bytes(totals.leaked_bytes), Some(totals.leaked_bytes), html! {
                    (units::count(totals.leaked_blocks)) " blocks live at the end"
                }))
                (card("Frees", &units::count(totals.frees), None, html! {
                    (other_frees(totals))
                }))
                @if totals.exec_blocks > 0 {
                    (card("Ended by exec", &units::bytes(totals.exec_bytes), Some(totals.exec_bytes), html! {
                        (units::count(totals.exec_blocks)) " blocks; no leak"
                    }))
                }
                @if totals.ended_unseen > 0 {
                    (card("End not seen", &units::count(totals.ended_unseen), None, html! {
                        "blocks whose address was given out again"
                    }))
                }
                (card("Failed", &units::count(totals.failed), None, html! { "calls that got no memory" }))
                (card("Stacks", &units::count(totals.distinct_stacks), None, html! { "distinct" }))
            }
        }
    }
}

/// Calls of `free` that ended no block.
fn other_frees(totals: &Totals) -> String {
    let others = [
        (totals.null_frees, "of NULL"),
        (totals.unknown_frees, "of blocks from before"),
        (totals.inherited_frees, "of a parent's blocks"),
    ];
    let mut words = Vec::new();
    for (count, what) in others {
        if count > 0 {
            words.push(format!("{} {what}", units::count(count)));
        }
    }
    if words.is_empty() {
        return "each ended a block".to_owned();
    }
    format!("besides {}", words.join(", "))
}

fn card(name: &str, value: &str, exact: Option<u64>, remark: Markup) -> Markup {
    html! {
        div.card {
            dt { (name) }
            dd.figure title=[exact.map(|bytes| format!("{} bytes", units::count(bytes)))] { (value) }
            dd.remark { (remark) }
        }
    }
}

pub(super) fn processes(processes: &[ProcessInfo]) -> Markup {
    let some_exec = processes
        .iter()
        .any(|process| process.ended_by_exec_blocks > 0);
    html! {
        section #processes aria-labelledby="processes-title" {
            h2 #processes-title { "Processes" }
            @if processes.is_empty() { p.muted { "None was seen." } }
            @else {
                div.scroll { table {
                    thead { tr {
                        th.number scope="col" { "Pid" }
                        th scope="col" { "Names" }
                        th.number scope="col" { "Parent" }
                        th.number scope="col" { "Own peak" }
                        th.number scope="col" { "Allocated" }
                        th.number scope="col" { "Allocations" }
                        th.number scope="col" { "Leaked" }
                        @if some_exec { th.number scope="col" title="Blocks that an exec dropped; they are no leaks" { "Ended by exec" } }
                    } }
                    tbody { @for process in processes {
                        tr {
                            th.number scope="row" { (process.pid) }
                            td { span.name { (printable(&process.names.join(" → "))) } }
                            td.number { @if let Some(parent) = process.parent { (parent) } @else { "–" } }
                            td.number { (units::bytes(process.peak_bytes)) }
                            td.number { (units::bytes(process.allocated_bytes)) }
                            td.number { (units::count(process.allocations)) }
                            td.number { (units::bytes(process.leaked_bytes)) }
                            @if some_exec { td.number { (units::count(process.ended_by_exec_blocks)) " blocks" } }
                        }
                    } }
                } }
            }
        }
    }
}

/// Which files gave names, and what is missing.
pub(super) fn modules(modules: &[ModuleInfo]) -> Markup {
    html! {
        section #modules aria-labelledby="modules-title" {
            h2 #modules-title { "Modules and names" }
            @if modules.is_empty() { p.muted { "No module was asked for names." } }
            @else {
                div.scroll { table {
                    thead { tr {
                        th scope="col" { "Module" }
                        th.number scope="col" { "Addresses" }
                        th.number scope="col" { "Named" }
                        th.number scope="col" { "With lines" }
                        th scope="col" { "Notes" }
                    } }
                    tbody { @for module in modules {
                        tr {
                            th scope="row" {
                                span.name { (printable(&module.path)) }
                                span.place {
                                    @if module.key.is_empty() { "its file could not be taken" }
                                    @else { code.key { (module.key) } }
                                }
                            }
                            td.number { (units::count(module.asked)) }
                            td.number { (units::share(module.named, module.asked)) }
                            td.number { (units::share(module.with_lines, module.asked)) }
                            td.notes { @for note in &module.notes { p { (printable(note)) } } }
                        }
                    } }
                } }
            }
        }
    }
}

/// Why stacks ended.
pub(super) fn terminations(terminations: &[(String, u64)]) -> Markup {
    let total = terminations
        .iter()
        .fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    html! {
        section #ends aria-labelledby="ends-title" {
            h2 #ends-title { "How the stacks end" }
            @if terminations.is_empty() { p.muted { "No stack was recorded." } }
            @else {
                div.scroll { table.narrow {
                    thead { tr {
                        th scope="col" { "End" }
                        th.number scope="col" { "Stacks" }
                        th.number scope="col" { "Share" }
                    } }
                    tbody { @for (reason, count) in terminations {
                        tr {
                            th scope="row" { (printable(reason)) }
                            td.number { (units::count(*count)) }
                            td.number { (units::share(*count, total)) }
                        }
                    } }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_can_be_typed() {
        let command = ["cc", "-o", "a b", "it's", "", "$(x)"].map(str::to_owned);
        let run = Run {
            command: command.to_vec(),
            ..Run::default()
        };
        assert_eq!(shlex::split(&command_line(&run)).unwrap(), command);
    }
}
