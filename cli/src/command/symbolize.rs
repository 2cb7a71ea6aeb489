//! `memtrack symbolize`.

use crate::{
    args,
    exit::Exit,
    load,
    output::{self, Output},
    progress::Bar,
};
use anyhow::{Context, Result, bail};
use memtrack_artifact::{Artifact, write_symbols};
use std::path::Path;

pub(crate) fn run(args: &args::Symbolize) -> Result<Exit> {
    if args.output.is_some() && args.artifacts.len() > 1 {
        bail!(
            "--output takes one artifact, {} were given",
            args.artifacts.len()
        );
    }
    super::check_folders(&args.debug_dir)?;
    let mut exit = Exit::Success;
    let mut failed = 0usize;
    for path in &args.artifacts {
        let output = match &args.output {
            Some(output) => output.clone(),
            None => load::symbol_path(path),
        };
        // One bad artifact of many does not stop the others.
        match one(path, &output, args) {
            Ok(Exit::Success) => {}
            Ok(other) => exit = other,
            Err(error) => {
                eprintln!("memtrack: {error:#}");
                failed += 1;
            }
        }
    }
    if failed > 0 {
        if args.artifacts.len() > 1 {
            eprintln!(
                "memtrack: {failed} of {} artifacts failed",
                args.artifacts.len()
            );
        }
        return Ok(Exit::Failed);
    }
    Ok(exit)
}

fn one(path: &Path, output: &Path, args: &args::Symbolize) -> Result<Exit> {
    let artifact = Artifact::open(path)?;
    if output::place_of(output) == output::place_of(path) {
        bail!(
            "{}: the symbols would be written over the artifact; name another file with --output",
            path.display()
        );
    }
    let mut out = Output::create(output)?;
    // Only a replay tells all, and it is as much work as the unwinding: an
    // artifact that says itself that it is whole is believed here, unless it
    // is asked for.
    let incomplete = if args.require_complete || !says_complete(&artifact) {
        let verdict = super::verdict(&artifact)?;
        super::say_incomplete(path, &verdict);
        !verdict.complete
    } else {
        false
    };
    let options = memtrack_symbolize::Options {
        threads: args.threads.map_or(0, std::num::NonZeroUsize::get),
        debug_dirs: args.debug_dir.clone(),
    };
    let symbols = memtrack_symbolize::symbolize(&artifact, &options, &Bar::default())
        .with_context(|| format!("{}: cannot be symbolized", path.display()))?;
    write_symbols(&mut out, &symbols)?;
    out.finish()
        .with_context(|| format!("{}: cannot be written", output.display()))?;
    let complete = symbols
        .stacks
        .iter()
        .filter(|stack| stack.termination.is_complete())
        .count();
    eprintln!(
        "memtrack: {}: {} stacks ({} to their root), {} distinct frames",
        output.display(),
        symbols.stacks.len(),
        complete,
        symbols.frames.len()
    );
    Ok(if args.require_complete && incomplete {
        Exit::Incomplete
    } else {
        Exit::Success
    })
}

/// Whether the file is whole and capture noted no loss that affects counts.
fn says_complete(artifact: &Artifact) -> bool {
    let losses = &artifact.losses().counts;
    artifact.completeness().is_whole()
        && !losses
            .iter()
            .any(|(reason, loss)| loss.count > 0 && reason.affects_counts())
}
