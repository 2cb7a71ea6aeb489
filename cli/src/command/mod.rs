//! One file per command.

#[cfg(all(feature = "capture", target_os = "linux"))]
pub(crate) mod capture;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub(crate) mod doctor;
pub(crate) mod inspect;
pub(crate) mod report;
pub(crate) mod symbolize;

use anyhow::{Result, bail};
use memtrack_analyze::findings::Verdict;
use memtrack_artifact::{Artifact, Silent, Symbols};
use memtrack_report::escape::printable;
use std::path::PathBuf;

/// What can be said of an artifact's completeness without names.
pub(crate) fn verdict(artifact: &Artifact) -> Result<Verdict> {
    let symbols = Symbols {
        artifact_fingerprint: artifact.fingerprint(),
        ..Symbols::default()
    };
    let options = memtrack_analyze::Options::default();
    Ok(memtrack_analyze::analyze(artifact, &symbols, &options, &Silent)?.verdict)
}

/// A folder of debug files that was named must be there.
pub(crate) fn check_folders(folders: &[PathBuf]) -> Result<()> {
    match folders.iter().find(|folder| !folder.is_dir()) {
        Some(folder) => bail!("--debug-dir {}: no such folder", folder.display()),
        None => Ok(()),
    }
}

/// Says on stderr what is missing from an artifact, before anything else is
/// said of it.
pub(crate) fn say_incomplete(name: &std::path::Path, verdict: &Verdict) {
    if verdict.complete {
        return;
    }
    let name = name.display().to_string();
    eprintln!("memtrack: {}: {}", printable(&name), verdict.headline);
    for problem in &verdict.problems {
        eprintln!("memtrack:   {}", printable(problem));
    }
}
