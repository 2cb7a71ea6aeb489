//! Addresses to names: function, inlined calls, file and line.

mod companions;
mod dwarf;
mod image;
mod module;
mod nesting;
mod ranges;
mod scopes;
pub(crate) mod sections;
mod strings;
pub(crate) mod symbols;

pub(crate) use module::{ModuleNames, name_all as name_module};
pub(crate) use strings::Strings;

use memtrack_artifact::{Artifact, Module, Progress, Svma};
use rayon::prelude::*;
use std::path::PathBuf;

/// Debug information of this many bytes and more is taken apart by all workers
/// together, one module after another. Smaller modules go to one worker each.
/// So the sections in memory are those of one large module, or of one small one
/// per worker.
const LARGE_BYTES: u64 = 32 << 20;

/// Debug information kept of a module and its debug files, bytes.
fn debug_bytes(module: &Module) -> u64 {
    let is_debug = |name: &str| {
        let plain = name.split_once(':').map_or(name, |(_, name)| name);
        plain.starts_with(".debug_") || plain.starts_with(".zdebug_")
    };
    let sections = module.sections.iter();
    sections
        .filter(|section| is_debug(&section.name))
        .fold(0, |sum, section| sum.saturating_add(section.len))
}

/// Names addresses. `requests` has the sorted, distinct addresses of each
/// module; the answer has the same order.
pub(crate) fn name_all(
    artifact: &Artifact,
    requests: &[Vec<Svma>],
    debug_dirs: &[PathBuf],
    progress: &dyn Progress,
) -> Vec<ModuleNames> {
    let total = requests.iter().map(|request| request.len() as u64).sum();
    progress.start("naming addresses", total);
    let asked = |position: usize| requests.get(position).map_or(&[][..], Vec::as_slice);
    let modules = artifact.modules();
    let is_large = |position: &usize| {
        let module = modules.get(*position);
        module.is_some_and(|module| debug_bytes(module) >= LARGE_BYTES)
    };
    let name = |position: usize, pieces| {
        let addresses = asked(position);
        let names = match modules.get(position) {
            Some(module) if !addresses.is_empty() => {
                module::name_all(artifact, module, addresses, debug_dirs, pieces)
            }
            _ => ModuleNames::default(),
        };
        progress.advance(addresses.len() as u64);
        (position, names)
    };
    let (large, mut small): (Vec<usize>, Vec<usize>) = (0..requests.len()).partition(is_large);
    // The longest first, so that no worker is left with it at the end.
    small.sort_by_key(|position| std::cmp::Reverse(asked(*position).len()));

    let mut answers: Vec<(usize, ModuleNames)> = large
        .into_iter()
        .map(|position| name(position, rayon::current_num_threads()))
        .collect();
    answers.par_extend(small.into_par_iter().map(|position| name(position, 1)));
    answers.sort_unstable_by_key(|(position, _)| *position);
    progress.finish();
    answers.into_iter().map(|(_, names)| names).collect()
}
