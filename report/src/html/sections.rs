//! The sections that are complete without the script.

use super::number;
use maud::{Markup, html};
use memtrack_analyze::findings::{ModuleInfo, ProcessInfo, Run, Totals, Verdict};
use std::time::{Duration, UNIX_EPOCH};

/// Whether the numbers are the whole truth; stands before any of them.
pub(super) fn verdict(verdict: &Verdict, disagreements: &[String]) -> Markup {
    let complete = verdict.complete && disagreements.is_empty();
    html! {
        section.verdict.complete[complete].incomplete[!complete] #verdict aria-label="Completeness" {
            span.sign aria-hidden="true" { @if complete { "✓" } @else { "!" } }
            div {
                p.headline { (verdict.headline) }
                @if !verdict.problems.is_empty() || !disagreements.is_empty() {
                    ul.problems {
                        @for problem in verdict.problems.iter().chain(disagreements) { li { (problem) } }
                    }
                }
                @if !verdict.notes.is_empty() {
                    details.notes open[verdict.notes.len() <= 3] {
                        summary {
                            @if verdict.notes.len() == 1 { "1 note" }
                            @else { (verdict.notes.len()) " notes" }
                        }
                        ul { @for note in &verdict.notes { li { (note) } } }
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
    shlex::try_join(words).unwrap_or_else(|_| run.command.join(" "))
}

/// When, where and how it was recorded.
pub(super) fn run_facts(run: &Run) -> Markup {
    html! {
        dl.facts {
            div { dt { "Recorded" } dd { (date(run.start_wall_ns)) } }
            div { dt { "Duration" } dd { (number::time(run.duration_ns)) } }
            div {
                dt { "Ended" }
                dd { (run.ended.as_deref().unwrap_or("not seen: the recording ended first")) }
            }
            div { dt { "Machine" } dd { (run.architecture) ", Linux " (kernel_release(&run.kernel)) } }
            div {
                dt { "Backend" }
                dd {
                    (run.backend)
                    @if !run.options.is_empty() {
                        details { summary { "options" } ul { @for option in &run.options { li { code { (option) } } } } }
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

/// `2026-03-01 12:00:05 UTC`, from nanoseconds since 1970.
fn date(wall_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(wall_ns);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

/// The sums over everything.
pub(super) fn summary(totals: &Totals, run: &Run) -> Markup {
    let rate = |count: u64| {
        (run.duration_ns > 0)
            .then(|| number::count((count as f64 * 1e9 / run.duration_ns as f64).round() as u64))
    };
    html! {
        section #summary aria-label="Summary" {
            dl.cards {
                (card("Live at peak", &number::bytes(totals.peak_bytes), Some(totals.peak_bytes), html! {
                    (number::count(totals.peak_blocks)) " blocks, at " (number::time(totals.peak_at_ns))
                }))
                (card("Allocated", &number::bytes(totals.allocated_bytes), Some(totals.allocated_bytes), html! {
                    @if totals.peak_bytes > 0 {
                        (format!("{:.1}", totals.allocated_bytes as f64 / totals.peak_bytes as f64)) " times the peak"
                    }
                }))
                (card("Allocations", &number::count(totals.allocations), None, html! {
                    @if let Some(rate) = rate(totals.allocations) { (rate) " a second" }
                }))
                (card("Leaked", &number::bytes(totals.leaked_bytes), Some(totals.leaked_bytes), html! {
                    (number::count(totals.leaked_blocks)) " blocks live at the end"
                }))
                (card("Frees", &number::count(totals.frees), None, html! {
                    (number::count(totals.null_frees)) " of NULL, "
                    (number::count(totals.unknown_frees)) " of unseen blocks"
                }))
                (card("Failed", &number::count(totals.failed), None, html! { "calls that got no memory" }))
                (card("Stacks", &number::count(totals.distinct_stacks), None, html! { "distinct" }))
            }
        }
    }
}

fn card(name: &str, value: &str, exact: Option<u64>, remark: Markup) -> Markup {
    html! {
        div.card {
            dt { (name) }
            dd.figure title=[exact.map(|bytes| format!("{} bytes", number::count(bytes)))] { (value) }
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
                            td { span.name { (process.names.join(" → ")) } }
                            td.number { @if let Some(parent) = process.parent { (parent) } @else { "–" } }
                            td.number { (number::bytes(process.peak_bytes)) }
                            td.number { (number::bytes(process.allocated_bytes)) }
                            td.number { (number::count(process.allocations)) }
                            td.number { (number::bytes(process.leaked_bytes)) }
                            @if some_exec { td.number { (number::count(process.ended_by_exec_blocks)) " blocks" } }
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
                                span.name { (module.path) }
                                span.place {
                                    @if module.key.is_empty() { "its file could not be taken" }
                                    @else { code.key { (module.key) } }
                                }
                            }
                            td.number { (number::count(module.asked)) }
                            td.number { (number::share(module.named, module.asked)) }
                            td.number { (number::share(module.with_lines, module.asked)) }
                            td.notes { @for note in &module.notes { p { (note) } } }
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
                            th scope="row" { (reason) }
                            td.number { (number::count(*count)) }
                            td.number { (number::share(*count, total)) }
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
    fn dates_read_as_utc() {
        assert_eq!(date(1_772_366_405_999_999_999), "2026-03-01 12:00:05 UTC");
        assert_eq!(date(u64::MAX), "2554-07-21 23:34:33 UTC");
    }

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
