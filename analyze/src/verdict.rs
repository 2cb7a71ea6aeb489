//! Whether the numbers are the whole truth, in words.

use crate::{
    findings::{Totals, Verdict},
    replay::Counts,
};
use memtrack_artifact::{Completeness, Losses, PauseReason, RefusedModule};
use num_format::{Locale, ToFormattedString};
use std::collections::BTreeMap;

/// What a verdict is made from.
pub(crate) struct Evidence<'a> {
    pub(crate) completeness: &'a Completeness,
    pub(crate) losses: &'a Losses,
    pub(crate) refused: &'a [RefusedModule],
    /// How the run ended is known.
    pub(crate) ended: bool,
    pub(crate) totals: &'a Totals,
    pub(crate) counts: &'a Counts,
    /// Effects replayed out of order.
    pub(crate) late: u64,
    /// Chunks that could not be read, and why.
    pub(crate) unreadable: &'a [String],
    /// The symbols were made from another artifact.
    pub(crate) stale_symbols: bool,
    /// Stacks whose root was not reached, by reason, and all stacks.
    pub(crate) cut_stacks: &'a [(String, u64)],
    pub(crate) stacks: u64,
}

/// The verdict. Complete means: nothing that affects a count is missing, and
/// the file is whole. Missing stacks and names are problems, but numbers hold.
pub(crate) fn verdict(evidence: &Evidence<'_>) -> Verdict {
    let mut lost = 0u64;
    let mut problems = Vec::new();
    for (reason, loss) in &evidence.losses.counts {
        if loss.count == 0 {
            continue;
        }
        if reason.affects_counts() {
            lost = lost.saturating_add(loss.count);
        }
        problems.push(format!("{} {}", grouped(loss.count), reason.describe()));
    }
    let whole = evidence.completeness.is_whole() && evidence.unreadable.is_empty();
    problems.extend(file_problems(evidence.completeness));
    problems.extend(evidence.unreadable.iter().cloned());
    if evidence.stale_symbols {
        problems.push(
            "the names belong to another artifact and may be wrong: symbolize this one again"
                .to_owned(),
        );
    }
    problems.extend(evidence.refused.iter().map(|refused| {
        format!(
            "no names from {}: {}",
            String::from_utf8_lossy(&refused.mapped_as.path),
            refused.reason
        )
    }));

    let complete = whole && lost == 0;
    let allocations = counted(evidence.totals.allocations, "allocation", "allocations");
    let headline = match (complete, lost) {
        (true, _) => format!("complete: {allocations}, 0 lost"),
        (false, 0) => format!(
            "INCOMPLETE: {allocations} in what is left of the file, an unknown number is missing"
        ),
        (false, lost) => {
            let rest = if whole {
                ""
            } else {
                ", and the file is not whole"
            };
            format!("INCOMPLETE: {allocations}, {} lost{rest}", grouped(lost))
        }
    };
    Verdict {
        complete,
        headline,
        problems,
        notes: notes(evidence),
    }
}

fn file_problems(completeness: &Completeness) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(offset) = completeness.cut_at {
        problems.push(format!(
            "the file is cut at byte {}: what came after is missing",
            grouped(offset)
        ));
    } else if !completeness.finished {
        problems.push("the recording did not end in order: its last part is missing".to_owned());
    }
    problems.extend(completeness.damage.iter().map(|damage| {
        format!(
            "damaged at byte {}: {}",
            grouped(damage.offset),
            damage.what
        )
    }));
    problems
}

fn notes(evidence: &Evidence<'_>) -> Vec<String> {
    let counts = evidence.counts;
    let mut notes = evidence.losses.notes.clone();
    notes.extend(pauses(evidence.losses));
    if !evidence.ended {
        notes.push("calls of free(NULL) are not known: they are counted at the end".to_owned());
    }
    let remarks = [
        (
            counts.unknown_frees,
            "blocks were freed whose allocation was not seen (made before recording, or lost)",
        ),
        (
            counts.ended_unseen,
            "blocks ended unseen: their address was given out again",
        ),
        (
            counts.inherited_frees,
            "frees in forked children of blocks copied from their parent (not counted as frees)",
        ),
        (
            counts.doubled_frees,
            "frees were recorded twice and counted once",
        ),
        (
            counts.exits_unseen,
            "processes ended unseen: their pid came back",
        ),
        (
            evidence.late,
            "events were replayed out of order: they arrived too late",
        ),
    ];
    notes.extend(
        remarks
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", grouped(*count))),
    );
    notes.extend(evidence.cut_stacks.iter().map(|(reason, count)| {
        format!(
            "{} of {} stacks are not known to their root: {reason}",
            grouped(*count),
            grouped(evidence.stacks)
        )
    }));
    notes
}

/// One line for each reason why processes were held.
fn pauses(losses: &Losses) -> Vec<String> {
    let mut by_reason: BTreeMap<PauseReason, (u64, u64, u64)> = BTreeMap::new();
    for pause in &losses.pauses {
        let held_ns = pause.end_ns.saturating_sub(pause.start_ns);
        let (count, total_ns, longest_ns) = by_reason.entry(pause.reason).or_default();
        *count = count.saturating_add(1);
        *total_ns = total_ns.saturating_add(held_ns);
        *longest_ns = held_ns.max(*longest_ns);
    }
    by_reason
        .iter()
        .map(|(reason, (count, total_ns, longest_ns))| {
            let why = match reason {
                PauseReason::Pressure => "because a ring was filling",
                PauseReason::Attach => "to probe a newly mapped file",
                _ => "for another reason",
            };
            format!(
                "the program was held {} {why}: {} in all, {} at most",
                counted(*count, "time", "times"),
                milliseconds(*total_ns),
                milliseconds(*longest_ns)
            )
        })
        .collect()
}

/// `318.20 ms`, `0.32 ms`.
fn milliseconds(ns: u64) -> String {
    let hundredths = (ns.saturating_add(5_000)) / 10_000;
    format!("{}.{:02} ms", grouped(hundredths / 100), hundredths % 100)
}

fn grouped(number: u64) -> String {
    number.to_formatted_string(&Locale::en)
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}
