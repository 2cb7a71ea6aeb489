//! An artifact with its symbols: read from the symbol file beside it, or made
//! on the fly.

use crate::progress::Bar;
use anyhow::{Context, Result};
use memtrack_artifact::{Artifact, Symbols, read_symbols};
use std::path::{Path, PathBuf};

/// Where the symbol file of an artifact stands.
pub(crate) fn symbol_path(artifact: &Path) -> PathBuf {
    artifact.with_extension("mts")
}

/// The newest artifact of the working directory.
pub(crate) fn newest_artifact() -> Result<PathBuf> {
    let mut newest = None;
    for entry in std::fs::read_dir(".").context("the working directory cannot be read")? {
        let entry = entry.context("the working directory cannot be read")?;
        let path = PathBuf::from(entry.file_name());
        if path.extension().is_none_or(|extension| extension != "mtk") {
            continue;
        }
        let changed = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .with_context(|| format!("{}: cannot be looked at", path.display()))?;
        if newest.as_ref().is_none_or(|(time, _)| changed > *time) {
            newest = Some((changed, path));
        }
    }
    newest.map(|(_, path)| path).context(
        "no artifact (*.mtk) in this folder: name one, or make one with \
         `memtrack capture -- COMMAND`",
    )
}

/// The symbols of an artifact. A missing or stale symbol file is no failure:
/// they are made from the artifact alone.
pub(crate) fn symbols(artifact: &Artifact, path: &Path, bar: &Bar) -> Result<Symbols> {
    let beside = symbol_path(path);
    if beside.exists() {
        match read_symbols(&beside) {
            Ok(symbols) if symbols.artifact_fingerprint == artifact.fingerprint() => {
                return Ok(symbols);
            }
            Ok(_) => eprintln!(
                "memtrack: {}: made from another artifact; symbolizing again",
                beside.display()
            ),
            Err(error) => eprintln!("memtrack: {error}; symbolizing again"),
        }
    }
    memtrack_symbolize::symbolize(artifact, &memtrack_symbolize::Options::default(), bar)
        .with_context(|| format!("{}: cannot be symbolized", path.display()))
}
