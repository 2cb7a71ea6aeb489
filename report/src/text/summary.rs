//! What comes before the tables of call sites.

use crate::{
    escape::printable,
    text::sites::plain_table,
    units::{bytes, count, counted, duration, share, wall_time},
};
use comfy_table::CellAlignment;
use memtrack_analyze::findings::{Findings, ProcessInfo, Verdict};
use std::io::{self, Write};

pub(super) fn verdict(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", printable(&verdict.headline))?;
    for problem in &verdict.problems {
        writeln!(out, "  missing: {}", printable(problem))?;
    }
    for note in &verdict.notes {
        writeln!(out, "  note: {}", printable(note))?;
    }
    writeln!(out)
}

pub(super) fn run(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let run = &findings.run;
    // Quoted as a shell would need it; a word that no shell takes is shown as
    // it is.
    let command: Vec<String> = run
        .command
        .iter()
        .map(|word| {
            shlex::try_quote(word).map_or_else(|_| word.clone(), |quoted| quoted.into_owned())
        })
        .collect();
    let ended = run
        .ended
        .as_ref()
        .map_or(String::new(), |ended| format!(", {ended}"));
    let lines = [
        ("Command", command.join(" ")),
        (
            "Recorded",
            format!(
                "{}, for {}{ended}",
                wall_time(run.start_wall_ns),
                duration(run.duration_ns)
            ),
        ),
        (
            "Machine",
            format!("{}, Linux {}", run.architecture, run.kernel),
        ),
        (
            "Recorder",
            format!("memtrack {}, backend {}", run.memtrack_version, run.backend),
        ),
    ];
    for (name, value) in lines {
        writeln!(out, "{name:<10} {}", printable(&value))?;
    }
    writeln!(out)
}

pub(super) fn totals(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let totals = &findings.totals;
    let mut lines = vec![
        (
            "Peak",
            format!(
                "{} live in {}, {} after the start",
                exact(totals.peak_bytes),
                counted(totals.peak_blocks, "block", "blocks"),
                duration(totals.peak_at_ns)
            ),
        ),
        (
            "Allocated",
            format!(
                "{} in {}",
                exact(totals.allocated_bytes),
                counted(totals.allocations, "call", "calls")
            ),
        ),
        ("Freed", counted(totals.frees, "block", "blocks")),
        (
            "Leaked",
            format!(
                "{} in {} live at the end of their process",
                exact(totals.leaked_bytes),
                counted(totals.leaked_blocks, "block", "blocks")
            ),
        ),
    ];
    if totals.exec_blocks > 0 {
        lines.push((
            "Dropped",
            format!(
                "{} in {} live at an exec (no leak)",
                exact(totals.exec_bytes),
                counted(totals.exec_blocks, "block", "blocks")
            ),
        ));
    }
    lines.push((
        "Also",
        format!(
            "{} failed, {} of NULL, {} of unknown blocks",
            counted(totals.failed, "call", "calls"),
            counted(totals.null_frees, "free", "frees"),
            count(totals.unknown_frees)
        ),
    ));
    lines.push(("Stacks", stacks(findings)));
    for (name, value) in lines {
        writeln!(out, "{name:<10} {value}")?;
    }
    Ok(())
}

/// `45.1 MiB (47,312,000 bytes)`.
fn exact(number: u64) -> String {
    if number < 1024 {
        return counted(number, "byte", "bytes");
    }
    format!("{} ({} bytes)", bytes(number), count(number))
}

fn stacks(findings: &Findings) -> String {
    let distinct = format!("{} distinct", count(findings.totals.distinct_stacks));
    let recorded = findings
        .terminations
        .iter()
        .fold(0u64, |sum, (_, number)| sum.saturating_add(*number));
    if recorded == 0 {
        return distinct;
    }
    let ends: Vec<String> = findings
        .terminations
        .iter()
        .map(|(reason, number)| format!("{} {}", share(*number, recorded), printable(reason)))
        .collect();
    format!(
        "{distinct}; {} recorded: {}",
        count(recorded),
        ends.join(", ")
    )
}

/// Nothing for a single process: its numbers are the totals.
pub(super) fn processes(
    processes: &[ProcessInfo],
    top: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    if processes.len() < 2 {
        return Ok(());
    }
    let mut by_peak: Vec<&ProcessInfo> = processes.iter().collect();
    by_peak.sort_by_key(|process| std::cmp::Reverse(process.peak_bytes));
    let mut table = plain_table(
        &["pid", "peak", "allocated", "calls", "leaked", "name"],
        &[CellAlignment::Right; 5],
    );
    for process in by_peak.iter().take(top) {
        table.add_row([
            process.pid.to_string(),
            bytes(process.peak_bytes),
            bytes(process.allocated_bytes),
            count(process.allocations),
            bytes(process.leaked_bytes),
            printable(&process.names.join(" > ")).into_owned(),
        ]);
    }
    writeln!(
        out,
        "\nProcesses: {}, by peak",
        count(processes.len() as u64)
    )?;
    writeln!(out, "{}", table.trim_fmt())?;
    if let Some(more @ 1..) = processes.len().checked_sub(top) {
        writeln!(out, "  and {} more", count(more as u64))?;
    }
    Ok(())
}
