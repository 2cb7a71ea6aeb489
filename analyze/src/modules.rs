//! The modules of an artifact, and how well each was named.

use crate::findings::ModuleInfo;
use memtrack_artifact::{Artifact, Symbols};

/// Keyed modules in the order of their ids, then the refused ones.
pub(crate) fn modules(artifact: &Artifact, symbols: &Symbols) -> Vec<ModuleInfo> {
    let kept = artifact.modules().iter().map(|module| {
        let audit = symbols
            .audits
            .get(module.id.index())
            .cloned()
            .unwrap_or_default();
        ModuleInfo {
            path: module
                .mapped_as
                .first()
                .map(|mapped| String::from_utf8_lossy(&mapped.path).into_owned())
                .unwrap_or_default(),
            key: module.key.to_string(),
            asked: audit.asked,
            named: audit.named,
            with_lines: audit.with_lines,
            notes: module.notes.iter().cloned().chain(audit.notes).collect(),
        }
    });
    let refused = artifact.refused_modules().iter().map(|refused| ModuleInfo {
        path: String::from_utf8_lossy(&refused.mapped_as.path).into_owned(),
        notes: vec![refused.reason.clone()],
        ..ModuleInfo::default()
    });
    kept.chain(refused).collect()
}
