//! One analysis from the artifact to the findings.

use crate::{
    Error, Options,
    findings::{Findings, Run, Totals},
    join, modules, names,
    order::{Order, horizons},
    replay::Replay,
    stacks::MergedStacks,
    threads::Threads,
    timeline::Timeline,
    verdict::{Evidence, verdict},
};
use memtrack_artifact::{
    Architecture, Artifact, Columns, EventChunk, EventDecoder, ExitStatus, Progress, Symbols,
    Termination,
};
use std::{collections::BTreeMap, sync::mpsc, thread};

/// Decoded chunks that may wait for the replay: one is being replayed, one is
/// ready, one is being decoded.
const DECODED_AHEAD: usize = 1;

pub(crate) fn run(
    artifact: &Artifact,
    symbols: &Symbols,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Findings, Error> {
    let stacks = MergedStacks::new(symbols);
    let chunks = artifact.event_chunks();
    let start_ns = artifact.header().start_monotonic_ns;
    let last_event_ns = chunks.iter().map(|chunk| chunk.max_time_ns).max();
    let end_ns = artifact
        .ending()
        .map_or(0, |ending| ending.end_monotonic_ns)
        .max(last_event_ns.unwrap_or(start_ns));
    let timeline = Timeline::new(options.timeline_points, start_ns, end_ns);
    let mut replay = Replay::new(
        &stacks,
        Threads::new(artifact.module_records()),
        timeline,
        options.detail,
    );
    let mut order = Order::default();
    let unreadable = feed(&chunks, &mut order, &mut replay, progress);
    let outcome = replay.finish();

    let tables = join::join(
        symbols,
        &stacks,
        &outcome.costs,
        outcome.details,
        &outcome.processes,
    );
    let counts = outcome.counts;
    let totals = Totals {
        allocations: outcome.total.allocations,
        frees: counts.frees,
        allocated_bytes: outcome.total.allocated_bytes,
        failed: counts.failed,
        null_frees: artifact.ending().map_or(0, |ending| ending.null_frees),
        unknown_frees: counts.unknown_frees,
        thread_end_frees: counts.thread_end_frees,
        inherited_frees: counts.inherited_frees,
        ended_unseen: counts.ended_unseen,
        peak_bytes: outcome.peak.live_bytes,
        peak_blocks: outcome.peak.live_blocks,
        peak_at_ns: outcome.peak_at_ns.saturating_sub(start_ns),
        leaked_bytes: counts.leaked_bytes,
        leaked_blocks: counts.leaked_blocks,
        exec_bytes: counts.exec_bytes,
        exec_blocks: counts.exec_blocks,
        distinct_stacks: tables.distinct_stacks,
    };
    let terminations = terminations(symbols);
    let cut_stacks: Vec<(String, u64)> = terminations
        .iter()
        .filter(|(reason, _)| reason != Termination::Root.describe())
        .cloned()
        .collect();
    let verdict = verdict(&Evidence {
        completeness: artifact.completeness(),
        losses: artifact.losses(),
        refused: artifact.refused_modules(),
        ended: artifact.ending().is_some(),
        totals: &totals,
        counts: &counts,
        late: order.late(),
        unreadable: &unreadable,
        stale_symbols: !symbols.stacks.is_empty()
            && symbols.artifact_fingerprint != artifact.fingerprint(),
        cut_stacks: &cut_stacks,
        stacks: symbols.stacks.len() as u64,
    });
    Ok(Findings {
        verdict,
        run: describe_run(artifact, end_ns.saturating_sub(start_ns)),
        totals,
        timeline: outcome.timeline,
        frames: tables.frames,
        stacks: tables.stacks,
        sites: tables.sites,
        processes: names::describe(&outcome.processes, artifact.module_records()),
        modules: modules::modules(artifact, symbols),
        terminations,
        detail: tables.detail,
    })
}

/// Replays all chunks; returns what could not be read.
fn feed(
    chunks: &[EventChunk<'_>],
    order: &mut Order,
    replay: &mut Replay<'_>,
    progress: &dyn Progress,
) -> Vec<String> {
    let starts: Vec<u64> = chunks.iter().map(|chunk| chunk.min_start_ns).collect();
    let total = chunks
        .iter()
        .fold(0u64, |sum, chunk| sum.saturating_add(chunk.count as u64));
    let mut unreadable = Vec::new();
    progress.start("replay", total);
    thread::scope(|scope| {
        let (decoded, to_replay) = mpsc::sync_channel(DECODED_AHEAD);
        // Replayed batches go back, and their memory is used again.
        let (used, to_reuse) = mpsc::channel();
        scope.spawn(move || {
            let mut decoder = EventDecoder::default();
            for chunk in chunks {
                let mut batch = to_reuse.try_recv().unwrap_or_default();
                let result = decoder
                    .decode(chunk, wanted_columns(), &mut batch)
                    .map(|()| batch);
                if decoded.send(result).is_err() {
                    return;
                }
            }
        });
        for ((horizon_ns, chunk), decoded) in horizons(&starts).iter().zip(chunks).zip(to_replay) {
            match decoded {
                Ok(batch) => {
                    batch.iter().for_each(|event| order.push(&event));
                    // The decoder is gone after its last chunk.
                    used.send(batch).ok();
                }
                Err(error) => unreadable.push(format!(
                    "a chunk of {} events cannot be read: {error}",
                    chunk.count
                )),
            }
            order.release(*horizon_ns, |effects| replay.apply_all(effects));
            progress.advance(chunk.count as u64);
        }
    });
    progress.finish();
    unreadable
}

/// All but the alignment.
fn wanted_columns() -> Columns {
    [
        Columns::TIME,
        Columns::THREAD,
        Columns::ADDRESS,
        Columns::SIZE,
        Columns::OLD_ADDRESS,
        Columns::STACK,
    ]
    .into_iter()
    .fold(Columns::START, Columns::and)
}

fn describe_run(artifact: &Artifact, duration_ns: u64) -> Run {
    let header = artifact.header();
    Run {
        command: header.command.iter().map(ToString::to_string).collect(),
        start_wall_ns: header.start_wall_ns,
        duration_ns,
        kernel: header.kernel.clone(),
        architecture: match header.architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        }
        .to_owned(),
        backend: header.backend.clone(),
        memtrack_version: header.memtrack_version.clone(),
        ended: artifact
            .ending()
            .and_then(|ending| ending.status)
            .map(|status| match status {
                ExitStatus::Code(code) => format!("exit code {code}"),
                ExitStatus::Signal(signal) => format!("signal {signal}"),
            }),
        options: header.options.clone(),
    }
}

/// Why the recorded stacks end, by descending number.
fn terminations(symbols: &Symbols) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for stack in &symbols.stacks {
        *counts.entry(stack.termination.describe()).or_default() += 1;
    }
    let mut sorted: Vec<(String, u64)> = counts
        .into_iter()
        .map(|(reason, count)| (reason.to_owned(), count))
        .collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sorted
}
